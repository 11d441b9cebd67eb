"""Beliefs beside versions of the warehouse: they are kept when versions expire and are gone back
from, through runs that stop, clocks that step back and full refreshes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dbt.adapters.sparksession.declared import beliefs as beliefs_module
from dbt.adapters.sparksession.keyed.tables import KeyedTables

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_warehouse import PROJECT

BELIEVED = """
    {{ config(
        materialized='folded', unique_key=['id', 'valid_from'],
        zipper={'sequence': 'known_time', 'row_kind': 'row_kind', 'period': 'known'},
        full_refresh=false, on_definition_change='accept', meta={'put_back': false},
    ) }}
    {{ beliefs(rows=ref('zip'), key=['id', 'valid_from'], columns=['a', 'valid_to']) }}
"""
FILES = {
    f"macros/{name}.sql": (REPO / f"macros/streams/{name}.sql").read_text(encoding="utf-8")
    for name in ("beliefs", "as_known_at")
} | {
    "dbt_project.yml": PROJECT,
    "models/sources.yml": "sources: [{name: src, tables: [{name: log}]}]",
    "models/zip.sql": """
        {{ config(
            materialized='folded', unique_key='id', zipper={'sequence': 'n', 'time': 'at'},
        ) }}
        select id, n, at, a from {{ new_rows(source('src', 'log')) }}
    """,
    "models/believed.sql": BELIEVED,
}
Make = Callable[..., DbtProject]


def land(project: DbtProject, *rows: tuple[int, int, str]) -> None:
    """Let changes of key 1 come: number, minute, value."""
    cells = ", ".join(f"(1, {n}, timestamp'2026-03-01 00:{at:02}:00', '{a}')" for n, at, a in rows)
    project.query(f"insert into src.log values {cells}")


def published(make_project: Make) -> DbtProject:
    """A project, published as version 1: a from 00:10, c from 00:30."""
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create table src.log (id int, n int, at timestamp, a string) using iceberg")
    land(project, (1, 10, "a"), (3, 30, "c"))
    assert "Published as version 1" in project.run("build").log
    return project


@pytest.fixture
def project(make_project: Make) -> DbtProject:
    return published(make_project)


@pytest.fixture(scope="module")
def shared(make_project: Make) -> DbtProject:
    """The same, for tests that mind no belief of another."""
    return published(make_project)


def rows_of(project: DbtProject, table: str, where: str = "true") -> list[tuple[Any, ...]]:
    """(a, minute of valid_from, minute of valid_to) of rows."""
    rows = project.query(
        f"select a, minute(valid_from), minute(valid_to) from {table} where {where} "
        "order by valid_from, valid_to"
    )
    return [tuple(row.values()) for row in rows]


def known_at(time: datetime) -> str:
    moment = f"timestamp'{time:%Y-%m-%d %H:%M:%S.%f}Z'"
    return f"known_from <= {moment} and (known_to is null or {moment} < known_to)"


def beliefs_of(project: DbtProject) -> list[tuple[Any, ...]]:
    rows = project.query("select * from dw.believed order by valid_from, known_from")
    return [tuple(row.values()) for row in rows]


@pytest.mark.in_turn
def test_beliefs_are_those_of_each_version_and_outlive_it(project: DbtProject) -> None:
    held = {1: rows_of(project, "dw.zip")}
    land(project, (2, 20, "b"))  # late
    project.run("build")
    held[2] = rows_of(project, "dw.zip")
    project.query("update src.log set a = 'C' where n = 3")  # corrected
    project.run("build")
    held[3] = rows_of(project, "dw.zip")
    assert held[1] == [("a", 10, 30), ("c", 30, None)]
    assert held[3] == [("a", 10, 20), ("b", 20, 30), ("C", 30, None)]
    times = {
        row["version"]: row["published_at"].astimezone(UTC)
        for row in project.query("select version, published_at from dw.meta_version")
    }
    for version, rows in held.items():
        assert rows_of(project, "dw.believed", known_at(times[version])) == rows
    before = beliefs_of(project)

    # the other versions go, and what was believed in them stays
    project.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    done = project.run("build", "--full-refresh")
    assert "--full-refresh does nothing to believed" in done.log
    assert beliefs_of(project) == before
    land(project, (4, 40, "d"))
    project.run("build")
    assert rows_of(project, "dw.believed", "is_believed") == rows_of(project, "dw.zip")
    for version, rows in held.items():
        assert rows_of(project, "dw.believed", known_at(times[version])) == rows


@pytest.mark.in_turn
def test_what_was_believed_stays_when_a_version_is_gone_back_to(project: DbtProject) -> None:
    land(project, (2, 20, "wrong"))
    project.run("build")
    before = datetime.now(UTC)
    project.run("run-operation", "roll_back", "--args", "{version: 1}")
    project.query("update src.log set a = 'b' where n = 2")
    project.run("build")

    assert rows_of(project, "dw.zip") == [("a", 10, 20), ("b", 20, 30), ("c", 30, None)]
    assert rows_of(project, "dw.believed", "is_believed") == rows_of(project, "dw.zip")
    assert ("wrong", 20, 30) in rows_of(project, "dw.believed", known_at(before))


@pytest.mark.soak
def test_what_a_dropped_candidate_held_is_believed_until_the_next_run(project: DbtProject) -> None:
    land(project, (2, 20, "wrong"))
    project.run("build", vars={"hold_back": True})
    before = datetime.now(UTC)
    project.run("run-operation", "drop_candidate")
    assert rows_of(project, "dw.zip") == [("a", 10, 30), ("c", 30, None)]
    project.query("delete from src.log where n = 2")
    assert "Published as version 2" in project.run("build").log

    assert rows_of(project, "dw.zip") == [("a", 10, 30), ("c", 30, None)]
    assert rows_of(project, "dw.believed", "is_believed") == rows_of(project, "dw.zip")
    assert ("wrong", 20, 30) in rows_of(project, "dw.believed", known_at(before))


@pytest.mark.in_turn
def test_a_run_that_stops_behind_its_commit_is_made_good(
    shared: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(shared, (2, 20, "b"))
    count = len(beliefs_of(shared))

    def stops(self: KeyedTables, model: Any) -> str:
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(KeyedTables, "stored_sql", stops)
        shared.run("run", "-s", "zip", expect_ok=False)
    with monkeypatch.context() as patch:
        shared.run("run", "-s", "zip")
        patch.setattr(KeyedTables, "stored_sql", stops)
        shared.run("run", "-s", "believed", expect_ok=False)
    commits = shared.query("select snapshot_id from dw.believed__runs.snapshots")
    done = shared.run("run")

    assert "nothing new" in done.results["believed"].message
    assert shared.query("select snapshot_id from dw.believed__runs.snapshots") == commits
    assert rows_of(shared, "dw.believed", "is_believed") == rows_of(shared, "dw.zip")
    assert len(beliefs_of(shared)) == count + 2  # a until b, and b


@pytest.mark.in_turn
def test_runs_keep_their_order_where_the_clock_steps_back(
    shared: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shared.column("select max(known_from) from dw.believed")[0]
    earlier = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=2)
    monkeypatch.setattr(beliefs_module, "get_invocation_started_at", lambda: earlier)
    land(shared, (5, 50, "e"))
    shared.run("run")
    # the newest commit has no time then
    compact = "{select: believed, merge_runs: true}"
    shared.run("run-operation", "compact", "--args", compact)
    assert "beliefs.known_time" not in shared.summary("dw.believed__runs")
    shared.query(
        "call lake.system.expire_snapshots(table => 'dw.believed__runs', retain_last => 1, "
        "older_than => timestamp'2100-01-01')"
    )
    land(shared, (6, 55, "f"))
    shared.run("run")

    times = shared.column("select distinct known_from from dw.believed order by 1")[-3:]
    assert times == [first + timedelta(microseconds=number) for number in range(3)]
    assert rows_of(shared, "dw.believed", "is_believed") == rows_of(shared, "dw.zip")


@pytest.mark.soak
def test_rows_of_a_plain_table_are_believed_too(shared: DbtProject) -> None:
    """A table without valid times: each row is known since some run, and until some run."""
    text = BELIEVED.replace("['id', 'valid_from']", "['id']").replace("'a', 'valid_to'", "'a'")
    models = {
        "models/newest.sql": """
            {{ config(materialized='table') }}
            select id, max_by(a, n) as a from {{ source('src', 'log') }}
            where id > 1 group by id
        """,
        "models/newest_believed.sql": text.replace("ref('zip')", "ref('newest')"),
    }
    shared.write(models)
    for log in ("(2, 1, 'a'), (3, 1, 'b')", "(2, 2, 'A'), (4, 1, 'c')", "(2, 3, 'A')"):
        shared.query(f"insert into src.log (id, n, a) values {log}")
        shared.run("run", "-s", "newest", "newest_believed")
    shared.query("delete from src.log where id = 3")
    shared.run("run", "-s", "newest", "newest_believed")

    rows = shared.query(
        "select id, a, dense_rank() over (order by known_from) as since, is_believed "
        "from dw.newest_believed order by id, since"
    )
    assert [tuple(row.values()) for row in rows] == [
        (2, "a", 1, False),
        (2, "A", 2, True),
        (3, "b", 1, False),
        (4, "c", 2, True),
    ]
    shared.query("delete from src.log where id > 1")
    for name in models:
        (shared.root / name).unlink()


def test_a_range_of_beliefs_is_not_rebuilt(shared: DbtProject) -> None:
    asked = {"rebuild": {"from": "2026-03-01", "to": "2026-03-02"}}
    refused = shared.run("run", "-s", "believed", vars=asked, expect_ok=False)
    assert "the var rebuild isn't for beliefs" in refused.results["believed"].message


def test_a_key_of_several_rows_is_refused(shared: DbtProject) -> None:
    text = BELIEVED.replace("['id', 'valid_from']", "['id']")
    shared.write({"models/by_id.sql": text.replace("'valid_to'", "'valid_from', 'valid_to'")})
    refused = shared.run("run", "-s", "by_id", expect_ok=False).results["by_id"].message
    (shared.root / "models/by_id.sql").unlink()
    assert "each row that is believed has a key of its own, but the key (id) has several" in refused


@pytest.mark.soak
def test_a_column_more_is_a_belief_from_then_on(shared: DbtProject) -> None:
    """The log is changed nowhere; of what was believed earlier the new column is null."""
    text = BELIEVED.replace("'a', 'valid_to'", "'a', 'n', 'valid_to'")
    text = text.replace("full_refresh", "on_schema_change='append_new_columns', full_refresh")
    shared.write({"models/believed.sql": text})
    shared.run("run")

    rows = shared.query("select n, is_believed from dw.believed order by is_believed")
    assert {(row["n"] is not None, row["is_believed"]) for row in rows} == {
        (False, False),
        (True, True),
    }
    assert rows_of(shared, "dw.believed", "is_believed") == rows_of(shared, "dw.zip")
