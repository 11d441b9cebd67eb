"""Versions: what a run publishes, what readers see meanwhile, and who may write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.four_models import TESTS, A, B, F, four_models, ids, land


@pytest.fixture(scope="module")
def make(make_project: Callable[..., DbtProject]) -> Callable[..., DbtProject]:
    return partial(four_models, make_project)


@pytest.fixture(scope="module")
def project(make: Callable[..., DbtProject]) -> DbtProject:
    """A@20 -> B@20, C@20 published; then A@21 -> B@21 while C's run failed."""
    project = make()
    assert "Published as version 1" in project.run("build").log
    land(project, 3, 5)
    done = project.run("build", vars={"c_stops": True}, expect_ok=False)
    assert done.statuses()["b"] == "success"
    assert done.statuses()["c"] == "error"
    return project


def test_a_failed_run_publishes_nothing(project: DbtProject) -> None:
    assert ids(project, "dw.b") == [0, 1, 2, 3, 4]
    assert ids(project, "dw.c") == [0, 1, 2]
    for name in "abcd":
        assert ids(project, f"published.{name}") == [0, 1, 2], name
    assert project.column("select version from dw.meta_version") == [1]


def test_a_version_is_read_by_its_number(project: DbtProject) -> None:
    asked = (
        "select count(*) as n from {{ ref('b') }} as b full join {{ ref('c') }} as c on b.id = c.id"
    )
    shown = project.run("show", "--inline", asked, "--output", "json", vars={"as_of_version": 1})
    assert '"n": 3' in shown.log
    shown = project.run("show", "--inline", asked, "--output", "json")
    assert '"n": 5' in shown.log
    assert project.run("test", vars={"as_of_version": 1}).statuses()["unique_d_id"] == "pass"
    refused = project.run("run", vars={"as_of_version": 1}, expect_ok=False)
    assert "as_of_version reads a version, it builds nothing" in str(refused.exception)
    unknown = project.run("show", "--inline", asked, vars={"as_of_version": 7}, expect_ok=False)
    assert "There is no version '7'" in f"{unknown.exception}{unknown.log}"


@pytest.mark.in_turn
def test_what_a_version_does_not_have_is_not_shown_as_of_it(
    make: Callable[..., DbtProject],
) -> None:
    project = make()
    project.run("build")
    project.write(
        {
            "models/later.sql": "select id from {{ ref('b') }}",
            "models/hidden.sql": "{{ config(meta={'published': false}) }} select 1 as id",
            "models/_later.yml": """
                models: [{name: later, columns: [{name: id, data_tests: [unique]}]}]
            """,
        }
    )
    project.run("build")
    for name in ("later", "hidden"):
        asked = "show", "--inline", f"select * from {{{{ ref('{name}') }}}}"
        refused = project.run(*asked, vars={"as_of_version": 1}, expect_ok=False)
        assert f"ref('{name}'): version 1 has no dw.{name}, which came later" in (
            f"{refused.exception}{refused.log}"
        )
    assert project.run("show", "-s", "later", vars={"as_of_version": 1}).ok
    tested = project.run("test", vars={"as_of_version": 1})
    assert tested.log.count("Version 1 has no dw.later, which came later") == 1


@pytest.mark.in_turn
def test_the_next_run_publishes_what_the_failed_one_left(make: Callable[..., DbtProject]) -> None:
    project = make()
    project.run("build")
    land(project, 3, 5)
    project.run("build", vars={"c_stops": True}, expect_ok=False)
    done = project.run("build")
    assert "Published as version 2" in done.log
    for name in "abcd":
        assert ids(project, f"published.{name}") == [0, 1, 2, 3, 4], name
    row = project.query("select * from dw.meta_version order by version desc limit 1")[0]
    assert row["snapshots"].keys() == {"dw.a", "dw.b", "dw.c"}
    assert row["inputs"]["dw.b"] == {"dw.a": row["snapshots"]["dw.a"]}
    assert row["stale"] == []


