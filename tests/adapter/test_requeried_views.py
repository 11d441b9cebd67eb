"""A published view whose columns stay gets its new query without Spark looking at the old query."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dbt.adapters.sparksession.versions.published_views import PublishedViews

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT, make_raw

FILES = {
    "dbt_project.yml": PROJECT,
    "models/_models.yml": """
        version: 2
        sources: [{name: raw, schema: dw, tables: [{name: raw}]}]
        models: [{name: rows}, {name: above}]
    """,
    "models/rows.sql": """
        {{ config(materialized='table') }}
        select id {{ ', 1 as more' if var('more', false) }} from {{ source('raw', 'raw') }}
    """,
    "models/above.sql": "select * from {{ ref('rows') }} where id > {{ var('least', 0) }}",
}


@pytest.mark.in_turn
def test_a_version_of_the_same_columns_looks_at_each_new_query_once(
    make_project: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(FILES)
    make_raw(project)
    project.query("insert into dw.raw values (1)")
    project.run("build")

    def published(*args: str) -> list[int]:
        project.run("build", *args)
        return project.column("select id from published.above order by id")

    with monkeypatch.context() as patched:
        patched.setattr(PublishedViews, "_schema_of", None)  # a call fails
        project.query("insert into dw.raw values (2)")
        assert published() == [1, 2]
        assert published("--vars", "{least: 1}") == [2], "another query of the same columns"
    project.query("insert into dw.raw values (3)")
    assert published("--vars", "{more: true}") == [1, 2, 3]
    assert project.query("select * from published.above where id = 3") == [{"id": 3, "more": 1}]
    # somebody wrote one view by hand, and dropped another
    project.query("create or replace view published.above as select 'x' as other")
    project.query("drop view published.rows")
    project.query("insert into dw.raw values (4)")
    assert published("--vars", "{more: true}") == [1, 2, 3, 4]
    assert project.column("select id from published.rows order by id") == [1, 2, 3, 4]
    project.query("create or replace view published.above as select 7L as id, 1 as more")
    project.query("insert into dw.raw values (5)")
    assert published("--vars", "{more: true}") == [1, 2, 3, 4, 5]
