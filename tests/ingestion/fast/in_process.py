"""The workers' decoder in this process, without Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from python_udfs.ingestion.fast.images import Layout
from python_udfs.ingestion.fast.workers import FORMATS
from python_udfs.ingestion.fast.zones import (
    DAY,
    FIRST_DAY,
    LAST_DAY,
    SECOND,
    ConstantOffsets,
    constant_offsets,
)
from python_udfs.ingestion.tables.source import TableSource

EAST_8 = constant_offsets([8 * 3600 * SECOND] * (LAST_DAY - FIRST_DAY + 1), is_fixed=True)
CHANGED_DAY = 20_000  # 2024-10-04: from 1 to 2 hours ahead of UTC
CHANGING = constant_offsets(
    [(1 if day < CHANGED_DAY else 2) * 3600 * SECOND for day in range(FIRST_DAY, LAST_DAY + 1)]
)
TS = 1772416800 * SECOND
assert DAY == 86_400 * SECOND


def layout_of(table: TableSource, zone: ConstantOffsets = EAST_8) -> Layout:
    found = FORMATS[table.format].layout(table, lambda: zone, 24)
    assert found is not None
    return found


def op_of(text: str | None) -> str:
    """The change that a message is of; insert where it is none."""
    try:
        message = json.loads(text or "")
        message = message.get("payload", message)
        found = (message.get("op") or message["type"]).lower()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "insert"
    found = {"c": "insert", "u": "update", "d": "delete"}.get(found, found)
    return found if found in ("insert", "update", "delete") else "insert"


def decoded_rows(
    layout: Layout, texts: list[str | None], log_format: str = "maxwell", at: int = TS
) -> list[tuple[int, dict[str, Any]]]:
    """The proven rows, each with the number of its text."""
    lines = pa.array([None if text is None else text + "\n" for text in texts], pa.string())
    ops = pa.array(list(map(op_of, texts)), pa.string())
    times = pa.array([at] * len(texts), pa.int64()).cast(pa.timestamp("us", "UTC"))
    kept, rows = FORMATS[log_format].decode(layout, lines, ops, times)
    assert (0 if rows is None else len(rows)) == len(kept)
    found = [] if rows is None else rows.to_pylist(maps_as_pydicts="strict")
    return list(zip(kept.tolist(), found, strict=True))


def decoded(
    layout: Layout, texts: list[str | None], log_format: str = "maxwell", at: int = TS
) -> dict[int, dict[str, Any]]:
    """Number of each proven text -> its row, the last of several."""
    return dict(decoded_rows(layout, texts, log_format, at))


def batch_of(texts: list[str], first: int = 0) -> tuple[pa.Array, ...]:
    """Messages of texts as the workers get them, at the offsets from `first`."""
    count = len(texts)
    return (
        pa.array([text + "\n" for text in texts]),
        pa.array(list(map(op_of, texts))),
        pa.array([TS] * count, pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array(["t"] * count),
        pa.array([0] * count, pa.int32()),
        pa.array(range(first, first + count), pa.int64()),
    )
