"""dbt snapshots on Iceberg: strategies, deletes, a source that changes shape."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.in_turn

SNAPSHOT = """
    snapshots:
      - name: {name}
        relation: source('src', '{table}')
        config:
          unique_key: {key}
          {config}
"""


def snapshot(name: str, table: str, key: str = "id", **config: str) -> dict[str, str]:
    """File of one snapshot."""
    lines = "\n          ".join(f"{key}: {value}" for key, value in config.items())
    text = SNAPSHOT.format(name=name, table=table, key=key, config=lines)
    return {f"snapshots/{name}.yml": text}


FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: people}, {name: pairs}, {name: shape}]
    """,
    **snapshot("by_time", "people", strategy="timestamp", updated_at="at"),
    **snapshot("by_check", "people", strategy="check", check_cols="[name]"),
    **snapshot(
        "invalidating", "people", strategy="check", check_cols="all", hard_deletes="invalidate"
    ),
    **snapshot(
        "recording", "people", strategy="timestamp", updated_at="at", hard_deletes="new_record"
    ),
    **snapshot(
        "invalidating_by_time",
        "people",
        strategy="timestamp",
        updated_at="at",
        hard_deletes="invalidate",
    ),
    **snapshot(
        "checking_by_time",
        "people",
        strategy="check",
        check_cols="[name]",
        updated_at="at",
        hard_deletes="invalidate",
    ),
    **snapshot(
        "pairs_by_time",
        "pairs",
        key="[a, b]",
        strategy="timestamp",
        updated_at="at",
        hard_deletes="invalidate",
        dbt_valid_to_current="\"timestamp'9999-12-31'\"",
    ),
    **snapshot(
        "composite",
        "pairs",
        key="[a, b]",
        strategy="check",
        check_cols="[v]",
        hard_deletes="new_record",
    ),
    **snapshot("reshaped", "shape", strategy="check", check_cols="all"),
    **snapshot("reshaped_by_time", "shape", strategy="timestamp", updated_at="at"),
}


@pytest.fixture(scope="module")
def project(make_project):
    """A project whose sources went through three versions, each one snapshotted."""
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    versions = [
        {
            "people": "(1, 'Ann', 1), (2, 'Bob', 1), (3, 'Cid', 1), (5, 'Eve', 1) "
            "as t(id, name, day)",
            "pairs": "(1, 1, 'x', 1), (1, 2, 'y', 1) as t(a, b, v, day)",
            "shape": "(1, 'old', 'p', 1) as t(id, lost, kept, day)",
        },
        {  # Ann renamed, Bob and Eve gone, Dot new, Cid touched but the same
            "people": "(1, 'Anna', 2), (3, 'Cid', 2), (4, 'Dot', 2) as t(id, name, day)",
            "pairs": "(1, 1, 'x2', 2), (2, 2, 'z', 2) as t(a, b, v, day)",
            "shape": "(1, 'q', 'new', 2), (2, 'r', 'new', 2) as t(id, kept, gained, day)",
        },
        # Bob is back with another time, Eve with her old time; Dot has another name, dated before
        {
            "people": "(1, 'Anna', 2), (2, 'Bob', 3), (3, 'Cid', 2), (4, 'Dora', 1), "
            "(5, 'Eve', 1) as t(id, name, day)",
            "pairs": "(1, 1, 'x2', 2), (2, 2, 'z', 2), (1, 2, 'y', 1) as t(a, b, v, day)",
            "shape": "(1, 'q', 'newer', 3), (2, 'r', 'new', 2) as t(id, kept, gained, day)",
        },
    ]
    for tables in versions:
        for table, rows in tables.items():
            project.query(
                f"create or replace table src.{table} using iceberg as select * except (day), "
                f"make_timestamp(2026, 3, day, 0, 0, 0) as at from values {rows}"
            )
        project.run("snapshot")
    return project


