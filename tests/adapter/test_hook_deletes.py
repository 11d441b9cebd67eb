"""Deletes of hooks: rows of which the condition is null stay, whatever files they lie in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dbt.adapters.sparksession.deletes import null_safe_delete

from tests.support.dbt_project import DbtProject

ROWS = """
    values
        (1, true, 'a', date '2026-01-01'), (2, false, 'b', date '2026-01-02'),
        (3, null, null, null), (4, true, 'ab', date '2026-01-03'), (5, false, null, null)
    as rows(id, k, s, d)
"""
# column that the table is partitioned by, and the condition of the rows that go
DELETES = {
    "k": [
        "not k",
        "k = false",
        "k in (false)",
        "not (k and id > 0)",
        "k is false",
        "k is not true",
    ],
    "s": ["s <> 'a'", "s not in ('a', 'c')", "s not like 'a%'", "not (s > 'a' -- a ;\n)"],
    "d": ["d != date '2026-01-01'", "not (d > date '2026-01-01')", "k = false or d is null"],
    "id": ["s <> 'where'", "id not in (select 2)", "s is not null", "s = 'a' or k"],
}
MODEL = "{{{{ config(materialized='table', partition_by='{by}', post_hook={hook!r}) }}}} {rows}"


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    made = make_project(
        {
            f"models/{by}_{place}.sql": MODEL.format(
                by=by,
                hook=f"DELETE from {{{{ this }}}} -- where true\nwhere {condition}",
                rows=f"select * from {ROWS}",
            )
            for by, conditions in DELETES.items()
            for place, condition in enumerate(conditions)
        }
    )
    made.run("run")
    return made


def test_rows_of_which_a_condition_is_null_stay(project: DbtProject) -> None:
    for by, conditions in DELETES.items():
        for place, condition in enumerate(conditions):
            gone = f"coalesce(({condition}), false)"
            left = project.column(f"select id from (select * from {ROWS}) where not {gone}")
            found = project.column(f"select id from dw.{by}_{place}")
            assert sorted(found) == sorted(left), (by, condition)


@pytest.mark.parametrize(
    "sql",
    [
        "delete from dw.a",
        "delete from dw.a where day = '2026-03-01' and id in (1, 2) or id is not null",
        "select 'delete from dw.a where not k' as text",
        "delete from dw.a where id not in (select id from dw.b)",
        "delete from dw.a where id not in (select",
        "merge into dw.a using dw.b on a.id = b.id when matched and not k then delete",
    ],
)
def test_other_statements_are_as_they_are(sql: str) -> None:
    assert null_safe_delete(sql) == sql