def test_a_model_that_mixes_hours_of_utc_with_business_days_is_warned_of(
    make: Callable[..., DbtProject],
) -> None:
    hourly = "select current_date() as cut_date, hour(current_timestamp()) as h"
    meant = "{{ config(meta={'utc_times': true}) }} "
    project = make(hourly=hourly, meant=meant + hourly)
    log = project.run("run", "-s", "hourly", "meant").log
    assert "hourly: hour(current_timestamp()) goes by UTC" in log
    assert "meant: hour" not in log


@pytest.mark.in_turn
def test_a_selection_that_leaves_readers_behind_is_published_only_where_that_is_allowed(
    make: Callable[..., DbtProject],
) -> None:
    project = make()
    project.run("build")
    land(project, 3, 4)
    alone = project.run("build", "--select", "a").log
    assert (
        "Not published: b, c would stand on older rows of a than the version has. Build them too, "
        "dbt build -s a+, or allow it by --vars 'allow_behind: true'." in alone
    )
    assert ids(project, "published.a") == ids(project, "published.d") == [0, 1, 2]
    allowed = project.run("build", "--select", "a", vars={"allow_behind": True}).log
    assert "Published as version 2: 1 tables and views" in allowed
    assert "made from older rows than the others: dw.b, dw.c" in allowed
    assert ids(project, "published.a") == [0, 1, 2, 3]
    assert ids(project, "published.d") == [0, 1, 2]
    # b and c take what a got; nobody is behind any more
    project.run("build", "--select", "b", "c", "d")
    assert project.query("select * from dw.meta_version order by version")[-1]["stale"] == []
    # a commit that brings no rows leaves nobody behind
    project.query("insert into dw.raw select * from dw.raw where false")
    assert "Not published" not in project.run("build", "--select", "a").log
    # a is built, not published; what is made of it can't be published without it
    land(project, 4, 5)
    project.run("run", "--select", "a")
    refused = project.run("build", "--select", "b")
    assert "Not published: b was made from rows of a that no version holds" in refused.log
    assert ids(project, "published.b") == [0, 1, 2, 3]


@pytest.mark.soak
def test_readers_of_a_table_that_is_stored_under_another_name_are_left_behind(
    make: Callable[..., DbtProject],
) -> None:
    project = make()
    project.run("build")
    land(project, 3, 4)
    project.write({"models/a.sql": "{{ config(alias='renamed') }}" + A})
    alone = project.run("build", "--select", "a").log
    assert (
        "Not published: b, c would stand on dw.a, which is no model's table any more. Build them "
        "too, dbt build, or allow it by --vars 'allow_behind: true'." in alone
    )
    assert ids(project, "published.a") == ids(project, "published.d") == [0, 1, 2]
    assert "Published as version 2" in project.run("build").log
    assert ids(project, "published.renamed") == ids(project, "published.d") == [0, 1, 2, 3]
    # readers of a table that has no place in versions any more stand on it all the same
    unpublished = "{{ config(alias='renamed', meta={'published': False}) }}" + A
    project.write({"models/a.sql": unpublished})
    assert "Published as version 3" in project.run("build", "--select", "d").log


@pytest.mark.in_turn
def test_what_a_table_is_called_does_not_matter_to_what_expires(
    make: Callable[..., DbtProject],
) -> None:
    project = make()
    project.run("build")
    land(project, 3, 4)
    project.query("alter table dw.raw rename to dw.log")
    project.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    renamed = TESTS.replace("{name: raw}", "{name: raw, identifier: log}")
    project.write({"models/_models.yml": renamed})
    assert project.run("build").results["a"].message == "+1 rows"
    assert ids(project, "published.d") == [0, 1, 2, 3]


@pytest.mark.soak
def test_tables_that_were_dropped_by_hand_are_built_and_published_again(
    make: Callable[..., DbtProject],
) -> None:
    project = make()
    project.run("build")
    for table in ("a", "b"):
        project.query(f"drop table dw.{table}")

    assert "Published as version 2" in project.run("build").log

    assert project.column("select id from published.a order by id") == [0, 1, 2]
    assert project.column("select count(*) from published.d") == [3]


