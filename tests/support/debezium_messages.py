"""Debezium's messages of MySQL and PostgreSQL."""

from __future__ import annotations

from pyspark.sql import Row

from tests.support.lines import (
    json_object,
)

TS = 1772416800123  # 2026-03-02 02:00:00.123 UTC

MYSQL = {
    "connector": '"mysql"',
    "db": '"shop"',
    "table": '"o"',
    "snapshot": '"false"',
    "ts_ms": str(TS),
    "gtid": '"0-1-60"',
    "file": '"bin.000007"',
    "pos": "9580",
    "row": "0",
}
ROW = '{"id":1,"v":"a","d":"AJY="}'  # d is 1.50


def message(op: str | None = "c", origin: dict = MYSQL, **fields: str | None) -> str:
    """A change event of JSON texts; names of `origin` go into `source`. None leaves one out."""
    head = {
        "before": "null" if op in ("c", "r", "t") else ROW,
        "after": "null" if op in ("d", "t") else ROW,
        "source": json_object(origin | {k: v for k, v in fields.items() if k in origin}),
        "op": op and f'"{op}"',
        "ts_ms": str(TS + 5000),
    }
    return json_object(head | {k: v for k, v in fields.items() if k not in origin})


def retracts(rows: list[Row], names: list[str]) -> list[tuple]:
    """(sign, values) of the rows that changes take back and give, in binlog order."""
    found = []
    for row in sorted(rows, key=lambda row: (row.binlog_position, row.row_number)):
        if row.op_type != "insert":
            found.append(("-", *[row.before[name] for name in names]))
        if row.op_type != "delete":
            found.append(("+", *[row[name] for name in names]))
    return found
