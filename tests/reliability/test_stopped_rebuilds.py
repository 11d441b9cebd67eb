"""A rebuild of a zipper's range that stops between its two commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.tables import KeyedTables

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT

# the key of a change and its rate are looked up, as of the run
FILES = {
    "dbt_project.yml": PROJECT,
    "models/_models.yml": "sources: [{name: src, tables: [{name: log}, {name: names}]}]",
    "models/zip.sql": """
        {{ config(materialized='folded', unique_key='k', zipper={'sequence': 'n', 'time': 'at'}) }}
        select names.k, n, v * rate as v, at
        from {{ new_rows(source('src', 'log')) }} as log
        inner join {{ pinned(source('src', 'names')) }} as names on names.x = log.x
    """,
    "models/summed.sql": """
        {{ config(materialized='folded', unique_key='k', fold={
            'aggregates': {'v': 'sum'}, 'row_kind': 'row_kind', 'count_rows': true}) }}
        select k, v, row_kind from {{ new_changes(ref('zip')) }}
    """,
    "models/total.sql": """
        {{ config(materialized='table') }}
        select sum(v) as v from {{ ref('zip') }}
    """,
}
RANGE = {"rebuild": {"from": "2026-03-02 00:00:00", "to": "2026-03-03 00:00:00"}}
HALF = "a rebuild of a range of it was stopped halfway"


def versions_of(project: DbtProject) -> list[tuple[Any, ...]]:
    rows = project.query("select k, v, is_current from dw.zip order by all")
    return [tuple(row.values()) for row in rows]


@pytest.mark.in_turn
@pytest.mark.parametrize("ended_by", ["again", "--full-refresh"])
def test_a_rebuild_that_was_stopped_halfway_is_ended_before_anything_else(
    make_project: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create table src.log (n int, x int, v int, at timestamp) using iceberg")
    project.query("create table src.names (x int, k int, rate int) using iceberg")
    project.query("insert into src.names values (1, 1, 1), (2, 2, 1), (3, 3, 5)")
    project.query(
        "insert into src.log values (1, 1, 10, timestamp'2026-03-01'), "
        "(2, 2, 20, timestamp'2026-03-02'), (3, 3, 30, timestamp'2026-03-02 10:00:00')"
    )
    project.run("run")
    project.query("update src.names set k = 9 where x = 2")
    project.query("update src.names set rate = 2 where x = 3")
    record = KeyedTables.record_rebuilt_run

    def stops(*given: Any) -> int:
        if len(given) == 5:  # the level of the changes that are there by now
            raise RuntimeError("it stops here")
        return record(*given)

    with monkeypatch.context() as patch:
        patch.setattr(KeyedTables, "record_rebuilt_run", stops)
        stopped = project.run("run", "--select", "zip", vars=RANGE, expect_ok=False)
        assert "it stops here" in stopped.results["zip"].message
    assert (2, 20, True) in versions_of(project)
    assert (9, 20, True) in versions_of(project)

    project.query("insert into src.log values (4, 1, 40, timestamp'2026-03-07')")
    assert HALF in project.run("run", expect_ok=False).results["zip"].message
    readers = project.run("run", "--select", "summed", "total", expect_ok=False).results
    for name in ("summed", "total"):
        assert HALF in readers[name].message
    assert 'Run it again with --vars \'{"rebuild": {"from": "2026-03-02 00:00:00", "to": "2026' in (
        readers["total"].message
    )

    if ended_by == "again":
        # what came meanwhile is committed before the range, and that may be stopped as well
        with monkeypatch.context() as patch:
            patch.setattr(KeyedTables, "range_to_rebuild", lambda *_: 1 // 0)
            project.run("run", "--select", "zip", vars=RANGE, expect_ok=False)
        assert HALF in project.run("run", expect_ok=False).results["zip"].message
        project.run("run", "--select", "zip", vars=RANGE)
    else:
        project.run("run", "--select", "zip", ended_by)
    project.run("run")
    assert versions_of(project) == [(1, 10, False), (1, 40, True), (3, 60, True), (9, 20, True)]
    assert project.query("select * from dw.summed order by k") == [
        {"k": 1, "v": 50},
        {"k": 3, "v": 60},
        {"k": 9, "v": 20},
    ]
    assert project.column("select v from dw.total") == [130]