def versions_of(project, table: str, columns: str, order: str) -> list[tuple]:
    """Rows of a snapshot table: the columns and whether the version is the current one."""
    rows = project.query(
        f"select {columns}, dbt_valid_to is null as current from dw.{table} order by {order}"
    )
    return [tuple(row.values()) for row in rows]


def test_timestamp_strategy_makes_a_version_of_each_touch(project):
    assert versions_of(project, "by_time", "id, name, day(dbt_valid_from)", "1, 3") == [
        (1, "Ann", 1, False),
        (1, "Anna", 2, True),
        (2, "Bob", 1, False),
        (2, "Bob", 3, True),
        (3, "Cid", 1, False),
        (3, "Cid", 2, True),
        (4, "Dot", 2, True),
        (5, "Eve", 1, True),
    ]


def test_check_strategy_makes_a_version_of_each_difference(project):
    assert versions_of(project, "by_check", "id, name", "1, dbt_valid_from") == [
        (1, "Ann", False),
        (1, "Anna", True),
        (2, "Bob", True),
        (3, "Cid", True),
        (4, "Dot", False),
        (4, "Dora", True),
        (5, "Eve", True),
    ]


def test_deleted_row_is_invalidated_and_may_return(project):
    assert versions_of(project, "invalidating", "id, name", "1, dbt_valid_from") == [
        (1, "Ann", False),
        (1, "Anna", True),
        (2, "Bob", False),
        (2, "Bob", True),
        (3, "Cid", False),
        (3, "Cid", True),
        (4, "Dot", False),
        (4, "Dora", True),
        (5, "Eve", False),
        (5, "Eve", True),
    ]


def test_deleted_row_gets_a_record_with_its_key(project):
    rows = versions_of(
        project, "recording", "id, name, dbt_is_deleted", "id, dbt_is_deleted, current"
    )
    for id, name in ((2, "Bob"), (5, "Eve")):
        assert [row for row in rows if row[0] == id] == [
            (id, name, "False", False),
            (id, name, "False", True),
            (id, name, "True", False),
        ]
    assert all(row[0] is not None for row in rows)


def test_version_dated_before_what_is_known_begins_when_it_is_seen(project):
    assert versions_of(project, "checking_by_time", "id, name", "1, dbt_valid_from")[4:] == [
        (3, "Cid", True),
        (4, "Dot", False),
        (4, "Dora", True),
        (5, "Eve", False),
        (5, "Eve", True),
    ]
    assert versions_of(project, "invalidating_by_time", "id, name", "1, dbt_valid_from") == [
        (1, "Ann", False),
        (1, "Anna", True),
        (2, "Bob", False),
        (2, "Bob", True),
        (3, "Cid", False),
        (3, "Cid", True),
        (4, "Dot", True),  # a change that is dated before what is known is none
        (5, "Eve", False),
        (5, "Eve", True),
    ]
    end = "dbt_valid_to = '9999-12-31' as current"
    rows = project.query(f"select a, b, v, {end} from dw.pairs_by_time order by a, b, current")
    assert [tuple(row.values()) for row in rows if row["b"] == 2] == [
        (1, 2, "y", False),
        (1, 2, "y", True),
        (2, 2, "z", True),
    ]


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("by_time", "id"),
        ("invalidating", "id"),
        ("invalidating_by_time", "id"),
        ("checking_by_time", "id"),
        ("recording", "id"),
        ("pairs_by_time", "a, b"),
    ],
)
def test_versions_of_a_key_dont_overlap(project, table, key):
    following = f"lead(dbt_valid_from) over (partition by {key} order by dbt_valid_from)"
    assert (
        project.query(
            f"select * from (select *, {following} as following from dw.{table}) "
            "where dbt_valid_to <= dbt_valid_from "
            "or following < coalesce(dbt_valid_to, timestamp'9999-12-31')"
        )
        == []
    )
    ids = f"select count(dbt_scd_id) - count(distinct dbt_scd_id) from dw.{table}"
    assert project.column(ids) == [0]


