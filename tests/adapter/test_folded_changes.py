"""Keyed tables over the changes of a table, ordered by a column of its rows."""

from __future__ import annotations

import pytest

from tests.support.four_models import F, four_models, ids, land

SMALL_TIERS = {"buckets": 2, "tier_runs": 2, "tier_rows": 20}
# folds of a table's changes by a time of its own, which isn't when a change was made
OF_CHANGES = {
    "by_time": {"sequence": "at", "row_kind": "row_kind"},
    "emptied": {"sequence": "at", "row_kind": "row_kind", "on_delete": "retract"},
    "counted": {"sequence": "at", "row_kind": "row_kind", "count_rows": True},
    "first": {
        "sequence": [{"column": "at", "order": "descending"}],
        "row_kind": "row_kind",
    },
    "grouped": {
        "sequence_groups": {
            "g": {"sequence": ["at"], "columns": ["v"], "on_delete": "remove_row"},
        },
        "row_kind": "row_kind",
    },
}


@pytest.mark.in_turn
def test_rows_that_go_or_get_an_older_time_are_no_longer_shown(make_project):
    project = make_project(
        {"models/sources.yml": "sources: [{name: src, tables: [{name: events}]}]"}
        | {
            f"models/{name}.sql": f"""
                {{{{ config(materialized='folded', unique_key='id', fold={fold | SMALL_TIERS}) }}}}
                select id, v, at, row_kind
                from {{{{ new_changes(source('src', 'events'), by='id') }}}}
            """
            for name, fold in OF_CHANGES.items()
        }
    )
    project.query("create namespace if not exists src")
    project.query("create table src.events (id int, v int, at int) using iceberg")
    for statement in (
        "insert into src.events values (1, 1, 1), (2, 2, 2), (3, 3, 3)",
        "delete from src.events where id = 1",
        "update src.events set at = 1, v = 33 where id = 3",
        "insert into src.events values (1, 1, 1)",
        "update src.events set v = 22 where id = 2",
    ):
        project.query(statement)
        project.run("run")
        expected = project.query("select id, v, at from src.events order by id")
        for name in OF_CHANGES:
            rows = project.query(f"select id, v, at from dw.{name} order by id")
            assert rows == expected, (name, statement)


def test_changes_of_a_view_over_a_keyed_table_are_refused_with_the_way_on(make_project):
    project = make_project(
        {
            "models/keyed.sql": "{{ config(materialized='folded', unique_key='id', "
            "fold={'sequence': 'v'}) }} select 1 as id, 1 as v",
            "models/doubled.sql": "{{ config(materialized='view', meta={'row_wise': true}) }} "
            "select id, v * 2 as v from {{ ref('keyed') }}",
            "models/follows.sql": "{{ config(materialized='incremental') }} "
            "select id, v from {{ new_changes(ref('doubled')) }}",
        }
    )
    message = project.run("run", expect_ok=False).results["follows"].message
    assert "Take new_changes(..) of it and not of a view over it" in message


@pytest.mark.in_turn
def test_a_reader_that_is_behind_a_compaction_reads_on_when_versions_have_expired(make_project):
    """The compaction commits nothing of how its rows are folded: the commits before it do."""
    reader = """
        {{ config(materialized='incremental', meta={'published': false}) }}
        select id, row_kind, sign from {{ new_changes(ref('f')) }}
    """
    project = four_models(make_project, f=F, behind=reader)
    for end in range(4, 9):
        project.run("build")
        land(project, end - 1, end)
    project.run("build", "--exclude", "behind")
    project.run("run-operation", "compact", "--args", "{select: f}")
    project.run("run", "--select", "behind")
    for end in range(9, 11):
        land(project, end - 1, end)
        project.run("build", "--exclude", "behind")
    project.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    project.run("run", "--select", "behind")
    assert ids(project, "dw.behind") == list(range(10))
