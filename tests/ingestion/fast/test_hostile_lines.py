"""No line ends or stops the process that decodes it, and none of these is taken for a row."""

from __future__ import annotations

import json

from tests.ingestion.fast.in_process import decoded, layout_of
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


ORDERS_LAYOUT = layout_of(ORDERS)
GOOD = set(normal(3, ORDERS, 50))


def proven_of(texts: list[str | None]) -> list[int]:
    return sorted(decoded(ORDERS_LAYOUT, texts))


def test_lines_that_hold_no_row_are_left_to_spark_one_by_one_and_all_at_once() -> None:
    hostile = [*LINES, *map(json.dumps, maxwell_messages()), *VALUES, *ODD_TIMES, None]
    for text in hostile:
        assert proven_of([text]) == [], text
    assert proven_of(hostile) == []


def test_a_row_beside_hostile_lines_is_read() -> None:
    good = sorted(GOOD)
    alone = proven_of(good)
    assert len(alone) == len(good)
    mixed = [text for row in good for text in (row, LINES[len(row) % len(LINES)])]
    found = proven_of(mixed)
    assert set(found) <= {2 * number for number in alone}


def test_of_no_lines_nothing_is_read() -> None:
    assert proven_of([]) == []
    assert proven_of([None, None]) == []
