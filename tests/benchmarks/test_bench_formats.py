"""Tests of the benchmark of the formats: its lines tell the same, whatever the format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.bench_formats import (
    COLUMNS,
    HEAD,
    bare,
    canal_line,
    debezium_line,
    settings_of_project,
    table_row,
    write_log,
)
from benchmarks.generate_mongodb import lines as mongodb_lines
from tests.support.lines import raw_messages, source, typed

ROW = {
    "order_id": 7200000000000008297,
    "user_id": 69304,
    "product_type": "pool",
    "plat_name": "app",
    "ref_id": 9007199254740993,
    "amount": "1427.20",
    "order_status": 20,
    "biz_status": "dispatched",
    "comment": None,
    "create_time": "2026-03-01 11:52:40.416",
    "update_time": "2026-03-01 12:09:39.838",
    "dispatch_time": "2026-03-01 12:09:39.838",
    "decision_time": None,
    "finish_time": "2026-03-01 12:09:40",
}
OLD = {"amount": "327.68", "dispatch_time": None}
HEADS = {"database": "shop", "table": "o", "ts": 1772338179, "xid": 9, "xoffset": 2}


def change(kind: str, position: int, **more: Any) -> dict[str, Any]:
    return HEADS | {"type": kind, "position": f"bin.000002:{position}", "data": ROW} | more


CHANGES = [change("insert", 100), change("update", 200, old=OLD), change("delete", 300)]
LINES = {
    # amounts are numbers in Maxwell's lines
    "maxwell": [
        json.dumps(change).replace('"1427.20"', "1427.20").replace('"327.68"', "327.68")
        for change in CHANGES
    ],
    "canal": [canal_line(change) for change in CHANGES],
    "debezium": [debezium_line(change) for change in CHANGES],
}


def test_canal_writes_texts() -> None:
    message = json.loads(LINES["canal"][1])
    assert message["data"][0]["order_id"] == "7200000000000008297"
    assert message["old"] == [{"amount": "327.68", "dispatch_time": None}]
    assert json.loads(LINES["canal"][0])["old"] is None


def test_the_log_of_a_format_without_positions_has_one_partition(tmp_path: Path) -> None:
    # the typed model refuses rows of Canal by several partitions
    messages, size = write_log("canal", tmp_path, 300)
    files = list((tmp_path / "topics" / "canal" / "partition=0").iterdir())
    assert list(tmp_path.rglob("partition=*")) == [files[0].parent]
    assert messages == sum(len(file.read_bytes().splitlines()) for file in files) == 300
    assert size == sum(file.stat().st_size for file in files)


def test_each_change_of_debezium_has_its_place(tmp_path: Path) -> None:
    write_log("debezium", tmp_path, 3000)
    lines = [
        json.loads(line)
        for path in (tmp_path / "topics" / "debezium").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    places = {tuple(line["source"][name] for name in ("file", "pos", "row")) for line in lines}
    assert len(places) == len(lines) == 3000


def test_debezium_encodes_times_and_decimals() -> None:
    message = json.loads(LINES["debezium"][1])
    assert message["after"]["amount"] == "Ai2A"  # 142720 in three bytes
    assert message["before"]["amount"] == "AIAA"  # 32768, with a byte for the sign
    assert message["after"]["create_time"] == 1772365960416
    assert message["before"]["dispatch_time"] is None
    assert json.loads(LINES["debezium"][0])["before"] is None
    assert json.loads(LINES["debezium"][2])["after"] is None


@pytest.mark.parametrize("name", ["canal", "debezium"])
def test_typed_rows_are_those_of_maxwell(spark: SparkSession, name: str) -> None:
    columns = {column: kind for column, (kind, _) in COLUMNS.items()}
    reported = {}
    for kind in ("maxwell", name):
        declared = source(columns, format=kind, primary_key=["order_id"])
        rows = typed(spark, LINES[kind], declared)
        assert [row.reject_reason for row in rows] == [None] * 3
        reported[kind] = [
            (row.op_type, row.before, *(row[column] for column in columns)) for row in rows
        ]
    assert reported[name] == reported["maxwell"]


@pytest.mark.parametrize("name", list(LINES))
def test_the_bare_job_reads_the_same_values(spark: SparkSession, name: str) -> None:
    lines = raw_messages(spark, LINES[name]).select(F.col("payload").cast("string"))
    updated = bare(lines, name).collect()[1]
    after = updated["after" if name == "debezium" else "data"]
    before = updated["before" if name == "debezium" else "old"]
    assert [None if value is None else str(value) for value in after] == [
        None
        if value is None
        else str(value)
        if "time" not in element
        else f"{value}{'000' * has_ms}"
        for (element, value), has_ms in zip(
            ROW.items(), ["." in str(item) for item in ROW.values()], strict=True
        )
    ]
    assert str(before.amount) == "327.68"


def test_the_bare_job_reads_mongodb(spark: SparkSession) -> None:
    lines = raw_messages(spark, mongodb_lines()).select(F.col("payload").cast("string"))
    rows = bare(lines, "mongodb").where("operationType = 'insert'").collect()
    assert rows
    assert all(row.fullDocument.balance["$numberDecimal"] is not None for row in rows)
    assert all(row.fullDocument.updated_at["$date"] is not None for row in rows)


def test_settings_are_the_profiles_own() -> None:
    assert settings_of_project()["spark.sql.codegen.hugeMethodLimit"] == "8000"


def test_a_ratio_is_the_rate_beside_the_bare_one() -> None:
    found = {"messages": 1000, "size": 400_000, "bare": 1.0, "envelope": 0.5, "typed": 2.0}
    found |= {"workers": 1.5, "in_place": 1.25, "bare_write": 4.0, "ods_binlog": 2.0, "model": 8.0}
    row = dict(zip(HEAD, table_row("canal", found)[2:-2].split(" | "), strict=True))
    assert row["bare, rows a core-second"] == "1,000"
    shares = [row[text] for text in HEAD if text.endswith("of bare")]
    assert shares == ["2.00", "0.50", "0.67", "0.80", "0.50"]
    assert row["typed model, of the bare job"] == "0.50"
