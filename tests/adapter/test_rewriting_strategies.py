"""Strategies append_new_rows and replace_all: tables that follow an input that may be rewritten."""

from __future__ import annotations

import pytest

FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: log}, {name: other}]
    """,
    "models/tenfold.sql": """
        {{ config(materialized='incremental', incremental_strategy='append_new_rows') }}
        select id * 10 as id from {{ new_rows(source('src', 'log')) }}
    """,
    "models/of_two.sql": """
        {{ config(materialized='incremental', incremental_strategy='append_new_rows') }}
        select id from {{ new_rows(source('src', 'log')) }}
        union all
        select id from {{ new_rows(source('src', 'other')) }}
    """,
    "models/newest.sql": """
        {{ config(materialized='incremental', incremental_strategy='replace_all') }}
        select id, 'new' as age from {{ new_rows(source('src', 'log')) }}
        {% if is_incremental() and not adapter.reads_whole(model) %}
        union all
        select id, 'old' as age from {{ this }} where id > 1
        {% endif %}
    """,
}


@pytest.fixture
def project(make_project):
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create table src.log (id int) using iceberg")
    project.query("insert into src.log values (1), (2)")
    project.query("create table src.other (id int) using iceberg")
    project.query("insert into src.other values (11)")
    project.run("run")
    return project


def stored(project, table: str) -> list[tuple]:
    return sorted(tuple(row.values()) for row in project.query(f"select * from dw.{table}"))


def test_rows_follow_what_was_appended_and_what_was_rewritten(project):
    assert stored(project, "tenfold") == [(10,), (20,)]
    assert stored(project, "newest") == [(1, "new"), (2, "new")]

    project.query("insert into src.log values (3)")
    outcome = project.run("run")
    assert outcome.results["tenfold"].message == "+1 rows"
    assert stored(project, "tenfold") == [(10,), (20,), (30,)]
    assert stored(project, "newest") == [(2, "old"), (3, "new")]

    project.query("delete from src.log where id = 2")
    outcome = project.run("run")
    assert outcome.results["tenfold"].message == "+2 -3 rows"
    assert stored(project, "tenfold") == [(10,), (30,)]
    assert stored(project, "newest") == [(1, "new"), (3, "new")]
    # what came of the input that wasn't rewritten stays
    assert stored(project, "of_two") == [(1,), (3,), (11,)]

    outcome = project.run("run")
    assert {one.message for one in outcome.results.values()} == {"nothing new"}


def test_a_table_may_become_empty(project):
    project.query("delete from src.log")
    project.run("run")
    assert stored(project, "tenfold") == stored(project, "newest") == []
