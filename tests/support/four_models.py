"""A project of four models that are published, over a table to which ids come."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT, RAW_SOURCE, make_raw

A = """
    {{ config(materialized='incremental') }}
    select cast(id as int) as id, 'a' || id as name from {{ new_rows(source('raw', 'raw')) }}
"""
B = """
    {{ config(materialized='incremental') }}
    select id, upper(name) as name from {{ new_rows(ref('a')) }}
    {{ 'where id = raise_error("b stops")' if var('b_stops', false) }}
"""
C = """
    {{ config(materialized='incremental') }}
    select id from {{ new_rows(ref('a')) }}
    {{ 'where id = raise_error("c stops")' if var('c_stops', false) }}
"""
D = """
    {{ config(materialized='view') }}
    select b.id, b.name from {{ ref('b') }} as b inner join {{ ref('c') }} as c on b.id = c.id
"""
F = """
    {{ config(
        materialized='folded', unique_key='id', fold={'sequence': 'name'},
        on_definition_change='accept',
    ) }}
    select id, name {{ ', 1 as one' if var('more', false) }} from {{ new_rows(ref('a')) }}
"""
TESTS = (
    RAW_SOURCE
    + """
    models:
      - name: a
        columns:
          - name: id
            data_tests: [not_null, unique]
      - name: d
        columns:
          - name: id
            data_tests: [unique]
"""
)


def four_models(make_project: Callable[..., DbtProject], **files: str) -> DbtProject:
    """The project, with ids 0 to 2.

    Args:
        files: SQL of more models, or of these instead, by their names.
    """
    models = {"a": A, "b": B, "c": C, "d": D} | files
    project = make_project(
        {"dbt_project.yml": PROJECT, "models/_models.yml": TESTS}
        | {f"models/{name}.sql": sql for name, sql in models.items()}
    )
    make_raw(project)
    land(project, 0, 3)
    return project


def land(project: DbtProject, first: int, end: int) -> None:
    """Let ids first to end - 1 come in."""
    project.query(f"insert into dw.raw select cast(id as int) from range({first}, {end})")


def ids(project: DbtProject, table: str) -> list[int]:
    return sorted(project.column(f"select id from {table}"))
