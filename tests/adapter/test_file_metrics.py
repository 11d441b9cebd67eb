"""`not_null` is answered by the metrics of a table's files where they prove it, else by a query."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import DbtProject, Outcome
from tests.support.small_warehouse import PROJECT

ROWS = """
    {{ config(
        materialized='incremental',
        on_schema_change='append_new_columns',
        on_definition_change='accept',
    ) }}
    select cast(id as int) as id, if(id = 3, null, 'a' || id) as name, `Day`
    {{ ', 1 as later' if var('later', false) }}
    from values (1, 1), (2, null), (3, 3) as t(id, `Day`)
    {{ 'where id = 1' if var('later', false) }}
"""
TESTS = """
    models:
      - name: stored
        columns:
          - name: id
            data_tests:
              - not_null
              - not_null: {name: of_some, config: {where: id > 1}}
              - not_null: {name: of_any, config: {where: id in (select 1)}}
              - not_null: {name: of_none, config: {where: nothing > 1}}
              - not_null: {name: of_more, config: {error_if: '= 0', severity: error}}
              - not_null: {name: by_sum, config: {fail_calc: 'coalesce(sum(id), 0)'}}
          - {name: ID, data_tests: [{not_null: {name: in_capitals}}]}
          - {name: name, data_tests: [{not_null: {name: of_names}}]}
          - {name: day, data_tests: [{not_null: {name: of_days, config: {severity: warn}}}]}
          - {name: id + 1, data_tests: [{not_null: {name: of_terms}}]}
      - name: shown
        columns: [{name: id, data_tests: [{not_null: {name: of_a_view}}]}]
"""
LATER = """
    models:
      - name: stored
        columns:
          - {name: id, data_tests: [{not_null: {name: of_ids}}]}
          - {name: later, data_tests: [{not_null: {name: of_later}}]}
"""


def of_tests(done: Outcome) -> dict[str, str]:
    """Status of each data test."""
    statuses = done.statuses().items()
    return {name: status for name, status in statuses if not name.startswith("small-on-run")}


def queried(project: DbtProject) -> set[str]:
    """Data tests of which dbt has written the query that it ran."""
    return {path.stem for path in (project.root / "target" / "run").rglob("*.yml/*.sql")}


def test_only_what_the_metrics_prove_is_not_queried(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(
        {
            "dbt_project.yml": PROJECT,
            "models/stored.sql": ROWS,
            "models/shown.sql": "select * from {{ ref('stored') }}",
            "models/_models.yml": TESTS,
        }
    )
    project.run("run")
    done = project.run("test", expect_ok=False)
    found = of_tests(done)
    assert found == {
        "not_null_stored_id": "pass",
        "of_some": "pass",
        "of_any": "pass",
        "of_none": "error",  # no such column
        "of_more": "fail",  # it wants nulls
        "by_sum": "pass",
        "in_capitals": "pass",
        "of_names": "fail",
        "of_days": "warn",
        "of_terms": "pass",
        "of_a_view": "pass",
    }
    assert [done.results[name].failures for name in ("of_names", "of_days")] == [1, 1]
    by_metrics = {"not_null_stored_id", "of_some", "in_capitals"}
    assert queried(project) == found.keys() - by_metrics
    # each of them can be run by its query
    project.run("test", vars={"test_again": True}, expect_ok=False)
    assert queried(project) == found.keys()


def test_rows_of_before_a_column_came_hold_a_null(make_project: Callable[..., DbtProject]) -> None:
    project = make_project(
        {
            "dbt_project.yml": PROJECT,
            "models/stored.sql": ROWS,
            "models/_models.yml": LATER.replace("later", "name"),
        }
    )
    project.run("run")
    project.write({"models/_models.yml": LATER})
    project.run("run", vars={"later": True})
    statuses = of_tests(project.run("test", expect_ok=False))
    assert statuses == {"of_ids": "pass", "of_later": "fail"}
    assert queried(project) == {"of_later"}
    project.query("delete from dw.stored where later is null")
    assert of_tests(project.run("test")) == {"of_ids": "pass", "of_later": "pass"}
