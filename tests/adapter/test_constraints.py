"""Constraints of a contract hold for the rows that a model has, whenever they were declared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

KEPT = (
    "{{{{ config(materialized='incremental', unique_key='id',"
    " on_schema_change='append_new_columns') }}}}"
    " select id, v {} from {{{{ new_rows(source('src', 'x')) }}}}"
)


def contract(constraints: list[dict[str, str]], **columns: list[dict[str, str]]) -> str:
    """YAML of the model `kept`, its columns with their constraints."""
    given = {"id": [], "v": [], **columns}
    declared = [
        {"name": name, "data_type": "int", "constraints": [{"type": kind} for kind in kinds]}
        for name, kinds in given.items()
    ]
    model = {"name": "kept", "config": {"contract": {"enforced": True}}, "columns": declared}
    return yaml.safe_dump({"models": [model | {"constraints": constraints}]})


@pytest.fixture
def small(make_project: Callable[..., DbtProject]) -> DbtProject:
    files = {"models/kept.sql": KEPT.format(""), "models/_kept.yml": contract([])}
    rows = "insert into src.x values (1, 1), (2, null)"
    made: DbtProject = project_with_source(make_project, files, rows)
    made.run("run")
    return made


BIG = [{"type": "check", "expression": "v > 2", "name": "big"}]


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        (contract([], v=["not_null"]), "the constraint not_null of v is broken, a row has null"),
        (contract(BIG), "the constraint check (big) is broken by a row"),
    ],
)
def test_held_rows_that_break_a_later_constraint_are_refused(
    small: DbtProject, declared: str, sentence: str
) -> None:
    small.write({"models/_kept.yml": declared})
    for news in ("insert into src.x values (3, 3)", "select 1"):
        small.query(news)
        message = small.run("run", expect_ok=False).results["kept"].message
        assert sentence in message
        assert "holds from before the constraint; correct such rows, or run it with" in message
    small.query("delete from dw.kept where id < 3")
    small.run("run")
    assert small.column("select id from dw.kept") == [3]
    small.query("insert into dw.kept values (4, null)")  # what was looked at is not looked at again
    assert small.run("run").results["kept"].message == "nothing new"


def test_a_new_column_under_a_constraint_is_null_in_held_rows(small: DbtProject) -> None:
    small.write(
        {
            "models/kept.sql": KEPT.format(", 1 as w"),
            "models/_kept.yml": contract([], w=["not_null"]),
        }
    )
    accepted = {"accept_definition": ["kept"]}
    message = small.run("run", vars=accepted, expect_ok=False).results["kept"].message
    assert "the constraint not_null of w is broken" in message
    small.run("run", "--full-refresh")
    assert small.column("select w from dw.kept") == [1, 1]
    small.query("insert into src.x values (5, 5)")
    assert small.run("run").results["kept"].message == "+1 rows"


@pytest.mark.parametrize(
    "option", ["merge_update_columns=['V']", "merge_exclude_columns=['id', 'w']"]
)
def test_a_merge_of_some_columns_holds_a_constraint_of_several(
    small: DbtProject, option: str
) -> None:
    merged = KEPT.format(", v + 1 as w").replace("new_rows", "pinned")
    below = [{"type": "check", "expression": "w > v", "name": "below"}]
    small.write(
        {
            "models/kept.sql": merged.replace("unique_key='id'", f"unique_key='id', {option}"),
            "models/_kept.yml": contract(below, w=[]),
        }
    )
    small.run("run", "--full-refresh")
    rows = "select id, v, w from dw.kept order by id"
    held = small.query(rows)
    small.query("update src.x set v = 0 where id = 1")
    small.run("run")
    assert small.query(rows) == [held[0] | {"v": 0}, held[1]]
    small.query("update src.x set v = 7 where id = 1")
    message = small.run("run", expect_ok=False).results["kept"].message
    assert "the constraint check (below) is broken by a row as the merge would leave it" in message
    assert small.query(rows) == [held[0] | {"v": 0}, held[1]]
    small.query("insert into src.x values (3, 3)")
    small.query("delete from src.x where id = 1")
    small.run("run")
    assert small.column("select w from dw.kept where id = 3") == [4]
