"""Keys that a merge has forgotten because a condition hid them, under another condition."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

SUMMED = """
    {{{{ config(materialized='folded', unique_key='id', fold={{
        'aggregates': {{'n': 'sum'}}, 'row_kind': 'row_kind', 'not_null': 'n', 'keep_when': '{}',
    }}) }}}}
    select id, v as n, row_kind from {{{{ new_rows(source('src', 'x')) }}}}
"""


def summed(condition: str) -> dict[str, str]:
    return {"models/summed.sql": SUMMED.format(condition)}


@pytest.fixture
def project(make_project) -> DbtProject:
    made = partial(project_with_source, make_project)(
        summed("n <> 0"),
        "alter table src.x add column row_kind string",
        "insert into src.x values (1, 1, '+I'), (2, 2, '+I')",
    )
    made.run("run")
    made.query("insert into src.x values (1, 1, '-D')")
    made.run("run")
    return made


def shown(project: DbtProject) -> list[tuple]:
    return [tuple(row.values()) for row in project.query("select id, n from dw.summed order by id")]


@pytest.mark.parametrize("by_operation", [False, True])
def test_another_condition_is_refused_once_keys_were_forgotten(project, by_operation):
    if by_operation:
        project.run("run-operation", "compact", "--args", "{select: summed, merge_runs: true}")
    else:
        project.run("run", vars={"merge_runs": True})
    project.write(summed("n >= 0"))
    for _ in range(2):
        message = project.run("run", expect_ok=False).results["summed"].message
        assert "keys that keep_when hid were forgotten by a merge: it was 'n <> 0' then" in message
        assert "Run it with --full-refresh." in message
        assert shown(project) == [(2, 2)]
    project.run("run", "--full-refresh")
    assert shown(project) == [(1, 0), (2, 2)]
    # nothing is forgotten since
    project.write(summed("n > 0"))
    project.run("run")
    assert shown(project) == [(2, 2)]


def test_another_condition_counts_while_no_key_was_forgotten(project):
    project.write(summed("n >= 0"))
    project.run("run")
    assert shown(project) == [(1, 0), (2, 2)]
