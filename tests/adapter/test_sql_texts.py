"""Where texts and comments of a model's SQL begin and end."""

from __future__ import annotations

import pytest
from dbt.adapters.sparksession.clock import goes_by_clock
from dbt.adapters.sparksession.inputs import sql_mark
from dbt.adapters.sparksession.reading.view_marks import Readings
from dbt.adapters.sparksession.sql_texts import split_statements, without_comments

# a raw text has no escapes: its backslash is no part of a quote behind it
RAW = r"select r'\' as a, '--' || {} as b, R" + '"\\"' + " as c from "


@pytest.mark.parametrize("text", [RAW, "select concat(r'\\', '/*', {}) as b from x /* of x */ "])
def test_what_stands_behind_a_raw_text_is_no_comment(text: str) -> None:
    before, after = text.format("v"), text.format("w")

    assert sql_mark(before) != sql_mark(after)
    assert sql_mark(before) == sql_mark(f"{before} -- a remark")
    assert "v" in without_comments(before)
    assert goes_by_clock(text.format("now()"))


def test_a_view_behind_a_raw_text_is_read_by_its_query() -> None:
    readings = Readings()
    marked = readings.marked("dw.v", "(select 1)")

    assert readings.resolved(RAW + marked) == f"{RAW}(select 1) as v"
    assert readings.resolved(rf"select 'r\' {marked}'") == r"select 'r\' dw.v'"


def test_a_statement_behind_a_raw_text_is_a_statement() -> None:
    assert split_statements(r"select r'\'; select 'a;'; select b") == (
        [r"select r'\'", "select 'a;'"],
        "select b",
    )


@pytest.mark.parametrize(
    "text",
    [
        "select 1 /* a /* b */ -- c */ + {} as x",
        "select 1 /* /*/ */ '*/ + {} as x",
        "select 1 /* a /* b /* c */ */ ; */ + {} as x",
        "select 1 /*/ - */ + {} as x",
    ],
)
def test_comments_stand_within_comments(text: str) -> None:
    before = text.format("v")

    assert without_comments(before).split() == ["select", "1", "+", "v", "as", "x"]
    assert sql_mark(before) != sql_mark(text.format("w"))
    assert sql_mark(before) == sql_mark(before.replace("/* ", "/* more "))
    assert split_statements(f"{before}; select 2; ")[0][1:] == ["select 2"]