def test_composite_key_follows_each_pair(project):
    rows = versions_of(
        project, "composite", "a, b, v, dbt_is_deleted", "a, b, dbt_valid_from, dbt_valid_to"
    )
    assert rows == [
        (1, 1, "x", "False", False),
        (1, 1, "x2", "False", True),
        (1, 2, "y", "False", False),
        (1, 2, "y", "True", False),
        (1, 2, "y", "False", True),
        (2, 2, "z", "False", True),
    ]
    columns = [row["col_name"] for row in project.query("describe table dw.composite")]
    assert not [name for name in columns if name.startswith("dbt_unique_key")]


@pytest.mark.parametrize("table", ["reshaped", "reshaped_by_time"])
def test_source_that_loses_and_gains_a_column_goes_on(project, table):
    assert versions_of(project, table, "id, lost, kept, gained", "id, dbt_valid_from") == [
        (1, "old", "p", None, False),
        (1, None, "q", "new", False),
        (1, None, "q", "newer", True),
        (2, None, "r", "new", True),
    ]


def test_unchanged_source_is_not_even_read(project):
    commits = "select snapshot_id from dw.{}.snapshots order by committed_at"
    tables = ("by_time", "composite")
    before = [project.column(commits.format(table)) for table in tables]

    outcome = project.run("snapshot", "--select", *tables)

    assert {result.message for result in outcome.results.values()} == {"nothing new"}
    assert [project.column(commits.format(table)) for table in tables] == before


def test_a_source_that_was_rewritten_as_it_was_changes_no_row(project):
    rows = "select * from dw.{} order by id, dbt_valid_from"
    tables = ("by_time", "by_check")
    before = [project.query(rows.format(table)) for table in tables]

    project.query("insert overwrite src.people select * from src.people")
    project.run("snapshot", "--select", *tables)

    assert [project.query(rows.format(table)) for table in tables] == before


def test_snapshot_that_is_declared_otherwise_is_taken_again(project):
    count = "select count(*) from dw.by_check.snapshots"
    before = project.column(count)[0]
    project.write(snapshot("by_check", "people", strategy="check", check_cols="[name, at]"))

    project.run("snapshot", "--select", "by_check")

    assert project.column(count) == [before + 1]


@pytest.mark.parametrize("column", ['\'{{ var("mode", "old") }}\'', "current_timestamp()"])
def test_a_snapshot_of_a_view_whose_answer_changes_by_itself_is_taken(project, column):
    view = f"select id, name, {column} as reported from {{{{ source('src', 'people') }}}}"
    over = snapshot("of_view", "people", strategy="check", check_cols="[reported]")
    files = {"models/seen.sql": "{{ config(materialized='view') }} " + view}
    for name, text in over.items():
        files[name] = text.replace("source('src', 'people')", "ref('seen')")
    project.write(files)
    for mode in ("old", "new"):
        project.run("build", "--select", "seen", "of_view", vars={"mode": mode})
    reported = project.column(
        "select reported from dw.of_view where id = 1 order by dbt_valid_from"
    )
    assert len(set(reported)) == 2
    project.query("drop table dw.of_view purge")


CHECKED = {"strategy": "check", "check_cols": "[v]"}
ENDING = {"dbt_valid_to_current": "\"timestamp'9999-12-31'\""}


@pytest.fixture
def faulty(make_project):
    """A project of a table src.people of which rows and snapshots are still to come."""
    project = make_project({"models/sources.yml": FILES["models/sources.yml"]})
    project.query("create namespace if not exists src")
    project.query("create table src.people (id int, v string, at timestamp) using iceberg")
    return project


