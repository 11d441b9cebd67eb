"""A view names two inputs of the same name: sources of two systems, versions, models of packages.

Whoever reads the view reads each of them as the view does itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT

SOURCES = """
    sources:
      - {name: eu, tables: [{name: orders}]}
      - {name: us, tables: [{name: orders}]}
    models:
      - {name: codes, latest_version: 2, versions: [{v: 1}, {v: 2}]}
"""
PACKAGE = {
    "packages.yml": "packages: [{local: shared}]",
    "shared/dbt_project.yml": "name: shared\nversion: 1.0.0\nconfig-version: 2\n",
    "shared/models/places.sql": "{{ config(alias='shared_places') }} select 1 as id",
    "shared/models/own_places.sql": "select id, 'own' as kind from {{ ref('places') }}",
    "models/places.sql": "select 2 as id",
    "models/stored_of_package.sql": "{{ config(materialized='table') }} "
    "select * from {{ ref('shared', 'own_places') }}",
}
VIEWS = {
    "orders": """
        select id, 'eu' as kind from {{ source('eu', 'orders') }}
        union all
        select id, 'us' as kind from {{ source('us', 'orders') }}
    """,
    "codes_of_both": """
        select id, 'new' as kind from {{ ref('codes') }}
        union all
        select id, 'old' as kind from {{ ref('codes', v=1) }}
        union all
        select id, 'second' as kind from {{ ref('codes', version=2) }}
    """,
    "places_of_both": """
        select id, 'ours' as kind from {{ ref('places') }}
        union all
        select id, 'shared' as kind from {{ ref('shared', 'places') }}
    """,
}
STORED = "{{{{ config(materialized='table') }}}} select * from {{{{ ref('{}') }}}}"
ROWS = {
    "orders": [("eu", 1), ("us", 2)],
    "codes_of_both": [("new", 2), ("old", 1), ("second", 2)],
    "places_of_both": [("ours", 2), ("shared", 1)],
}


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    files = {
        **PACKAGE,
        "dbt_project.yml": PROJECT,
        "models/_models.yml": SOURCES,
        "models/codes_v1.sql": "select 1 as id",
        "models/codes_v2.sql": "select 2 as id",
        **{f"models/{name}.sql": sql for name, sql in VIEWS.items()},
        **{f"models/stored_{name}.sql": STORED.format(name) for name in VIEWS},
    }
    project = make_project(files)
    for schema, number in (("eu", 1), ("us", 2)):
        project.query(f"create namespace {schema}")
        project.query(f"create table {schema}.orders (id int) using iceberg")
        project.query(f"insert into {schema}.orders values ({number})")
    project.run("deps")
    project.run("build")
    return project


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_inputs_of_the_same_name_is_read_as_it_is(project: DbtProject, name: str) -> None:
    for table in (f"dw.{name}", f"dw.stored_{name}", f"published.{name}"):
        rows = project.query(f"select kind, id from {table} order by kind")
        assert (table, [tuple(row.values()) for row in rows]) == (table, ROWS[name])


def test_a_view_of_a_package_is_read_as_dbt_reads_its_names(project: DbtProject) -> None:
    """The project's own model comes before the package's."""
    for table in ("dw.own_places", "dw.stored_of_package", "published.own_places"):
        assert project.column(f"select id from {table}") == [2]
