"""A view is written again where its query, description or inputs' columns are others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from dbt.adapters.sparksession.versions.published_views import PublishedViews

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT, make_raw

BELOW = "select * from {{ ref('rows') }} as given where id > {{ var('least', 0) }}"
FILES = {
    "models/_models.yml": """
        version: 2
        sources: [{name: raw, schema: dw, tables: [{name: raw}]}]
        models:
          - name: above
            description: WORDS
            config: {persist_docs: {relation: true}}
    """,
    "models/rows.sql": """
        {{ config(materialized='table') }}
        select id {{ ', 1 as more' if var('more', false) }} from {{ source('raw', 'raw') }}
    """,
    "models/below.sql": BELOW,
    "models/above.sql": "with picked as (select * from {{ ref('below') }}) select * from picked",
}


def places(project: DbtProject) -> dict[str, str]:
    """View -> its metadata file, another with each time that it was written."""
    with sqlite3.connect(project.warehouse / "catalog.db") as catalog:
        return dict(
            catalog.execute(
                "select table_name, metadata_location from iceberg_tables "
                "where iceberg_type = 'VIEW' and table_namespace = 'dw'"
            ).fetchall()
        )


def test_a_view_is_written_where_it_would_be_another(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    make_raw(project)
    project.query("insert into dw.raw values (1), (2)")

    def written(*args: str) -> set[str]:
        before = places(project)
        project.run("run", *args)
        now = places(project)
        return {name for name in now if now[name] != before.get(name)}

    assert written() == {"below", "above"}
    assert written() == set()
    project.query("insert into dw.raw values (3)")
    assert written() == set(), "new rows are no reason"
    assert project.column("select id from dw.above order by id") == [1, 2, 3]
    assert written("--vars", "{least: 1}") == {"below"}
    assert project.column("select id from dw.above order by id") == [2, 3]
    assert written("--vars", "{least: 1, more: true}") == {"below", "above"}
    assert project.query("select * from dw.above where id = 2") == [{"id": 2, "more": 1}]
    project.write({"models/_models.yml": FILES["models/_models.yml"].replace("WORDS", "Others")})
    assert written("--vars", "{least: 1, more: true}") == {"above"}
    project.query("create or replace view dw.above as select 7 as id, 1 as more")
    assert written("--vars", "{least: 1, more: true}") == {"above"}
    assert project.column("select id from dw.above order by id") == [2, 3]
    project.query("drop view dw.below")
    assert written("--vars", "{least: 1, more: true}") == {"below", "above"}


def test_a_version_of_the_same_columns_looks_at_each_new_query_once(
    make_project: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(FILES | {"dbt_project.yml": PROJECT})
    make_raw(project)
    project.query("insert into dw.raw values (1)")
    project.run("build")
    with monkeypatch.context() as patched:
        patched.setattr(PublishedViews, "_schema_of", None)  # a call fails
        for number in (2, 3):
            project.query(f"insert into dw.raw values ({number})")
            assert f"Published as version {number}" in project.run("build").log
            read = project.column("select id from published.above order by id")
            assert read == list(range(1, number + 1))
    project.query("insert into dw.raw values (4)")
    project.run("build", "--vars", "{more: true}")
    assert project.query("select * from published.above where id = 4") == [{"id": 4, "more": 1}]


def test_a_passed_test_of_a_model_without_versions_is_not_run_again(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(
        {
            "dbt_project.yml": PROJECT,
            "models/_models.yml": """
                version: 2
                sources: [{name: raw, schema: dw, tables: [{name: raw}]}]
                models:
                  - name: rows
                  - name: inner_rows
                    config: {meta: {published: false}}
                    columns: [{name: id, data_tests: [unique]}]
            """,
            "models/rows.sql": """
                {{ config(materialized='incremental') }}
                select id from {{ new_rows(source('raw', 'raw')) }}
            """,
            "models/inner_rows.sql": """
                {{ config(materialized='incremental') }}
                select id from {{ new_rows(ref('rows')) }}
            """,
        }
    )
    make_raw(project)
    project.query("insert into dw.raw values (1)")
    project.run("build")
    assert "1 data tests had passed on these very rows" in project.run("build").log
    project.query("insert into dw.inner_rows values (1)")
    failed = project.run("build", expect_ok=False)
    assert "unique_inner_rows_id" in failed.log
    assert "had passed on these very rows" not in failed.log
