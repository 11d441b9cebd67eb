"""Code that Python models import is edited while a process runs that has imported it."""

from __future__ import annotations

import pytest

from tests.support.small_source import project_with_source

pytestmark = pytest.mark.in_turn

MODEL = """
    from {module} import part


    def model(dbt, session):
        dbt.config(
            {config}
            on_definition_change="rebuild",
        )
        return {rows}.selectExpr("id", f"v + {{part()}} as v")
"""
ADDED = 'materialized="incremental", incremental_strategy="append",'


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ('materialized="table",', 'dbt.source("src", "x")'),
        (ADDED, 'dbt.new_rows(dbt.source("src", "x"))'),
    ],
)
def test_rows_are_not_made_by_code_that_was_edited_since_it_was_imported(
    make_project, config, rows
):
    module = f"parts_of_{'table' if 'table' in config else 'added'}"  # Python imports it once
    code = MODEL.format(module=module, config=config, rows=rows)
    files = {"models/m.py": code, f"{module}.py": "def part():\n    return 1\n"}
    project = project_with_source(make_project, files, "insert into src.x values (1, 1)")
    project.run("run")
    project.write({f"{module}.py": "def part():\n    return 1  # a comment\n"})
    project.run("run")

    project.write({f"{module}.py": "def part():\n    return 10\n"})
    message = project.run("run", expect_ok=False).results["m"].message

    assert (
        f"m imports {module}.py, which was edited after this process had imported it, so that the "
        "old code would make rows that count as made by the new code; run the command again."
    ) in message
    assert project.column("select v from dw.m") == [2]
    project.subprocess("run").check_returncode()
    assert project.column("select v from dw.m") == [11]


def test_a_file_that_was_edited_before_it_is_imported_is_taken_as_it_is(make_project):
    rows = 'dbt.new_rows(dbt.source("src", "x"))'
    code = MODEL.format(module="parts_of_late", config=ADDED, rows=rows)
    files = {"models/m.py": code, "parts_of_late.py": "raise ValueError('not yet')\n"}
    project = project_with_source(make_project, files, "insert into src.x values (1, 1)")
    assert "not yet" in project.run("run", expect_ok=False).results["m"].message
    project.write({"parts_of_late.py": "def part():\n    return 5\n"})
    project.run("run")
    assert project.column("select v from dw.m") == [6]
