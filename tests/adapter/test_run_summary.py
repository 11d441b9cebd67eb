"""The summary at a run's end, as the project's report_run prints it."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_warehouse import PROJECT

MODEL = """
    select * from values
        (1, 'a'), (2, null), (3, 'b\\u001b[31m\\nc'), (3, 'd'), (4, cast(null as string))
    as given(id, name)
"""
TESTS = """
    version: 2
    models:
      - name: names
        columns:
          - {name: id, data_tests: [unique]}
          - name: name
            data_tests:
              - not_null
              - accepted_values: {name: name_is_known, arguments: {values: [a, d]}}
"""


def test_the_first_rows_that_a_failed_test_found_stand_in_the_summary(
    make_project: Callable[..., DbtProject],
) -> None:
    macros = REPO / "macros" / "quality"
    project = make_project(
        {
            "dbt_project.yml": PROJECT.replace(
                "end_run(results)", "end_run(results, report_run(results))"
            ),
            "models/names.sql": MODEL,
            "models/_names.yml": TESTS,
        }
        | {
            f"macros/{name}": (macros / name).read_text(encoding="utf-8")
            for name in ("report_run.sql", "report_earlier_refusals.sql")
        }
    )
    log = project.run("build", expect_ok=False).log
    assert "3 data tests: 0 passed, 0 warned, 3 failed or skipped." in log
    assert "unique_names_id failed with 1 row, the first:" in log
    assert '{"unique_field":3,"n_records":2}' in log
    assert "not_null_names_name failed with 2 rows, the first:" in log
    assert log.count('{"name":null}') == 2
    # what could move the cursor or set a color stays an escape
    assert r'{"value_field":"b\u001B[31m\nc","n_records":1}' in log