def test_keys_and_times_that_versions_cant_go_by_are_refused(faulty):
    faulty.write(
        {
            **snapshot("checked", "people", **CHECKED),
            **snapshot("dated", "people", strategy="timestamp", updated_at="at"),
            **snapshot("paired", "people", key="[id, v]", strategy="check", check_cols="[at]"),
        }
    )
    first = "(1, 'a', timestamp'2026-01-01'), (2, 'b', timestamp'2026-01-01')"
    faulty.query(f"insert into src.people values {first}")
    faulty.run("snapshot")
    several, null = "its query gives several rows of one", "its query gives a row whose unique_key"
    for row, refusals in (
        (
            "1, 'z', timestamp'2026-02-01'",
            {"checked": f"{several} unique_key (id = 1)", "dated": several},
        ),
        (
            "null, 'z', timestamp'2026-02-01'",
            {"checked": null, "dated": null, "paired": f"{null} is null (id = null, v = z)"},
        ),
        (
            "3, null, null",
            {"dated": "a row whose at is null (id = 3)", "paired": "(id = 3, v = null)"},
        ),
    ):
        faulty.query(f"insert overwrite src.people values {first}, ({row})")
        outcome = faulty.run("snapshot", expect_ok=False)
        for name, result in outcome.results.items():
            if name in ("checked", "dated", "paired"):
                assert (result.status == "error") is (name in refusals), name
                assert refusals.get(name, "") in result.message
        faulty.query(f"insert overwrite src.people values {first}")
    # it is known by another key, of which it has had several rows
    faulty.query("insert into src.people values (2, 'c', timestamp'2026-01-01')")
    faulty.run("snapshot", "--select", "paired")
    faulty.query(f"insert overwrite src.people values {first}")
    faulty.write(snapshot("paired", "people", strategy="check", check_cols="[at]"))
    refused = faulty.run("snapshot", "--select", "paired", expect_ok=False).results["paired"]
    assert "has several open versions of one unique_key (id = 2)" in refused.message


def test_settings_that_the_versions_were_not_made_by_are_refused(faulty):
    kept = {"hard_deletes": "new_record"}
    faulty.write(
        {
            **snapshot("begins", "people", **CHECKED),
            **snapshot("ends", "people", **CHECKED, **kept),
            **snapshot("closes", "people", **CHECKED, **ENDING),
        }
    )
    faulty.query("insert into src.people values (1, 'a', null), (2, 'b', null)")
    faulty.run("snapshot")
    faulty.query("insert overwrite src.people values (2, 'c', null)")
    faulty.write(
        {
            **snapshot("begins", "people", **CHECKED, **kept),
            **snapshot("ends", "people", **CHECKED, hard_deletes="invalidate"),
            **snapshot("closes", "people", **CHECKED),
        }
    )
    results = faulty.run("snapshot", expect_ok=False).results
    assert "has no column dbt_is_deleted; let hard_deletes be" in results["begins"].message
    assert "open versions of deleted rows (dbt_is_deleted)" in results["ends"].message
    assert "are open by another dbt_valid_to (id = " in results["closes"].message

    # as the first refusal has it; a version without a mark would never count as deleted
    faulty.query("alter table dw.begins add column dbt_is_deleted string")
    refused = faulty.run("snapshot", "--select", "begins", expect_ok=False).results["begins"]
    assert "an open version whose dbt_is_deleted is null (id = " in refused.message
    faulty.query("update dw.begins set dbt_is_deleted = 'False'")
    faulty.write(
        snapshot("ends", "people", **CHECKED, **kept)
        | snapshot("closes", "people", **CHECKED, **ENDING)
    )
    faulty.run("snapshot")
    assert versions_of(faulty, "begins", "id, v, dbt_is_deleted", "1, dbt_valid_from") == [
        (1, "a", "False", False),
        (1, "a", "True", True),
        (2, "b", "False", False),
        (2, "c", "False", True),
    ]


