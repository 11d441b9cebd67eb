"""Deletes of hooks: rows of which the condition is null stay, whatever files they lie in. Rows that
they replace are named by conditions that are null of none."""

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
    "s": [
        "s < 'b'",
        "s <= 'b' and id > 0 and k",
        "'b' > s or k",
        "s between 'a' and 'b'",
        "s <> 'a'",
        "s not in ('a', 'c')",
        "s not like 'a%'",
        "s like 'a%'",
        "s like 'a%' and id > 1 and k = true",
        "s is not null and startswith(s, 'a') or id = 2",
        "s ilike any ('A%', 'q%')",
        "not (s > 'a' -- a ;\n)",
    ],
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
        "delete from dw.a where id in (select id from dw.b where s like 'a%')",
        "merge into dw.a using dw.b on a.id = b.id when matched and not k then delete",
    ],
)
def test_other_statements_are_as_they_are(sql: str) -> None:
    assert null_safe_delete(sql) == sql


# conditions of `replace where` that are null of no row
REPLACED = {
    "k": ["not k and k is not null", "not k or k is null", "k is not true", "k in (true)"],
    "s": [
        "s <> 'a' and s is not null",
        "s <> 'a' or s is null",
        "s not in ('a') and s is not null",
        "(s < 'a' or s >= 'b') and s is not null",
        "s < 'b' and s is not null",
        "s > 'a'",
        "false or s is null",
        "true and s is not null",
    ],
}
REPLACED_OR_NULL = {
    "k": ["not k", "k = false", "not (k and s = 'a')"],
    "s": [
        "s <> 'a'",
        "s <> 'a' or k",
        "s < 'b'",
        "s between 'a' and 'b'",
        "not (s > 'a' and s is not null)",
    ],
}
REPLACES = "insert into {{{{ this }}}} replace where {} select 9, true, 'b', date '2026-01-09'"


def replacing(conditions: dict[str, list[str]]) -> dict[str, str]:
    return {
        f"{by}_{place}": MODEL.format(
            by=by, hook=REPLACES.format(condition), rows=f"select * from {ROWS}"
        )
        for by, of_column in conditions.items()
        for place, condition in enumerate(of_column)
    }


def test_rows_that_a_hook_replaces_are_named_without_nulls(
    make_project: Callable[..., DbtProject],
) -> None:
    models = {f"right_{name}": sql for name, sql in replacing(REPLACED).items()}
    denied = {"s": ["s not like 'a%'", "s is not null and not (s like 'a%' and k)"]}
    models |= {f"prefix_{name}": sql for name, sql in replacing(denied).items()}
    asked = {"s": ["s like 'a%'", "s ilike 'a%'", "s is not null and lower(s) like 'a%'"]}
    models |= {f"asked_{name}": sql for name, sql in replacing(asked).items()}
    models |= {f"wrong_{name}": sql for name, sql in replacing(REPLACED_OR_NULL).items()}
    made = make_project({f"models/{name}.sql": sql for name, sql in models.items()})
    results = made.run("run", expect_ok=False).results
    for by, conditions in REPLACED.items():
        for place, condition in enumerate(conditions):
            name = f"right_{by}_{place}"
            assert results[name].status == "success", (condition, results[name].message)
            left = made.column(f"select id from {ROWS} where not coalesce(({condition}), false)")
            found = sorted(made.column(f"select id from dw.{name}"))
            assert found == sorted([*left, 9]), condition
    for by, conditions in REPLACED_OR_NULL.items():
        for place, condition in enumerate(conditions):
            message = results[f"wrong_{by}_{place}"].message
            assert f"it is null of rows in which {by} is null" in message, condition
            assert sorted(made.column(f"select id from dw.wrong_{by}_{place}")) == [1, 2, 3, 4, 5]
    for place in range(len(denied["s"])):
        assert "name the rows by ranges" in results[f"prefix_s_{place}"].message
    for place in range(len(asked["s"])):
        message = results[f"asked_s_{place}"].message
        assert "Iceberg can't look for a prefix where a column" in message
        assert sorted(made.column(f"select id from dw.asked_s_{place}")) == [1, 2, 3, 4, 5]
