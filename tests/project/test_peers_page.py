"""The page of other tools' options: each row names what does the same, and a test that is there."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.support.dbt_project import REPO

PAGE = REPO / "docs" / "reference" / "peers.md"
CASE = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<test>\w+)`")
NOT_HERE = re.compile(r"not here[ \w]*: ")


def rows_of(text: str) -> list[list[str]]:
    """Cells of all rows of the page's tables, without their heads.

    >>> rows_of("| a | b |\\n|---|---|\\n| 1 | 2 |\\n")
    [['1', '2']]
    """
    lines = text.splitlines()
    heads = {at - 1 for at, line in enumerate(lines) if line.startswith("|---")}
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for at, line in enumerate(lines)
        if line.startswith("| ") and at not in heads
    ]


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


@cache
def names_in(file: str) -> set[str]:
    path = REPO / file
    if not path.is_file():
        return set()
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_states_what_is_here_and_its_test_is_there(row: list[str]) -> None:
    option, here, shown = (*row, "")[:3]
    assert option
    assert here
    for case in CASE.finditer(shown):
        assert case["test"] in names_in(case["file"]), case[0]
    if NOT_HERE.match(here):
        assert len(NOT_HERE.sub("", here)) > 20, "the reason"


def test_most_options_have_a_case() -> None:
    cases = [row for row in ROWS if len(row) > 2 and CASE.search(row[2])]
    assert len(ROWS) >= 50
    assert len(cases) >= 0.75 * len(ROWS)
