"""No line ends or stops the process that decodes it, and none of these is taken for a row."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from python_udfs.ingestion.fast.maxwell import Layout, decode, layout
from python_udfs.ingestion.fast.zones import FIRST_DAY, LAST_DAY, SECOND, constant_offsets
from tests.support.hostile import maxwell_messages
from tests.support.mutated_rows import ODD_TIMES, ORDERS, VALUES, normal

ROW = '{"database":"shop","table":"o","type":"update","ts":1772296127,"data":{"id":1},"old":{}}'
DEEP = 100_000
LINES = [
    *("", "null", " null", "null null", "{}", "{}{}", "[]", "1", '""', '"', "{", "}", '{"', '"}'),
    *("}{", '{"data":null}', '{"data":{}}', '{"data":{}', '{"data":{"id":1}', '{"old":{}}', "\0"),
    *('{"data":{}}{"old":{}}', '{"data":5}', '{"data":{"id":{}}}', '{"data":{"id":[1]}}', "{}null"),
    *("[" * DEEP, "{" * DEEP, '{"a":' * DEEP, '{"data":' + "[" * DEEP + "]" * DEEP + "}"),
    *('{"data":{"id":' + "9" * DEEP + "}}", '{"data":{"id":1e' + "9" * DEEP + "}}"),
    *('{"' + "k" * DEEP + '":1}', '{"data":{"id":-}}', '{"data":{"id":1,}}', '{"data":{,"id":1}}'),
    *('{"data":{"id" :1}}', '{"data" :{"id":1}}', '{"data":{"id":1}} ', ' {"data":{"id":1}}'),
    *("\ufeff" + ROW, ROW + ROW, ROW + "null", "null" + ROW, ROW[:-1], ROW[1:], ROW + "\n" + ROW),
    *(ROW.replace("{}", "null"), ROW.replace("{}", "[]"), ROW.replace('"data"', '"d\\u0061ta"')),
]


@pytest.fixture(scope="module")
def orders() -> Layout:
    zone = constant_offsets([8 * 3600 * SECOND] * (LAST_DAY - FIRST_DAY + 1), is_fixed=True)
    found = layout(ORDERS, lambda: zone, 24)
    assert found is not None
    return found


def proven_of(orders: Layout, texts: list[str | None]) -> list[int]:
    lines = pa.array([None if text is None else text + "\n" for text in texts], pa.string())
    ops = pa.array([json.loads(text)["type"] if is_row(text) else "insert" for text in texts])
    times = pa.array([1772416800 * SECOND] * len(texts)).cast(pa.timestamp("us", "UTC"))
    kept, rows = decode(orders, lines, ops, times)
    assert (0 if rows is None else len(rows)) == len(kept)
    return kept.tolist()


def is_row(text: str | None) -> bool:
    return text is not None and text.startswith('{"database"') and text in GOOD


GOOD = set(normal(3, ORDERS, 50))


def test_lines_that_hold_no_row_are_left_to_spark_one_by_one_and_all_at_once(
    orders: Layout,
) -> None:
    hostile = [*LINES, *map(json.dumps, maxwell_messages()), *VALUES, *ODD_TIMES, None]
    for text in hostile:
        assert proven_of(orders, [text]) == [], text
    assert proven_of(orders, hostile) == []


def test_a_row_beside_hostile_lines_is_read(orders: Layout) -> None:
    good = sorted(GOOD)
    alone = proven_of(orders, good)
    assert len(alone) == len(good)
    mixed = [text for row in good for text in (row, LINES[len(row) % len(LINES)])]
    found = proven_of(orders, mixed)
    assert set(found) <= {2 * number for number in alone}


def test_of_no_lines_nothing_is_read(orders: Layout) -> None:
    assert proven_of(orders, []) == []
    assert proven_of(orders, [None, None]) == []
