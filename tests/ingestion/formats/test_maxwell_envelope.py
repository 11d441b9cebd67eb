"""The envelope of Maxwell's messages: what it holds, and why a line can't be read."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest
from pyspark.sql import Row, SparkSession

from python_udfs.ingestion.formats.envelope import ENVELOPE
from python_udfs.ingestion.formats.json_lines import LATEST_TS
from python_udfs.ingestion.formats.maxwell import LAST_ROW
from python_udfs.ingestion.formats.registry import with_envelope
from tests.support.lines import (
    LANDED,
    envelopes,
    json_object,
    line,
    raw_lines,
    raw_messages,
)

GOOD = line()
NOT_JSON = "not JSON, or more than one object on a line"
SEVERAL = "more than one JSON value on a line"
NO_OBJECT = "JSON, but no Maxwell message: no object"
NO_TYPE = "JSON, but no Maxwell message: no `type`"
NO_TS = "`ts` is missing or not a time"
NO_POSITION = "no binlog position, or a malformed one: run Maxwell with output_binlog_position=true"
NO_ROW = "`xoffset` is missing or not a row number: run Maxwell with output_xoffset=true"
TEN_MB = "x" * (10 << 20)
DEEP = "[" * 5000 + "]" * 5000

# name -> (payload, how the reason begins)
BAD: dict[str, tuple[str | bytes, str]] = {
    "text": ("hello", NOT_JSON),
    "object that is cut": (GOOD[:-5], NOT_JSON),
    "the end of an object": (GOOD[40:], NOT_JSON),
    "rubbish behind an object": (GOOD + "xyz", NOT_JSON),
    "comma behind an object": (GOOD + ",", NOT_JSON),
    "NUL in a text": (line(database='"sh\x00op"'), NOT_JSON),
    "a line of NUL": ("\x00" * 80, NOT_JSON),
    "byte order mark": ("\ufeff" + GOOD, NOT_JSON),
    "array": ("[1, 2]", NO_OBJECT),
    "array of messages": (f"[{GOOD}]", NO_OBJECT),
    "number": ("5", NO_OBJECT),
    "string": ('"insert"', NO_OBJECT),
    "true": ("true", NO_OBJECT),
    "null": ("null", NO_TYPE),
    "empty object": ("{}", NO_TYPE),
    "object without type": (line(type=None), NO_TYPE),
    "type null": (line(type="null"), NO_TYPE),
    "Debezium's message": (
        '{"before":null,"after":{"id":1},"source":{"file":"bin.000001","pos":4},"op":"c"}',
        NO_TYPE,
    ),
    "glued": (GOOD + GOOD, NOT_JSON),
    "glued with a space": (f"{GOOD} {GOOD}", NOT_JSON),
    "glued with a comma": (f"{GOOD},{GOOD}", SEVERAL),
    "glued with comma and space": (f"{GOOD}, {GOOD}", SEVERAL),
    "empty line": ("", "empty line"),
    "line of blanks": ("   ", "empty line"),
    "empty line of a CRLF file": ("\r", "empty line"),
    "line of tabs": ("\t\t", "empty line"),
    "no database": (line(database=None), "no `database`"),
    "database null": (line(database="null"), "no `database`"),
    "no table": (line(table=None), "no `table`"),
    "unknown type": (line(type='"flush"'), "unknown Maxwell type flush"),
    "type that is a number": (line(type="5"), "unknown Maxwell type 5"),
    "long type": (line(type=f'"{TEN_MB}"'), "unknown Maxwell type " + "x" * 40),
    "no ts": (line(ts=None), NO_TS),
    "ts null": (line(ts="null"), NO_TS),
    "ts text": (line(ts='"1772416800"'), NO_TS),
    "ts list": (line(ts="[1]"), NO_TS),
    "ts with a fraction": (line(ts="1.5"), NO_TS),
    "ts negative": (line(ts="-1"), NO_TS),
    "ts after the year 9999": (line(ts=str(LATEST_TS + 1)), NO_TS),
    "ts in milliseconds": (line(ts="1772416800000"), NO_TS),
    "ts beyond a bigint": (line(ts="9" * 30), NO_TS),
    "ts 1e999999": (line(ts="1e999999"), NO_TS),
    "ts of a DDL row too large": (line(type='"table-alter"', ts="9" * 18), NO_TS),
    "no position": (line(position=None), NO_POSITION),
    "position null": (line(position="null"), NO_POSITION),
    "position without offset": (line(position='"bin.000001"'), NO_POSITION),
    "position without file": (line(position='":4"'), NO_POSITION),
    "position without file number": (line(position='"bin:4"'), NO_POSITION),
    "position negative": (line(position='"bin.000001:-4"'), NO_POSITION),
    "position that is a number": (line(position="4"), NO_POSITION),
    "position beyond a bigint": (line(position=f'"bin.000001:{"9" * 30}"'), NO_POSITION),
    "file number beyond a bigint": (line(position=f'"bin.{"9" * 30}:4"'), NO_POSITION),
    "neither xoffset nor commit": (line(xoffset=None), NO_ROW),
    "commit false, no xoffset": (line(xoffset=None, commit="false"), NO_ROW),
    "commit text": (line(xoffset=None, commit='"true"'), NO_ROW),
    "xoffset text": (line(xoffset='"a"'), NO_ROW),
    "xoffset negative": (line(xoffset="-1"), NO_ROW),
    "xoffset of the last row": (line(xoffset=str(LAST_ROW)), NO_ROW),
    "invalid UTF-8 in a text": (GOOD.encode().replace(b"shop", b"sh\xffop"), "invalid UTF-8"),
    "UTF-8 that is cut": (GOOD.encode().replace(b"shop", b"sh\xe4\xba"), "invalid UTF-8"),
    "a surrogate in UTF-8": (GOOD.encode().replace(b"shop", b"\xed\xa0\xbd"), "invalid UTF-8"),
    "UTF-16": (GOOD.encode("utf-16"), "invalid UTF-8"),
    "10 MB that are cut": (line(data=f'{{"id":1,"t":"{TEN_MB}"}}')[:-1], NOT_JSON),
    "10 MB without type": (line(data=f'{{"id":1,"t":"{TEN_MB}"}}', type=None), NO_TYPE),
    "5000 levels": (line(deep=DEEP), NOT_JSON),
    "5000 levels that stay open": ("[" * 5000, NOT_JSON),
    "ts of 4000 digits": (line(ts="9" * 4000), NOT_JSON),
    "number of 4000 digits": (line(data='{"id":%s}' % ("9" * 4000)), NOT_JSON),
}

ALTERED = dict.fromkeys(("old", "def"), '{"database":"shop","table":"o","columns":[]}')

# name -> (payload, what its envelope must have)
FINE: dict[str, tuple[str, dict]] = {
    "as Maxwell writes it": (GOOD, {"op": "insert", "row_number": 0, "xid": 7}),
    "CRLF": (GOOD + "\r", {"op": "insert"}),
    "blanks around": (f"  {GOOD}\t", {"op": "insert"}),
    "update": (line(type='"update"', xoffset="12"), {"op": "update", "row_number": 12}),
    "delete": (line(type='"delete"'), {"op": "delete"}),
    "last row of its transaction": (
        line(type='"delete"', xoffset=None, commit="true"),
        {"op": "delete", "row_number": LAST_ROW},
    ),
    "DDL row, ts in milliseconds": (
        line(type='"table-alter"', ts="1772416800123", xid=None, xoffset=None, **ALTERED),
        {
            "op": "ddl",
            "event_time": datetime(2026, 3, 2, 2, 0, 0, 123000),
            "row_number": None,
            "binlog_position": 9580,
        },
    ),
    "DDL of a database": (
        '{"type":"database-create","database":"shop","charset":"utf8mb4","ts":1772416800000,'
        '"sql":"create database shop","position":"bin.000001:25948"}',
        {"op": "ddl", "table_name": None, "binlog_file_number": 1},
    ),
    "DDL that drops": (line(type='"table-drop"', ts="0"), {"op": "drop"}),
    "DDL that replaces": (
        line(type='"table-create"', ts="0", sql='"CREATE OR REPLACE TABLE o (id int)"'),
        {"op": "drop"},
    ),
    "DDL that empties a partition": (
        line(type='"table-alter"', ts="0", sql='"alter table o truncate partition p1"', **ALTERED),
        {"op": "truncate", "event_time": datetime(1970, 1, 1)},
    ),
    "DDL that renames": (
        line(
            type='"table-alter"',
            ts="1772416800123",
            old='{"database":"shop","table":"o_new"}',
            **{"def": '{"database":"shop","table":"o"}'},
        ),
        {"op": "rename", "event_time": datetime(2026, 3, 2, 2, 0, 0, 123000)},
    ),
    "DDL that changes columns": (
        line(
            type='"table-alter"',
            ts="0",
            old='{"database":"shop","table":"o","columns":[]}',
            **{"def": '{"database":"shop","table":"o","columns":[{"name":"id"}]}'},
        ),
        {"op": "ddl"},
    ),
    "bootstrap-start": (
        '{"database":"shop","table":"o","type":"bootstrap-start","ts":1772416800,"data":{}}',
        {"op": "control", "binlog_position": None},
    ),
    "bootstrap-insert": (
        '{"database":"shop","table":"o","type":"bootstrap-insert","ts":1772416800,"data":{"id":1}}',
        {"op": "snapshot", "table_name": "o", "row_number": None},
    ),
    "bootstrap-complete": (
        '{"database":"shop","table":"o","type":"bootstrap-complete","ts":1772416800,"data":{}}',
        {"op": "control"},
    ),
    "another table": (
        line(database='"maxwell"', table='"bootstrap"'),
        {"database_name": "maxwell", "table_name": "bootstrap"},
    ),
    "a row of a running bootstrap, without xid": (line(xid=None), {"op": "insert", "xid": None}),
    "the last second": (
        line(ts=str(LATEST_TS)),
        {"event_time": datetime(9999, 12, 31, 23, 59, 59)},
    ),
    "the first second": (line(ts="0"), {"event_time": datetime(1970, 1, 1)}),
    "binlog names with dots and digits": (
        line(position='"db-2.bin.1000000:4294967295"'),
        {
            "binlog_file": "db-2.bin.1000000",
            "binlog_file_number": 1000000,
            "binlog_position": 4294967295,
        },
    ),
    "900 levels": (line(deep="[" * 900 + "]" * 900), {"op": "insert"}),
    "10 MB": (line(data=f'{{"id":1,"t":"{TEN_MB}"}}'), {"op": "insert"}),
    # the last one counts, as for every other reader of JSON
    "duplicate keys": (GOOD.replace('"xid":7', '"xid":7,"xid":8'), {"xid": 8}),
    "1e999999 in the data": (line(data='{"id":1e999999}'), {"op": "insert"}),
    "a lone surrogate escape": (line(data='{"id":"\\ud83d"}'), {"op": "insert"}),
    "an escaped NUL": (line(data='{"id":"\\u0000"}'), {"op": "insert"}),
    "the words of an envelope in a text": (
        line(data='{"t":"\\"type\\":\\"delete\\",\\"ts\\":1,\\"position\\":\\"x:1\\"}{"}'),
        {"op": "insert"},
    ),
    "the envelope's names in the data": (
        line(data='{"type":"x","ts":"y","position":null,"xoffset":"z","database":"d"}'),
        {"op": "insert", "database_name": "shop"},
    ),
}


@pytest.fixture(scope="module")
def mixed(spark: SparkSession) -> tuple[dict[str, Row], list[Row]]:
    """(name -> row of ods_binlog, rows of a good line that stood behind each), from one job."""
    payloads: list[str | bytes] = []
    for payload, _ in [*BAD.values(), *FINE.values()]:
        payloads += [payload, GOOD]
    rows = envelopes(spark, payloads)
    return dict(zip([*BAD, *FINE], rows[::2], strict=True)), rows[1::2]


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_stays_with_its_reason(mixed, name):
    row = mixed[0][name]
    payload, reason = BAD[name]
    assert row.reject_reason is not None
    assert row.reject_reason.startswith(reason)
    assert (row.topic, row.partition_number, row.run_offset) == ("t", 3, 100)
    assert all(row[column] is None for column in ENVELOPE if column != "envelope_reason")
    raw = payload.encode() if isinstance(payload, str) else payload
    if reason == "invalid UTF-8":
        assert bytes(row.payload_bytes) == raw
        assert "\ufffd" in row.payload
    else:
        assert row.payload.encode() == raw
        assert row.payload_bytes is None


@pytest.mark.parametrize("name", FINE)
def test_what_the_envelope_holds(mixed, name):
    row = mixed[0][name]
    payload, expected = FINE[name]
    assert row.reject_reason is None
    assert {column: row[column] for column in expected} == expected
    assert row.payload == payload
    assert row.payload_bytes is None


def test_good_lines_beside_bad_lines_are_unharmed(mixed):
    for row in mixed[1]:
        assert row.reject_reason is None
        assert row.payload == GOOD
        assert [row[column] for column in ENVELOPE if column != "envelope_reason"] == [
            "shop", "o", "insert", datetime(2026, 3, 2, 2), "bin.000007", 7, 9580, 0, 7
        ]  # fmt: skip


def test_what_is_left_of_a_cut_file_has_that_reason_first(spark):
    messages = raw_messages(spark, [GOOD]).replace(100, 7, "message_offset")
    messages = messages.selectExpr(
        *[name for name in messages.columns if name != "cut_reason"],
        "'the file ends within a line' as cut_reason",
    )
    (row,) = with_envelope(messages, "maxwell").collect()
    assert row.reject_reason == row.cut_reason == "the file ends within a line"
    assert (row.op, row.payload, row.message_offset) == (None, GOOD, 7)


def test_an_unknown_format_is_refused_with_those_that_are_known(spark):
    with pytest.raises(ValueError, match=r"format 'avro' is not known, must be one of .*maxwell"):
        with_envelope(raw_messages(spark, [GOOD]), "avro")


def test_every_line_of_the_sample_is_read(spark):
    lines = [line for path in LANDED for line in raw_lines(path)]
    rows = (
        with_envelope(raw_messages(spark, lines), "maxwell")
        .groupBy("op", "reject_reason")
        .count()
        .collect()
    )
    assert {row.reject_reason for row in rows} == {None}
    # counted in the text, each line for itself
    kinds = Counter()
    for message in lines:
        kind = message.split(b'"type":"', 1)[1].split(b'"', 1)[0].decode()
        kinds["ddl" if "-" in kind and kind != "table-drop" else kind] += 1
    # the swap of product_price: away to pp_old, and pp_new in its place
    kinds.subtract(ddl=2)
    kinds.update(rename=2, drop=kinds.pop("table-drop"))
    assert {row.op: row["count"] for row in rows} == kinds
    assert sum(kinds.values()) == 35446


@pytest.mark.parametrize("position", [None, '"bin:x"'])
def test_a_dropped_table_must_have_a_position(spark, position):
    text = json_object(
        {
            "type": '"table-drop"',
            "database": '"shop"',
            "table": '"o"',
            "ts": "1772416800000",
            "position": position,
        }
    )
    (row,) = envelopes(spark, [text])

    assert row.reject_reason == "a statement on whole tables without a binlog position"
    assert row.op is None
