"""A keyed table that is declared otherwise than its stored rows were made is read by nobody until
it is built: by another fold these rows come to what no fold gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source
from tests.support.small_warehouse import PROJECT

FOLDED = """
    {{{{ config(materialized='folded', unique_key='id', fold={{'aggregates': {{'v': '{}'}}}}) }}}}
    select id, v from {{{{ new_rows(source('src', 'x')) }}}}
"""
FILES = {
    "dbt_project.yml": PROJECT,
    "models/best.sql": FOLDED.format("max"),
    "models/seen.sql": "select id, v from {{ ref('best') }}",
    "models/copied.sql": "{{ config(materialized='table') }} select id, v from {{ ref('best') }}",
    "models/through.sql": "{{ config(materialized='table') }} select id, v from {{ ref('seen') }}",
    "models/followed.sql": "{{ config(materialized='incremental', unique_key='id') }}"
    " select id, v from {{ new_changes(ref('best')) }} where sign > 0",
    "models/in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            return dbt.ref("best")
    """,
}
STORED = ("copied", "through", "followed", "in_python")


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    """The project, of which best has been built twice: its runs hold 5 and 7."""
    made = project_with_source(make_project, FILES, "insert into src.x values (1, 5)")
    made.run("build")
    made.query("insert into src.x values (1, 7)")
    made.run("build")
    return made


def values(project: DbtProject, *names: str) -> list[int]:
    return [project.column(f"select v from {name}")[0] for name in names]


@pytest.mark.in_turn
def test_a_keyed_table_is_not_read_by_another_fold_than_made_its_rows(project: DbtProject) -> None:
    project.write({"models/best.sql": FOLDED.format("min")})
    results = project.run("build", "-s", *STORED, expect_ok=False).results
    for name in STORED:
        assert "best: its stored rows were made by another fold" in results[name].message, name
    of_view = project.run("build", "-s", "seen").log
    assert "Not published: seen reads best: its stored rows were made by another fold" in of_view
    assert values(project, "dw.best", "published.seen", "published.copied") == [7, 7, 7]

    project.run("build", "--full-refresh")
    assert values(project, "published.seen", *(f"published.{name}" for name in STORED)) == [5] * 5


@pytest.mark.in_turn
def test_a_keyed_table_that_goes_back_is_read_as_its_rows_were_made(project: DbtProject) -> None:
    project.write({"models/best.sql": FOLDED.format("min")})
    project.run("build", "--full-refresh")
    project.run("run-operation", "roll_back", "--args", "{version: 2}")
    names = ("dw.best", "dw.seen", "published.best", "published.seen", "dw.copied")
    assert values(project, *names) == [7] * 5
    refused = project.run("run", expect_ok=False).results["best"].message
    assert "what is stored doesn't fit its fold any more" in refused
    # as the project has it again
    project.write({"models/best.sql": FOLDED.format("max")})
    project.query("insert into src.x values (1, 6), (1, 8)")
    project.run("build")
    assert values(project, *names) == [8] * 5


@pytest.mark.in_turn
def test_where_the_rows_of_a_keyed_table_lie_is_no_reason_to_refuse_its_readers(
    project: DbtProject,
) -> None:
    project.write(
        {"models/best.sql": FOLDED.format("max").replace("fold={", "fold={'buckets': 8, ")}
    )
    project.run("run", "-s", *STORED)
    assert values(project, *(f"dw.{name}" for name in STORED)) == [7] * 4
