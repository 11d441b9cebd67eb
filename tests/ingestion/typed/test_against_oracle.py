"""Typed rows of whole logs, expanded to retract rows, against the independent oracle."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.support import histories, oracle
from tests.support.lines import LANDED, raw_lines, source, typed

SEEDS = (1, 7, 11, 23, 42, 99)
COLUMNS = {
    "order_id": "bigint unsigned",
    "user_id": "bigint unsigned",
    "product_type": "varchar(20)",
    "plat_name": "varchar(40)",
    "channel": "varchar(20)",
    "ref_id": "bigint",
    "amount": "decimal(12,2)",
    "order_status": "bigint",
    "biz_status": "varchar(30)",
    "comment": "text",
    "priority": "int",
    "create_time": "datetime(3)",
    "update_time": "datetime(3)",
    "dispatch_time": "datetime(3)",
    "decision_time": "datetime(3)",
    "finish_time": "datetime",
}
DECLARED = source(
    COLUMNS,
    table="order_info",
    primary_key=["order_id"],
    cut_column="update_time",
    columns_of_interest=["user_id", "biz_status", "amount"],
)


def expanded(rows: list[Row]) -> list[tuple]:
    """Retract rows of typed rows, in log order: (kind, sign, key, image, cut_date, place)."""
    found = []
    for row in rows:
        place = (row.binlog_file_number, row.binlog_position, row.row_number)
        if row.before is not None:
            kind = "-D" if row.op_type == "delete" else "-U"
            image = [row.before[name] for name in COLUMNS]
            found.append((kind, -1, row.before["order_id"], image, row.cut_date, place))
        if row.op_type != "delete":
            kind = "+I" if row.op_type == "insert" else "+U"
            image = [row[name] for name in COLUMNS]
            found.append((kind, 1, row["order_id"], image, row.cut_date, place))
    return found


def value(name: str, text: Any) -> Any:
    """The oracle's value of a column in the form of the typed row."""
    if text is None:
        return None
    if COLUMNS[name].startswith("datetime"):
        if text.startswith("0000-00-00"):
            return None
        return datetime.fromisoformat(text) - timedelta(hours=8)
    return Decimal(text) if name == "amount" else text


def expected(changes: list[oracle.Change]) -> list[tuple]:
    """The oracle's retract rows in the same form."""
    return [
        (
            row["row_kind"],
            row["sign"],
            row["key"][0],
            # a column that an image lacks (added later, dropped before) is null
            [value(name, row["image"].get(name)) for name in COLUMNS],
            row["cut_date"],
            (row["file_number"], row["pos"], row["row_number"]),
        )
        for row in oracle.retract_rows(changes)
    ]


def compare(rows: list[Row], changes: list[oracle.Change]) -> int:
    """Compare row for row and return how many there were."""
    assert [row.reject_reason for row in rows if row.reject_reason] == []
    got = expanded(
        sorted(rows, key=lambda r: (r.binlog_file_number, r.binlog_position, r.row_number))
    )
    wanted = expected(changes)
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours == theirs
    return len(wanted)


@pytest.fixture(scope="module")
def random_rows(spark: SparkSession) -> dict[int, tuple[list[bytes], list[Row]]]:
    """seed -> (lines of its history, typed rows of them), from one job."""
    logs = {seed: histories.generate(seed).lines for seed in SEEDS}
    rows = typed(spark, [line for lines in logs.values() for line in lines], DECLARED)
    found, first = {}, 100
    for seed, lines in logs.items():
        mine = [row for row in rows if first <= row.message_offset < first + len(lines)]
        found[seed] = (lines, mine)
        first += len(lines)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_gives_the_rows_of_the_oracle(random_rows, seed: int):
    lines, rows = random_rows[seed]
    compared = compare(rows, oracle.read_messages(lines))
    assert compared > 300
    print(f"rows compared: {compared}, seed {seed}")


def test_the_sample_gives_the_rows_of_the_oracle(spark: SparkSession):
    lines = [line for path in LANDED for line in raw_lines(path)]
    compared = compare(typed(spark, lines, DECLARED), oracle.read_messages(lines))
    assert compared > 22805
    print(f"rows compared: {compared}, the landing sample")
