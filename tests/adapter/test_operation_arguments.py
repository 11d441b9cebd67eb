"""Arguments of operations that are empty, or no version: refused before anything is changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT, make_raw

pytestmark = pytest.mark.in_turn

MODEL = """
    {{ config(materialized='incremental') }}
    select id from {{ new_rows(source('raw', 'raw')) }}
"""
SOURCES = """
    sources: [{name: raw, schema: dw, tables: [{name: raw}]}]
"""
NO_VERSION = "must be the number or tag of a version, got"
LEFT_OUT = "must have a value, got None: write it down, or leave"
# what is given -> what is printed
REFUSED = {
    ("roll_back", "{version: }"): f"version {NO_VERSION} None",
    ("roll_back", "{version: ' '}"): f"version {NO_VERSION} ' '",
    ("roll_back", "{}"): f"version {NO_VERSION} None",
    ("roll_back", "{version: candidate}"): f"version {NO_VERSION} 'candidate', the build that",
    ("roll_back", "{verson: 1}"): "verson",
    ("keep_version", "{version: , tag: paid}"): f"version {NO_VERSION} None",
    ("keep_version", "{version: candidate, tag: b}"): f"version {NO_VERSION} 'candidate', the",
    ("keep_version", "{version: 1, tag: }"): f"tag {LEFT_OUT} tag out",
    ("diff_versions", "{first: 1, last: }"): f"last {NO_VERSION} None",
    ("diff_versions", "{first: 1}"): f"last {NO_VERSION} None",
    ("diff_versions", "{first: 1, last: 2, select: }"): f"select {LEFT_OUT} select out",
    ("expire_versions", "{keep: , days: 0}"): f"keep {LEFT_OUT} keep out",
    ("expire_versions", "{keep: 1, days: }"): f"days {LEFT_OUT} days out",
    ("compact", "{select: }"): f"select {LEFT_OUT} select out",
    ("compact", "{select: rows, merge_runs: 'false'}"): "merge_runs must be true or false, got",
    ("compact", "{select: rows, merge_runs: }"): "merge_runs must be true or false, got None",
    ("copy_warehouse", "{to: }"): "to must be a folder, got None",
    ("copy_warehouse", "{}"): "to must be a folder, got None",
    ("copy_warehouse", "{to: ''}"): "to must be a folder, got ''",
    ("copy_warehouse", "{to: [copy]}"): "to must be a folder, got ['copy']",
    ("publish_to", "{target: , version: 1}"): f"target {LEFT_OUT} target out",
    ("publish_to", "{target: kept, version: }"): f"version {LEFT_OUT} version out",
    ("publish_to", "{target: [kept]}"): "target must be a name, got ['kept']",
    ("publish_to", "{target: kept, version: candidate}"): f"version {NO_VERSION} 'candidate', the",
    ("drop_built", "{}"): "schema must be another schema",
    ("diff_built", "{schema: }"): "schema must be another schema",
    ("list_versions", "{limit: }"): "limit must be a whole number from 0 on, got None",
}


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    """Two versions, the first of which has a tag, and a build that is held back."""
    made = make_project(
        {"dbt_project.yml": PROJECT, "models/_sources.yml": SOURCES, "models/rows.sql": MODEL}
    )
    make_raw(made)
    for hold_back in (False, False, True):
        made.query("insert into dw.raw values (1)")
        made.run("build", vars={"hold_back": hold_back})
    made.run("run-operation", "keep_version", "--args", "{version: 1, tag: first}")
    return made


def test_an_argument_without_a_value_is_refused(project: DbtProject) -> None:
    for (operation, given), printed in REFUSED.items():
        outcome = project.run("run-operation", operation, "--args", given, expect_ok=False)
        assert printed in f"{outcome.log}{outcome.exception}", (operation, given)
    assert project.query("select version, tag from dw.meta_version order by version") == [
        {"version": 1, "tag": "first"},
        {"version": 2, "tag": None},
    ]
    assert project.column("select count(*) from dw.rows") == [3]
    assert project.column("select count(*) from published.rows") == [2]
    assert not (project.root / "None").exists()


def test_no_version_is_not_the_tables_as_they_are(project: DbtProject) -> None:
    show = ("show", "--inline", "select count(*) as n from {{ ref('rows') }}")
    assert "| 2 |" in project.run(*show, vars={"as_of_version": "latest"}).log.replace("  ", " ")
    outcome = project.run(*show, vars={"as_of_version": None}, expect_ok=False)
    refused = "The var as_of_version must be the number or tag of a version, or latest, got None"
    assert refused in f"{outcome.log}{outcome.exception}"


def test_a_candidate_is_compared_by_its_name(project: DbtProject) -> None:
    given = "{first: 2, last: candidate}"
    log = project.run("run-operation", "diff_versions", "--args", given).log
    assert "dw.rows: 1 added, 0 removed, 0 changed" in log