def test_checked_columns_may_be_in_another_case_than_the_tables(faulty):
    faulty.write(snapshot("cased", "people", strategy="check", check_cols="[V]"))
    for row in ("(1, 'a', null), (2, 'b', null)", "(1, 'a', null), (2, 'c', null)"):
        faulty.query(f"insert overwrite src.people values {row}")
        faulty.run("snapshot")
    assert versions_of(faulty, "cased", "id, v", "1, dbt_valid_from") == [
        (1, "a", True),
        (2, "b", False),
        (2, "c", True),
    ]


def test_values_that_the_snapshots_columns_would_round_are_refused(faulty):
    query = "select id, {} as v from {{{{ source('src', 'people') }}}}"
    over = snapshot("rounded", "people", **CHECKED)["snapshots/rounded.yml"]
    faulty.write(
        {
            "models/seen.sql": query.format("cast(v as decimal(9, 1))"),
            "snapshots/rounded.yml": over.replace("source('src', 'people')", "ref('seen')"),
        }
    )
    faulty.query("insert into src.people values (1, '1.25', null)")
    faulty.run("build")
    faulty.write({"models/seen.sql": query.format("cast(v as decimal(9, 2))")})
    refused = faulty.run("build", expect_ok=False).results["rounded"].message
    assert "(column v was decimal(9,1), is decimal(9,2)); cast them in its query" in refused
    assert len(faulty.query("select * from dw.rounded")) == 1


@pytest.mark.parametrize("hard_deletes", ["invalidate", "new_record"])
def test_a_row_that_came_back_is_followed_by_its_own_time(faulty, hard_deletes):
    dated = {"strategy": "timestamp", "updated_at": "at", "hard_deletes": hard_deletes}
    faulty.write(snapshot("dated", "people", **dated))
    for value, day in (("'a'", 1), (None, 0), ("'a'", 1), ("'b'", 2), ("'b'", 2), ("'c'", 1)):
        faulty.query("delete from src.people")
        if value is not None:
            faulty.query(f"insert into src.people values (1, {value}, timestamp'2026-01-0{day}')")
        faulty.run("snapshot")
    rows = versions_of(faulty, "dated", "v", "dbt_valid_from")
    gone = [("a", False)] if hard_deletes == "new_record" else []
    assert rows == [("a", False), *gone, ("a", False), ("b", True)]
    test_versions_of_a_key_dont_overlap(faulty, "dated", "id")


def test_a_change_dated_before_the_runs_of_another_strategy_is_followed(faulty):
    faulty.query("insert into src.people values (1, 'a', timestamp'2026-01-01')")
    faulty.write(snapshot("switched", "people", **CHECKED))
    faulty.run("snapshot")
    faulty.write(snapshot("switched", "people", strategy="timestamp", updated_at="AT"))
    faulty.query("update src.people set v = 'b', at = timestamp'2026-01-02'")
    for _ in range(2):
        faulty.run("snapshot")
        held = faulty.column("select v from dw.switched order by dbt_valid_from")
        assert held == ["a", "b"]
    assert faulty.column("select v from dw.switched where dbt_valid_to is null") == ["b"]


def test_columns_that_cannot_be_compared_are_refused_by_the_first_snapshot(faulty):
    faulty.query("create table src.shape (id int, kept map<string, int>, gained int) using iceberg")
    faulty.query("insert into src.shape values (1, map('a', 1), 1)")
    faulty.write(
        {
            **snapshot("all_columns", "shape", strategy="check", check_cols="all"),
            **snapshot("listed", "shape", strategy="check", check_cols="[KEPT]"),
            **snapshot("others", "shape", strategy="check", check_cols="[gained]"),
        }
    )
    results = faulty.run("snapshot", expect_ok=False).results
    for name in ("all_columns", "listed"):
        expected = f"{name}: its check_cols compares kept, whose type is map<string,int>, of which"
        assert expected in results[name].message, results[name].message
    faulty.query("update src.shape set gained = 2")
    faulty.run("snapshot", "--select", "others")
    assert faulty.column("select gained from dw.others order by dbt_valid_from") == [1, 2]
