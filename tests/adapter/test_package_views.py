"""Views of packages: who reads a view has what the view has, by the macros and vars of its package,
and is asked once these are others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT

SCOPED = PROJECT + "\n    vars: {rate: 10, shared: {rate: 20}}\n"
DECLARED = "name: shared\nversion: 1.0.0\nconfig-version: 2\nvars: {own_rate: 30}\n"
PRICED = """
    {{ config(meta={'row_wise': true}) }}
    select
        id, {{ price() }} as price, {{ sole() }} as sole, {{ var('rate') }} as rate,
        {{ var('own_rate', 0) }} as own_rate, '{{ this.identifier }}' as name,
        '{{ config.require('materialized') }}' as kind
    from {{ ref('stem') }}
"""
MERGED = "{{ config(materialized='incremental', unique_key='id') }}\n"
FILES = {
    "dbt_project.yml": SCOPED,
    "packages.yml": "packages: [{local: shared}]",
    "macros/price.sql": "{% macro price() %}1{% endmacro %}",
    "shared/dbt_project.yml": DECLARED,
    "shared/macros/price.sql": "{% macro price() %}2{% endmacro %}",
    "shared/macros/sole.sql": "{% macro sole() %}5{% endmacro %}",
    "shared/models/stem.sql": "{{ config(materialized='table') }} select 1 as id",
    "shared/models/priced.sql": PRICED,
    "shared/models/priced_in_place.sql": "{{ config(materialized='ephemeral') }}" + PRICED,
    "shared/models/over_ephemeral.sql": "select * from {{ ref('priced_in_place') }}",
    "shared/models/merged_there.sql": MERGED
    + "select id, {{ var('own_rate', 0) }} as own_rate from {{ ref('stem') }}",
    "shared/models/in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            return session.sql(f"select {dbt.project_var('own_rate', 0)} as own_rate")
    """,
    "models/stored.sql": "{{ config(materialized='table') }} select * from {{ ref('priced') }}",
    "models/added.sql": "{{ config(materialized='incremental') }}"
    " select * from {{ new_rows(ref('priced')) }}",
    "models/of_ephemeral.sql": "{{ config(materialized='table') }}"
    " select * from {{ ref('over_ephemeral') }}",
    "models/viewed.sql": "select * from {{ ref('priced') }}",
    "models/merged.sql": MERGED + "select id, rate, own_rate from {{ ref('priced') }}",
}
READERS = ("priced", "stored", "added", "viewed", "over_ephemeral", "of_ephemeral")


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    made = make_project(FILES)
    made.run("deps")
    made.run("build")
    return made


@pytest.mark.in_turn
def test_a_view_of_a_package_is_read_by_the_macros_and_vars_of_its_package(
    project: DbtProject,
) -> None:
    def rows(schema: str) -> dict[str, list[dict[str, int]]]:
        asked = "select id, price, sole, rate, own_rate from {}.{}"
        return {name: project.query(asked.format(schema, name)) for name in READERS}

    right = [{"id": 1, "price": 2, "sole": 5, "rate": 20, "own_rate": 30}]
    assert rows("dw") == rows("published") == dict.fromkeys(READERS, right)
    assert project.query("select name, kind from dw.stored") == [{"name": "priced", "kind": "view"}]
    assert project.column("select own_rate from dw.in_python") == [30]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("file", "refused"),
    [
        ({"dbt_project.yml": SCOPED.replace("20", "21")}, {"merged", "added"}),
        (
            {"shared/dbt_project.yml": DECLARED.replace("30", "31")},
            {"merged", "added", "merged_there"},
        ),
    ],
)
def test_another_value_of_a_var_of_a_package_is_another_definition(
    project: DbtProject, file: dict[str, str], refused: set[str]
) -> None:
    project.write(file)
    results = project.run("run", expect_ok=False).results
    assert {name for name, result in results.items() if result.status == "error"} == refused
    for name in refused:
        assert "rows were made by another definition: a var " in results[name].message, name
