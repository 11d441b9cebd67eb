"""Flink's own test of its format maxwell-json, through this project's deserialization.

Flink's lines carry no binlog position, which this project requires: the runner adds one to each
line, made from its xid ("flink.000001:<xid>"), so that rows of one transaction share it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from python_udfs.deserialize.table_source import table_source
from tests.deserialize.lines import typed

CASES = Path(__file__).parents[3] / "shared" / "conformance" / "flink_formats" / "cdc_formats.json"
TYPES = {"INT NOT NULL": "int", "STRING": "text", "FLOAT": "float"}


def test_maxwell_lines_give_the_rows_that_flink_expects(spark: SparkSession):
    if not CASES.is_file():
        pytest.skip("Flink's test cases are not part of the project; none stand beside it")
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    case = next(one for one in cases if one["name"] == "maxwell")
    names = [name for name, _ in case["columns"]]
    declared = table_source(
        "ods_test__product",
        {
            "database": "test",
            "table": "product",
            "primary_key": case["primary_key"],
            "columns": {name: TYPES[kind] for name, kind in case["columns"]},
        },
    )
    messages = []
    for one in case["input_lines"]:
        xid = json.loads(one)["xid"]
        messages.append(f'{{"position":"flink.000001:{xid}",{one[1:]}')

    rows = typed(spark, messages, declared)

    assert [row.reject_reason for row in rows] == [None] * len(messages)
    got = []
    for row in rows:
        if row.before is not None:
            kind = "-D" if row.op_type == "delete" else "-U"
            got.append((kind, [row.before[name] for name in names]))
        if row.op_type != "delete":
            kind = "+I" if row.op_type == "insert" else "+U"
            got.append((kind, [row[name] for name in names]))
    # a float of Spark is collected as the double that it stands for
    expected = [
        (one["kind"], [*one["row"][:-1], pytest.approx(one["row"][-1], rel=1e-7)])
        for one in case["expected_rows"]
    ]
    assert got == expected
    assert len(got) == 26
