"""compact: files in the order that a model declares, as far as Iceberg can sort by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

ADDS = """
    {{{{ config(materialized='incremental', incremental_strategy='append', sort_by={}) }}}}
    select id, v, v as `my v`, id as `a.b`, id as `c``d`
    from {{{{ new_rows(source('src', 'x')) }}}}
"""
KEYED = """
    {{ config(materialized='folded', unique_key='my id', fold={'sequence': 'v'}) }}
    select id as `my id`, v from {{ new_rows(source('src', 'x')) }}
"""
# config sort_by -> by what the rows of the compacted file lie
ORDERS: dict[str, Callable[[tuple[int, int]], tuple[int, ...]] | None] = {
    "'lower(cast(id as string))'": None,
    "['v desc', 'id % 3']": lambda row: (-row[1],),
    "'1'": None,
    "'V desc'": lambda row: (-row[1],),
    "['`my v`', 'id desc']": lambda row: (row[1], -row[0]),
    "'`a.b`'": lambda row: (row[0],),
    "'`c``d` desc nulls last'": lambda row: (-row[0],),
}


@pytest.mark.in_turn
def test_each_table_is_compacted_whatever_its_rows_are_sorted_by(
    make_project: Callable[..., DbtProject],
) -> None:
    models = {f"models/m{n}.sql": ADDS.format(by) for n, by in enumerate(ORDERS)}
    small = project_with_source(make_project, models | {"models/keyed.sql": KEYED})
    for number in range(6):
        small.query(f"insert into src.x values ({number}, {number % 2})")
        small.run("run")

    log = small.run("run-operation", "compact").log

    assert "dw.keyed__runs: " in log
    for number, (by, order) in enumerate(ORDERS.items()):
        assert f"dw.m{number}: 6 files became 1" in log, by
        rows = [(row["id"], row["v"]) for row in small.query(f"select id, v from dw.m{number}")]
        assert sorted(rows) == [(id, id % 2) for id in range(6)]
        if order is not None:
            assert rows == sorted(rows, key=order), by
