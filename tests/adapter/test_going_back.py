"""Tables that go back to a version have the rows that it has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.four_models import F, four_models, ids, land

NAMED = """
    {{ config(
        materialized='incremental', on_definition_change='accept',
        on_schema_change='sync_all_columns',
    ) }}
    select id{{ ', name' if not var('nameless', false) }} from {{ new_rows(ref('a')) }}
"""
KEYED = """
    {{ config(
        materialized='folded', unique_key='id', fold={'sequence': 'place'},
        on_definition_change='accept', on_schema_change='sync_all_columns',
    ) }}
    select id, id as place{{ ', name' if not var('nameless', false) }}
    from {{ new_rows(ref('a')) }}
"""


@pytest.mark.parametrize(
    "refresh", [("--full-refresh",), pytest.param((), marks=pytest.mark.in_turn)]
)
def test_a_column_that_was_dropped_and_added_again_is_another_column(
    make_project: Callable[..., DbtProject], refresh: tuple[str, ...]
) -> None:
    project = four_models(make_project, named=NAMED, keyed=KEYED)
    project.run("build")
    land(project, 3, 4)
    project.run("build", *refresh, vars={"nameless": True})
    project.run("build", *refresh)
    gone_back = project.run("run-operation", "roll_back", "--args", "{version: 1}").log
    assert "dw.named had other columns then and stays as it is: build it again" in gone_back
    assert "dw.keyed__runs had other columns then and stays as it is" in gone_back
    assert ids(project, "dw.a") == [0, 1, 2]
    land(project, 4, 5)
    project.run("build")
    for name in ("named", "keyed"):
        rows = project.query(f"select id, name from published.{name} order by id")
        assert [tuple(row.values()) for row in rows] == [(id, f"a{id}") for id in range(5)], name


@pytest.mark.in_turn
def test_a_kept_version_is_gone_back_to_though_its_last_commits_were_compactions(
    make_project: Callable[..., DbtProject],
) -> None:
    """A compaction commits no record of what was read: the commits before it have that."""
    project = four_models(make_project, f=F)
    for end in range(4, 8):
        project.run("build")
        land(project, end - 1, end)
    project.run("build")
    project.run("run-operation", "compact", "--args", "{merge_runs: true}")
    project.run("run-operation", "keep_version", "--args", "{version: 6, tag: paid}")
    land(project, 7, 8)
    project.run("build")
    project.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    project.run("run-operation", "roll_back", "--args", "{version: paid}")
    land(project, 8, 9)
    done = project.run("build")
    for name in "abcf":
        assert done.results[name].adapter_response["rows_affected"] == 2, name
    for name in "abcdf":
        assert ids(project, f"published.{name}") == list(range(9)), name


@pytest.mark.in_turn
def test_views_that_read_by_pinned_are_written_over_the_tables_gone_back_to(
    make_project: Callable[..., DbtProject],
) -> None:
    pinned = """
        {{ config(materialized='view') }}
        select id from {{ pinned(ref('a')) }}
        where id in (select id from {{ pinned(source('raw', 'raw')) }})
    """
    project = four_models(make_project, pinned=pinned, above="select * from {{ ref('pinned') }}")
    project.run("build")
    land(project, 3, 5)
    project.run("build", vars={"hold_back": True})
    project.run("run-operation", "drop_candidate")
    assert ids(project, "dw.above") == [0, 1, 2]
    project.run("build")
    project.run("run-operation", "roll_back", "--args", "{version: 1}")
    for name in ("dw.pinned", "dw.above", "published.above"):
        assert ids(project, name) == [0, 1, 2], name
    assert "dw.a" in project.query("show create table dw.pinned")[0]["createtab_stmt"]
    project.run("build")
    assert ids(project, "dw.above") == [0, 1, 2, 3, 4]
