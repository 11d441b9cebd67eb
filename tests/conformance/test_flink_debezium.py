"""Flink's own tests of its format debezium-json, through this project's deserialization.

Flink takes the rows of a snapshot as inserts, whether they come as op r or, from an old Debezium,
as op c. This project keeps op r apart as a full load: the runner makes inserts of it here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.duplicates import change_rows
from tests.support.lines import ZONE, raw_messages

CASES = Path(__file__).parents[3] / "shared" / "conformance" / "flink_formats" / "cdc_formats.json"
TYPES = {"INT NOT NULL": "int", "STRING": "text", "FLOAT": "float"}
TABLES = {"mysql": ("inventory", "products"), "postgres": ("postgres", "inventory.products")}
WITHOUT_BEFORE = (
    "no `before` object in a change of op {}: the server's binlog_row_image (MySQL) or the "
    "table's REPLICA IDENTITY (PostgreSQL) must be FULL"
)


def case_of(name: str) -> dict:
    if not CASES.is_file():
        pytest.skip("Flink's test cases are not part of the project; none stand beside it")
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    return next(case for case in cases if case["name"] == name)


def binlog(spark: SparkSession, lines: list[str | None]) -> DataFrame:
    envelope = with_envelope(raw_messages(spark, lines), "debezium").localCheckpoint(eager=False)
    return envelope.replace("snapshot", "insert", "op").selectExpr("*", "'load' as load_id")


def typed_case(spark: SparkSession, case: dict) -> list[Row]:
    database, table = TABLES[case["name"].split("_")[1]]
    declared = table_source(
        "ods_products",
        {
            "database": database,
            "table": table,
            "format": "debezium",
            "primary_key": case["primary_key"],
            "columns": {name: TYPES[kind] for name, kind in case["columns"]},
        },
    )
    rows = binlog(spark, case["input_lines"])
    mine = rows.where(f"database_name = '{database}' and table_name = '{table}'")
    typed = change_rows(mine, declared, BusinessDay(declared, ZONE, 24), [LIVE]).collect()
    return sorted(typed, key=lambda row: row.message_offset)


@pytest.mark.parametrize("include", ["include", "exclude"])
@pytest.mark.parametrize("connector", ["mysql", "postgres"])
def test_debezium_lines_give_the_rows_that_flink_expects(
    spark: SparkSession, connector: str, include: str
):
    case = case_of(f"debezium_{connector}_schema_{include}")
    names = [name for name, _ in case["columns"]]

    rows = typed_case(spark, case)

    assert [row.reject_reason for row in rows] == [None] * len(case["input_lines"])
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
        (
            expected_row["kind"],
            [*expected_row["row"][:-1], pytest.approx(expected_row["row"][-1], rel=1e-7)],
        )
        for expected_row in case["expected_rows"]
    ]
    assert got == expected
    assert len(got) == 20


def test_changes_without_a_row_before_them_are_refused(spark: SparkSession):
    rows = typed_case(spark, case_of("debezium_postgres_replica_identity_default"))

    refused = [(row.op_type, row.reject_reason) for row in rows if row.reject_reason]
    update = ("update", WITHOUT_BEFORE.format("update"))
    assert refused == [update] * 4 + [("delete", WITHOUT_BEFORE.format("delete"))]
    assert len(rows) - len(refused) == 11


def test_tombstones_give_no_rows(spark: SparkSession):
    case = case_of("debezium-json_null_and_empty")
    tombstone, empty = binlog(spark, case["input_lines"]).collect()

    assert case["expected_rows"] == []
    assert (tombstone.op, tombstone.reject_reason) == ("control", None)
    # an empty message isn't a tombstone: it stays, with its reason
    assert (empty.op, empty.reject_reason) == (None, "empty line")
