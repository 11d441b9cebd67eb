"""A condition leaves out the rows of which it is null, also where Iceberg alone answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

ROWS = """
    values
        (1, true, 'a', 1), (2, false, 'b', 1), (3, null, null, 1), (4, true, 'ab', 2),
        (5, false, null, 2), (6, null, 'a', 3), (7, null, null, null), (8, true, null, 4)
    as of_table(id, k, s, n)
"""
CONDITIONS = (
    "s <> 'a' or k",
    "s not in ('a') or k",
    "s <> 'a' or id > 3",
    "not (s = 'a' and k)",
    "not (s > 'a' and k)",
    "not (n in (1, 2) and k)",
    "not (n between 1 and 2 and k)",
    "not (s like 'a%' and k)",
    "not (s like 'a%') or k",
    "s like 'a%' or k",
    "s < 'b' or k",
    "(s <> 'a' or k) and (n <> 1 or not k) and id > 0",
    "(s <> 'a' or k) is null",
    "not (k <=> true) or s = 'c'",
    "s not like 'a%'",
    "n <> 1",
    "not k",
    "n > 1 or k",
)
QUERIES = (
    "select count(*) from {of} where s <> 'a' or k",
    "select count(*) from {of} as a join {of} as b on a.id = b.id and (b.s <> 'a' or b.k)",
    "select count(*) from {of} as a left join {of} as b on a.id = b.id and (b.s <> 'a' or b.k) "
    "where b.id is not null",
    "select count(*) from (select *, s <> 'a' as d from {of}) where d or k",
    "select count(*) from (values (3), (4)) as x(id) "
    "where id in (select id from {of} where s <> 'a' or k)",
    "select count(*) from {of} where s <> 'a' or k or n in (select n + 1 from {of})",
)


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    written = "{{{{ config(materialized='table') }}}} select id from {{{{ source('src', 'x') }}}} "
    models = {
        f"models/of_{place}.sql": (written + "where {}").format(condition)
        for place, condition in enumerate(CONDITIONS[:2])
    }
    made = project_with_source(make_project, models)
    made.query("drop table src.x")
    made.query(
        "create table src.x (id int, k boolean, s string, n int) using iceberg "
        "partitioned by (k, s, n)"
    )
    made.query(f"insert into src.x select * from {ROWS}")
    return made


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_of_partitions_is_what_it_is_of_plain_rows(
    project: DbtProject, condition: str
) -> None:
    wanted = project.column(f"select id from {ROWS} where {condition} order by id")
    assert project.column(f"select id from src.x where {condition} order by id") == wanted


@pytest.mark.parametrize("query", QUERIES)
def test_so_it_is_wherever_it_stands(project: DbtProject, query: str) -> None:
    wanted = project.column(query.format(of=f"(select * from {ROWS})"))
    assert project.column(query.format(of="src.x")) == wanted


def test_so_it_is_in_models_that_read_a_snapshot(project: DbtProject) -> None:
    project.run("run")
    for place, condition in enumerate(CONDITIONS[:2]):
        wanted = project.column(f"select id from {ROWS} where {condition} order by id")
        assert project.column(f"select id from dw.of_{place} order by id") == wanted


def test_iceberg_still_leaves_files_out(project: DbtProject) -> None:
    """What it answers right, it answers alone; the rest is asked again of what it gives."""
    for condition in ("s = 'a'", "n in (1, 2)", "n > 1", "s = 'a' or k", "n > 1 and s <> 'a'"):
        assert "+- Filter" not in plan_of(project, condition), condition
    plan = plan_of(project, "s <> 'a' or k")
    assert "filters=(NOT (s = 'a') OR k = true)" in plan
    assert "+- Filter coalesce((NOT (s" in plan
    chance = plan_of(project, "rand() > 0.5 or not k")
    assert "coalesce" not in chance  # asked twice it has two answers


def plan_of(project: DbtProject, condition: str) -> str:
    session: Any = own_session(project.credentials()).session
    frame = session.sql(f"select id from src.x where {condition}")
    return str(frame._jdf.queryExecution().executedPlan().toString())