def test_versions_are_listed_and_compared(project: DbtProject) -> None:
    project.run("build")
    listed = project.run("run-operation", "list_versions").log
    assert "1 " in listed and "2 " in listed
    output = project.run(
        "run-operation", "diff_versions", "--args", "{first: 1, last: 2, select: b, rows: 1}"
    ).log
    assert "dw.b: 2 added, 0 removed, 0 changed" in output
    assert '+ {"id":3,"name":"A3"}' in output
    assert "dw.c" not in output
    for operation, versions in (("diff_versions", "first: 1, last: 2, "), ("compact", "")):
        chosen = f"{{{versions}select: no_table}}"
        refused = project.run("run-operation", operation, "--args", chosen, expect_ok=False)
        assert "got 'no_table'" in f"{refused.exception}{refused.log}", operation


@pytest.mark.in_turn
@pytest.mark.parametrize("columns_change", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_version_is_gone_back_to(make: Callable[..., DbtProject], columns_change: bool) -> None:
    project = make(f=F)
    project.run("build")
    refresh = ("--full-refresh",) if columns_change else ()
    land(project, 3, 5)
    project.run("build", *refresh, vars={"more": columns_change})
    gone_back = project.run("run-operation", "roll_back", "--args", "{version: 1}").log
    assert "Published version 1 again, as version 3." in gone_back
    for name in "abcdf":
        assert ids(project, f"published.{name}") == [0, 1, 2], name
    if columns_change:
        assert "dw.f__runs had other columns then" in gone_back
        return
    for name in "abcdf":
        assert ids(project, f"dw.{name}") == [0, 1, 2], name
    land(project, 7, 8)
    project.run("build")  # takes what came after the version again
    for name in "abcdf":
        assert ids(project, f"published.{name}") == [0, 1, 2, 3, 4, 7], name
        assert ids(project, f"dw.{name}") == [0, 1, 2, 3, 4, 7], name
    lost = project.run("run-operation", "roll_back", "--args", "{version: 9}", expect_ok=False)
    assert "There is no version 9" in f"{lost.exception}{lost.log}"


def code_of(project: DbtProject, table: str, version: int) -> str:
    """What made a table's commit that a version names."""
    return project.column(
        "select s.summary['dbt.code'] from dw.meta_version v "
        f"join dw.{table}.snapshots s on s.snapshot_id = v.snapshots['dw.{table}'] "
        f"where v.version = {version}"
    )[0]


@pytest.mark.soak
def test_an_old_version_is_read_as_it_was_while_models_change(
    make: Callable[..., DbtProject],
) -> None:
    """A column more, other SQL, a full refresh: who reads version 1 sees none of it."""
    b = B.replace(
        "incremental'",
        "incremental', on_schema_change='append_new_columns', on_definition_change='accept'",
    )
    project = make(b=b)
    project.run("build")
    asked = ("show", "--inline", "select * from {{ ref('b') }} order by id", "--output", "json")
    before = project.run(*asked, vars={"as_of_version": 1}).raw.results[0].agate_table
    land(project, 3, 4)
    changed = b.replace("upper(name) as name", "lower(name) as name, id * 2 as twice")
    project.write({"models/b.sql": changed})
    assert "Published as version 2" in project.run("build").log
    project.write({"models/b.sql": changed.replace("id * 2", "id * 3")})
    assert "Published as version 3" in project.run("build", "--full-refresh", "-s", "b").log

    seen = {
        version: [
            tuple(row)
            for row in project.run(*asked, vars={"as_of_version": version})
            .raw.results[0]
            .agate_table.rows
        ]
        for version in (1, 2, 3)
    }
    old = [(0, "A0"), (1, "A1"), (2, "A2")]
    assert seen[1] == old == [tuple(row) for row in before.rows]
    assert seen[2] == [(*row, None) for row in old] + [(3, "a3", 6)]
    assert seen[3] == [(id, f"a{id}", 3 * id) for id in range(4)]
    now = project.query("select * from published.b order by id")
    assert [tuple(row.values()) for row in now] == seen[3]
    output = project.run(
        "run-operation", "diff_versions", "--args", "{first: 1, last: 3, select: b}"
    ).log
    assert "new columns: twice" in output
    codes = [code_of(project, "b", version) for version in (1, 2, 3)]
    assert len(set(codes)) == 3
    # a is what it was: its commits say the code that made them
    assert code_of(project, "a", 1) == code_of(project, "a", 2) == code_of(project, "a", 3)


@pytest.mark.soak
def test_what_no_version_names_expires_and_all_else_stays(
    make: Callable[..., DbtProject],
) -> None:
    g = "{{ config(materialized='view') }} select id from {{ ref('f') }}"
    h = """
        {{ config(materialized='incremental') }}
        select id, row_kind, sign from {{ new_changes(ref('f')) }}
    """
    project = make(f=F, g=g, h=h)
    for end in range(3, 8):
        project.run("build")
        land(project, end, end + 1)
    project.run("run-operation", "keep_version", "--args", "{version: 2, tag: paid}")
    output = project.run("run-operation", "expire_versions", "--args", "{keep: 2, days: 0}").log
    assert "3 versions are kept" in output
    assert project.column("select version from dw.meta_version order by 1") == [2, 4, 5]
    # a: what versions 2, 4 and 5 name; b reads on from 5
    assert len(project.column("select snapshot_id from dw.a.snapshots")) == 3
    asked = ("show", "--inline", "select count(*) as n from {{ ref('d') }}", "--output", "json")
    assert '"n": 4' in project.run(*asked, vars={"as_of_version": "paid"}).log
    assert '"n": 6' in project.run(*asked, vars={"as_of_version": 4}).log
    keep = ("run-operation", "keep_version", "--args")
    refused = project.run(*keep, "{version: 5, tag: paid}", expect_ok=False)
    assert "Version 2 has the tag 'paid'" in f"{refused.exception}{refused.log}"
    project.run(*keep, "{version: 2, tag: paid}")
    done = project.run("build")
    assert done.results["b"].adapter_response["rows_affected"] == 1
    output = project.run("run-operation", "compact").log
    assert "6 files became 1" in output
    assert "Published as version 7: the same rows." in output
    assert ids(project, "published.d") == list(range(8))
    assert "Published" not in project.run("build").log
    assert ids(project, "dw.d") == list(range(8))

    command = ("run-operation", "compact", "--args", "{select: f, merge_runs: true}")
    output = project.run(*command).log
    assert "dw.f__runs: 6 runs became 1" in output
    assert "Published as version 8: the same rows." in output
    newest = "select queries['{}'] from dw.meta_version order by version desc limit 1"
    for name in ("f", "g"):
        assert ids(project, f"published.{name}") == ids(project, f"dw.{name}") == list(range(8))
        assert "group by" not in project.column(newest.format(f"dw.{name}"))[0]
    assert "group by" not in project.query("show create table dw.f")[0]["createtab_stmt"]
    # h records the commit, and gets no rows of it
    assert "version 9: 1 tables and views have changed" in project.run("build").log
    assert ids(project, "dw.h") == list(range(8))
    assert "There was nothing to compact." in project.run(*command).log
    project.write({"models/f.sql": F.replace("'name'}", "'name', 'keep_when': 'id > 1'}")})
    assert "f__runs keeps its runs: its model is declared differently" in project.run(*command).log


def test_files_of_no_snapshot_are_deleted(project: DbtProject) -> None:
    (folder,) = project.warehouse.rglob("a/data")
    (folder / "left.parquet").write_bytes(b"left behind")
    before = ids(project, "dw.a")
    output = project.run("run-operation", "remove_orphans").log
    assert "1 files that no table knows were deleted" in output
    assert not (folder / "left.parquet").exists()
    assert ids(project, "dw.a") == before


@pytest.mark.in_turn
def test_a_build_is_held_back_compared_and_then_published_or_dropped(
    make: Callable[..., DbtProject],
) -> None:
    project = make(f=F)
    early = project.run("build", vars={"hold_back": True})
    assert "Not published: there is no version yet" in early.log
    project.run("build")
    land(project, 3, 5)
    held = project.run("build", vars={"hold_back": True}).log
    assert "where the candidate differs from version 1" in held
    assert "dw.b: 2 added, 0 removed, 0 changed" in held
    assert "dw.f: 2 added" in held
    assert ids(project, "published.b") == [0, 1, 2]
    asked = ("show", "--inline", "select count(*) as n from {{ ref('d') }}", "--output", "json")
    assert '"n": 5' in project.run(*asked, vars={"as_of_version": "candidate"}).log
    refused = project.run("build", expect_ok=False)
    assert "A build is held back and waits for a decision" in str(refused.exception)

    project.run("run-operation", "drop_candidate")
    for name in "abcdf":
        assert ids(project, f"dw.{name}") == [0, 1, 2], name
    again = project.run("run-operation", "drop_candidate", expect_ok=False)
    assert "No build is held back" in f"{again.exception}{again.log}"

    land(project, 5, 6)
    project.run("build", vars={"hold_back": True})
    assert "Published as version 2." in project.run("run-operation", "publish_candidate").log
    for name in "abcdf":
        assert ids(project, f"published.{name}") == list(range(6)), name
    kept = project.query(
        "select groups_differing as n, count_got as got, verdict from dw.meta_quality "
        "where check_name = 'dw.b: candidate as version 1' order by checked_at"
    )
    assert [(row["n"], row["got"], row["verdict"]) for row in kept] == [
        (2, 5, "differs"),
        (3, 6, "differs"),
    ]
    assert "Published" not in project.run("build").log


@pytest.mark.soak
def test_no_reader_sees_two_versions_at_once(make: Callable[..., DbtProject]) -> None:
    project = make()
    project.run("build")
    builds_end, seen, errors = threading.Event(), set(), []
    counts = [f"(select count(*) from published.{name}) as {name}" for name in "abcd"]

    def read() -> None:
        while not builds_end.is_set():
            try:
                (row,) = project.query(f"select {', '.join(counts)}")
                seen.add(tuple(row.values()))
            except Exception as exc:
                errors.append(str(exc))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for end in range(4, 6):
        land(project, end - 1, end)
        assert "Published as version" in project.run("build").log
    builds_end.set()
    for reader in readers:
        reader.join()
    again = [error for error in errors if "was published in this moment. Read again." in error]
    print(f"\n{len(seen)} versions were seen, {len(again)} reads were sent back to read again")
    assert errors == again
    assert {len(set(item)) for item in seen} == {1}, seen
    assert len(seen) > 1


def test_tables_of_two_schemas_are_not_published_under_the_same_name(
    make: Callable[..., DbtProject],
) -> None:
    named = "{{{{ config(materialized='table', schema='{}', alias='Same') }}}} select 1 as id"
    project = make(first=named.format("x"), second=named.format("y").replace("Same", "same"))
    outcome = project.run("build")
    assert "Not published: " in outcome.log
    assert "dw_x.Same and dw_y.same would both be published.same" in outcome.log.replace("`", "")
    assert project.query("show tables in dw like 'meta_version'") == []
    project.write({"models/second.sql": named.format("y").replace("Same", "other")})
    assert "Published as version 1" in project.run("build").log


@pytest.mark.in_turn
def test_what_tables_of_other_schemas_have_read_stays(make: Callable[..., DbtProject]) -> None:
    """The rows that they hold would else be read again, all of them."""
    elsewhere = B.replace("materialized='incremental'", "materialized='incremental', schema='x'")
    project = make(b=elsewhere)
    for end in range(3, 7):
        project.run("build")
        land(project, end, end + 1)
    project.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    assert len(project.column("select snapshot_id from dw_x.b.snapshots")) == 2
    done = project.run("build")
    assert done.results["b"].message == "+1 rows"
    assert "dw_x.b: 5 files became 1" in project.run("run-operation", "compact").log
    assert ids(project, "published.b") == list(range(7))
