"""Flink's own tests of its formats maxwell-json and canal-json, through this project's modules.

Flink's Maxwell lines carry no binlog position, which this project requires: the runner adds one to
each line, made from its xid ("flink.000001:<xid>"), so that rows of one transaction share it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.support.lines import envelopes, source, typed

CASES = Path(__file__).parents[3] / "shared" / "conformance" / "flink_formats" / "cdc_formats.json"
TYPES = {"INT NOT NULL": "int", "STRING": "text", "FLOAT": "float"}
# where each case's rows come from, and how many rows it wants
TABLES = {
    "maxwell": ("test", "product", 26),
    "canal": ("inventory", "products2", 26),
    "canal_filter_table": ("mydb", "product", 26),
}


def case_of(name: str) -> dict[str, Any]:
    if not CASES.is_file():
        pytest.skip("Flink's test cases are not part of the project; none stand beside it")
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    return next(case for case in cases if case["name"] == name)


def with_position(line: str) -> str:
    return f'{{"position":"flink.000001:{json.loads(line)["xid"]}",{line[1:]}'


def retract_rows(rows: list[Row], names: list[str]) -> list[tuple]:
    """(kind, values) of typed rows, as Flink shows them."""
    got = []
    for row in rows:
        if row.before is not None:
            kind = "-D" if row.op_type == "delete" else "-U"
            got.append((kind, [row.before[name] for name in names]))
        if row.op_type != "delete":
            kind = "+I" if row.op_type == "insert" else "+U"
            got.append((kind, [row[name] for name in names]))
    return got


@pytest.mark.parametrize("name", TABLES)
def test_the_lines_give_the_rows_that_flink_expects(spark: SparkSession, name: str):
    case = case_of(name)
    database, table, wanted = TABLES[name]
    names = [column for column, _ in case["columns"]]
    kind = case["format"].removesuffix("-json")
    lines = [
        with_position(input_line) if kind == "maxwell" else input_line
        for input_line in case["input_lines"]
    ]
    declared = source(
        {column: TYPES[name] for column, name in case["columns"]},
        database=database,
        table=table,
        primary_key=case["primary_key"],
        format=kind,
    )

    rows = typed(spark, lines, declared)

    assert [row.reject_reason for row in rows if row.reject_reason] == []
    # a float of Spark is collected as the double that it stands for
    expected = [
        (
            expected_row["kind"],
            [*expected_row["row"][:-1], pytest.approx(expected_row["row"][-1], rel=1e-7)],
        )
        for expected_row in case["expected_rows"]
    ]
    assert retract_rows(rows, names) == expected
    assert len(expected) == wanted


def test_an_empty_message_and_one_without_value_give_no_row(spark: SparkSession):
    case = case_of("canal-json_null_and_empty")

    without_value, empty = envelopes(spark, case["input_lines"], "canal")

    assert case["expected_rows"] == []
    assert (without_value.op, without_value.reject_reason) == ("control", None)
    assert (empty.op, empty.reject_reason) == (None, "empty line")
