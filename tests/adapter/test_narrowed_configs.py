"""A data test that may pass in spite of failures, or isn't dbt's own, reads all rows each time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.four_models import TESTS, four_models, land
from tests.support.narrowed import record_queries

# tests of a table of the ids 0, 1, ..: each passes at 3 ids, and not at 6
BOUNDED = """
      - name: c
        columns:
          - name: id
            data_tests:
              - accepted_values:
                  name: failing
                  arguments: {values: [-1]}
                  config: {warn_if: '>5', error_if: '>5'}
              - accepted_values:
                  name: warning
                  arguments: {values: [-1]}
                  config: {severity: warn, warn_if: '>5'}
              - accepted_values:
                  name: summing
                  arguments: {values: [-1]}
                  config: {fail_calc: 'if(sum(value_field) > 13, 1, 0)'}
"""
OWN = """
      - name: c
        columns: [{name: id, data_tests: [{accepted_values: {name: own}}]}]
"""
# fails where there are more than five rows, by the name of a test whose failures are single rows
ACCEPTED = """
    {% test accepted_values(model, column_name) %}
    select count({{ column_name }}) as found from {{ model }} having count(*) > 5
    {% endtest %}
"""


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    return four_models(make_project)


def test_failures_of_before_count_where_a_test_may_have_some(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"models/_models.yml": TESTS.rstrip() + BOUNDED})
    ran = record_queries(monkeypatch)
    project.run("build")
    land(project, 3, 6)
    built = project.run("build", expect_ok=False).statuses()
    found = {name: built[name] for name in ("failing", "warning", "summing")}
    assert found == {"failing": "fail", "warning": "warn", "summing": "fail"}
    assert "unique_a_id" in ran.narrowed  # without bounds of its own


def test_a_test_that_only_has_the_name_of_dbts_own_reads_all_rows(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"macros/accepted.sql": ACCEPTED, "models/_models.yml": TESTS.rstrip() + OWN})
    ran = record_queries(monkeypatch)
    project.run("build")
    land(project, 3, 6)
    assert project.run("build", expect_ok=False).statuses()["own"] == "fail"
    assert "unique_a_id" in ran.narrowed
