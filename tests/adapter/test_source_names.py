"""Sources whose tables have names that Spark takes in backticks alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT

pytestmark = pytest.mark.in_turn

SOURCES = """
    sources:
      - name: odd
        schema: src
        tables: [{name: a, identifier: %s}, {name: b, identifier: %s}, {name: unread d}]
"""
QUOTED = SOURCES % ('"`my-table`"', '"`my table`"')
ADDS = "{{ config(materialized='incremental', incremental_strategy='append') }} select id from"
MODELS = {
    "models/added.sql": f"{ADDS} {{{{ new_rows(source('odd', 'a')) }}}}",
    "models/changed.sql": f"{ADDS} {{{{ new_changes(source('odd', 'b'), by='id') }}}}",
    "models/merged.sql": "{{ config(materialized='incremental', unique_key='id') }}"
    " select id from {{ source('odd', 'a') }}",
    "models/keyed.sql": "{{ config(materialized='folded', unique_key='id') }}"
    " select id from {{ new_rows(source('odd', 'b')) }}",
    "models/in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="append")
            return dbt.new_rows(dbt.source("odd", "a"))
    """,
    "models/python_changes.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="append")
            return dbt.new_changes(dbt.source("odd", "b"), by="id").select("id")
    """,
    "models/shown.sql": "select id from {{ source('odd', 'b') }}",
}


def test_a_name_in_backticks_is_read_and_another_is_refused(
    make_project: Callable[..., DbtProject],
) -> None:
    files = {"dbt_project.yml": PROJECT, "models/_sources.yml": QUOTED, "seeds/s.csv": "id\n1\n"}
    project = make_project(files | MODELS)
    project.query("create namespace src")
    for name in ("my-table", "my table"):
        project.query(f"create table src.`{name}` (id int) using iceberg")
    for number in range(3):
        for name in ("my-table", "my table"):
            project.query(f"insert into src.`{name}` values ({number})")
        project.run("build")
    for path in MODELS:
        name = path.split("/")[1].partition(".")[0]
        assert sorted(project.column(f"select id from published.{name}")) == [0, 1, 2], name

    project.write({"models/_sources.yml": SOURCES % ("my-table", '"my table"')})
    log = project.run("run", expect_ok=False).log
    for name, table in (("a", "my-table"), ("b", "my table")):
        assert (
            f"source('odd', '{name}') is the table '{table}', a name that Spark takes in backticks "
            f'alone: write identifier: "`{table}`".'
        ) in log
    assert "unread d" not in log

    project.write({"models/_sources.yml": QUOTED.replace("schema: src", "schema: my-schema")})
    log = project.run("run", expect_ok=False).log
    assert "the schema of source('odd', 'a') has the name 'my-schema', but a schema's" in log
