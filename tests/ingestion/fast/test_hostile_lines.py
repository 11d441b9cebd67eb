"""No line ends or stops the process that decodes it, and none of these is taken for a row."""

from __future__ import annotations

import json

import pytest

from tests.ingestion.fast.in_process import decoded, layout_of
from tests.support import mutated_formats, mutated_rows
from tests.support.hostile import canal_messages, debezium_messages, maxwell_messages
from tests.support.lines import source
from tests.support.mutated_formats import CONVERT, tables_of
from tests.support.mutated_rows import ODD_TIMES, ORDERS, VALUES

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


TABLES = {"maxwell": ORDERS, **{name: tables_of(name)["orders"] for name in CONVERT}}
LAYOUTS = {name: layout_of(table) for name, table in TABLES.items()}
COLUMNS = {"id": "int", "note": "text"}  # none of them is a decimal
PLAIN = {name: layout_of(source(COLUMNS, format=name)) for name in TABLES}
MESSAGES = [*maxwell_messages(), *canal_messages(), *debezium_messages()]
NORMAL = {"maxwell": mutated_rows.normal} | dict.fromkeys(CONVERT, mutated_formats.normal)


def proven_of(log_format: str, texts: list[str | None]) -> list[int]:
    return sorted(decoded(LAYOUTS[log_format], texts, log_format))


@pytest.mark.parametrize("log_format", TABLES)
def test_lines_that_hold_no_row_are_left_to_spark_one_by_one_and_all_at_once(
    log_format: str,
) -> None:
    hostile = [*LINES, *map(json.dumps, MESSAGES), *VALUES, *ODD_TIMES, None]
    for text in hostile:
        assert proven_of(log_format, [text]) == [], text
    assert proven_of(log_format, hostile) == []


@pytest.mark.parametrize("log_format", TABLES)
def test_a_block_without_a_line_of_proven_structure_ends(log_format: str) -> None:
    """Whatever the columns' types are."""
    for text in ("", "{", "{}{}", '{"id" :1}', '{"rows":{"id":1}}', '{"id":{"id":{}}}', None):
        assert decoded(PLAIN[log_format], [text], log_format) == {}, text


@pytest.mark.parametrize("log_format", TABLES)
def test_a_row_beside_hostile_lines_is_read(log_format: str) -> None:
    good = sorted(set(NORMAL[log_format](3, TABLES[log_format], 50)))
    assert len(proven_of(log_format, good)) == len(good)
    mixed = [text for row in good for text in (row, LINES[len(row) % len(LINES)])]
    assert set(proven_of(log_format, mixed)) <= {2 * number for number in range(len(good))}
    # each line beside a row, which it doesn't take with it
    for line in LINES:
        assert proven_of(log_format, [good[0], line, good[1]]) == [0, 2], line[:80]


@pytest.mark.parametrize("log_format", TABLES)
def test_of_no_lines_nothing_is_read(log_format: str) -> None:
    assert proven_of(log_format, []) == []
    assert proven_of(log_format, [None, None]) == []
