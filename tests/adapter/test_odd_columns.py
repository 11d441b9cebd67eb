"""Columns whose names Spark takes in backticks alone: in each strategy, and in data tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

pytestmark = pytest.mark.in_turn

COLUMNS = "id, v, id as `my id`, v as `a-b`, id as `c.d`, v as `e``f`"
KEYS = {"spaced": "my id", "quoted": "`my id`", "dotted": "c.d", "ticked": "e`f", "two": "`e``f`"}
NEWS = "{{ new_rows(source('src', 'x')) }}"
MODELS = {
    "added": "incremental_strategy='append'",
    "keyed": "unique_key='e`f', fold={'sequence': 'my id'}",
    **{name: f"unique_key='{key}'" for name, key in KEYS.items()},
    "of_both": "unique_key=['a-b', 'id']",
}
CHANGED = "{{ config(materialized='incremental', incremental_strategy='append') }}"
YAML = """
    models:
      - name: added
        columns:
          - {name: "e`f", quote: true, data_tests: [not_null, unique]}
          - {name: "c.d", quote: true, data_tests: [not_null, unique]}
"""


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    files = {"models/_models.yml": YAML}
    for name, config in MODELS.items():
        kind = "folded" if "fold=" in config else "incremental"
        text = f"{{{{ config(materialized='{kind}', {config}) }}}} select {COLUMNS} from {NEWS}"
        files[f"models/{name}.sql"] = text
        files[f"models/changes_of_{name}.sql"] = (
            f"{CHANGED} select * from {{{{ new_changes(ref('{name}')) }}}}"
        )
    return project_with_source(make_project, files)


def test_rows_are_those_of_one_run_over_all(project: DbtProject) -> None:
    for number in range(3):
        project.query(f"insert into src.x values ({number}, {number})")
        project.run("run")
    for name in MODELS:
        rows = project.query(f"select * from dw.{name} order by id")
        assert [list(row.values()) for row in rows] == [[n] * 6 for n in range(3)], name
        assert project.column(f"select id from dw.changes_of_{name} order by id") == [0, 1, 2], name
    assert set(project.run("test").statuses().values()) == {"pass"}
