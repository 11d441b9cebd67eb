"""Debezium's messages: what is read of them, and that they tell the same as Maxwell's.

Longer than 500 lines: its messages are made by the same helpers, and compared with the same
sample.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.debezium.values import PLACEHOLDER
from python_udfs.ingestion.formats.envelope import ENVELOPE
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.duplicates import change_rows
from tests.support.lines import (
    ROOT,
    ZONE,
    envelopes,
    json_object,
    raw_lines,
    raw_messages,
    source,
    typed,
)

SAMPLES = ROOT / "tests" / "fixtures" / "debezium"
TS = 1772416800123  # 2026-03-02 02:00:00.123 UTC
AT = datetime(2026, 3, 2, 2, 0, 0, 123000)
LATEST = 253402300799999  # the last millisecond of the year 9999

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
POSTGRES = {
    "connector": '"postgresql"',
    "db": '"shop"',
    "schema": '"public"',
    "table": '"o"',
    "snapshot": '"false"',
    "ts_ms": str(TS),
    "txId": "601",
    "lsn": "34078720",
}
ROW = '{"id":1,"v":"a","d":"AJY="}'  # d is 1.50
DECLARED = source(
    {"id": "bigint", "v": "varchar(40)", "d": "decimal(12,2)"},
    format="debezium",
    columns_of_interest=["v"],
    aliases={"v": ["w"]},
)
PG_DECLARED = source(
    {"id": "bigint", "v": "text", "b": "blob"}, table="public.o", format="debezium"
)
NOT_JSON = "not JSON, or more than one object on a line"
NO_OP = "JSON, but no Debezium message: no `op`, but {} (are the messages flattened?)"
NO_POSITION = (
    "no position in the `source` of connector {}: "
    "expected `file`, `pos` and `row` (MySQL, MariaDB) or `lsn` (PostgreSQL)"
)
MALFORMED = (
    "a malformed position: `source.file` must end in a number, "
    "`source.pos` and `source.row`, or `source.lsn`, be whole numbers"
)
NO_TIME = "`source.ts_ms` is missing or not a time"
NO_BEFORE = "no `before` object in a change of op {}: "
LACKS = (
    "the row image lacks {} (is binlog_row_image FULL, is the column declared by its right name?)"
)


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


def schema_change(ddl: str, kind: str | None = "ALTER", snapshot: str = "false") -> str:
    changes = f'[{{"type":"{kind}","id":"\\"shop\\".\\"o\\"","table":null}}]' if kind else "[]"
    return json_object(
        {
            "source": json_object(MYSQL | {"snapshot": f'"{snapshot}"', "row": "0"}),
            "ts_ms": str(TS),
            "databaseName": '"shop"',
            "schemaName": "null",
            "ddl": json.dumps(ddl),
            "tableChanges": changes,
        }
    )


def wrapped(text: str) -> str:
    return f'{{"schema":{{"type":"struct","fields":[{{"field":"op"}}]}},"payload":{text}}}'


# name -> (payload, how the reason begins)
BAD: dict[str, tuple[str, str]] = {
    "text": ("hello", NOT_JSON),
    "cut": (message()[:-5], NOT_JSON),
    "glued": (message() + message(), NOT_JSON),
    "glued with a comma": (f"{message()},{message()}", "more than one JSON value on a line"),
    "array": ("[1]", "JSON, but no Debezium message: no object"),
    "number": ("5", "JSON, but no Debezium message: no object"),
    "empty line": ("", "empty line"),
    "empty object": ("{}", NO_OP.format("nothing")),
    "flattened": ('{"id":1,"__op":"c"}', NO_OP.format("id, __op")),
    "Maxwell's": ('{"database":"shop","type":"insert"}', NO_OP.format("database, type")),
    "payload that is no object": ('{"schema":{},"payload":5}', NO_OP.format("schema, payload")),
    "a time and more": ('{"ts_ms":1,"id":2}', NO_OP.format("ts_ms, id")),
    "another status": ('{"status":"DONE","id":"1"}', NO_OP.format("status, id")),
    "unknown op": (message("x"), "unknown Debezium op x: expected one of c, u, d, r, t, m"),
    "unknown op, wrapped": (wrapped(message("x")), "unknown Debezium op x"),
    "no source": (message(source=None), "no `source`"),
    "source that is text": (message(source='"x"'), "no `source`"),
    "no db": (message(db=None), "no `source.db`"),
    "empty db": (message(db='""'), "no `source.db`"),
    "no table": (message(table="null"), "no `source.table`"),
    "no table, schema": (message(origin=POSTGRES, table="null"), "no `source.table`"),
    "no time": (message(ts_ms=None).replace(f'"ts_ms":{TS + 5000}', '"x":1'), NO_TIME),
    "time negative": (message(ts_ms="-1"), NO_TIME),
    "time after the year 9999": (message(ts_ms=str(LATEST + 1)), NO_TIME),
    "no position": (message(file=None), NO_POSITION.format("mysql")),
    "position of another database": (
        message(origin=MYSQL | {"connector": '"sqlserver"'}, file="null"),
        NO_POSITION.format("sqlserver"),
    ),
    "no lsn": (message(origin=POSTGRES, lsn="null"), NO_POSITION.format("postgresql")),
    "lsn negative": (message(origin=POSTGRES, lsn="-1"), MALFORMED),
    "file without number": (message(file='"bin"'), MALFORMED),
    "file with too large a number": (message(file=f'"bin.{"9" * 30}"'), MALFORMED),
    "no pos": (message(pos=None), MALFORMED),
    "pos text": (message(pos='"4x"'), MALFORMED),
    "pos negative": (message(pos="-4"), MALFORMED),
    "no row": (message(row=None), MALFORMED),
    "row negative": (message(row="-1"), MALFORMED),
    "truncate without position": (message("t", file=None), NO_POSITION.format("mysql")),
}

# name -> (payload, what its envelope must have)
FINE: dict[str, tuple[str | None, dict]] = {
    "create": (
        message(row="3"),
        {
            "database_name": "shop",
            "table_name": "o",
            "op": "insert",
            "event_time": AT,
            "binlog_file": "bin.000007",
            "binlog_file_number": 7,
            "binlog_position": 9580,
            "row_number": 7,
            "xid": None,
        },
    ),
    "update": (message("u", row="3"), {"op": "update", "row_number": 6}),
    "delete": (message("d", row="3"), {"op": "delete", "row_number": 6}),
    "read": (message("r", snapshot='"last"'), {"op": "snapshot", "binlog_position": 9580}),
    "truncate": (message("t"), {"op": "truncate", "binlog_position": 9580, "row_number": None}),
    "with schema": (wrapped(message("u", row="3")), {"op": "update", "row_number": 6}),
    "schema behind": (
        f'{{"payload":{message()},"schema":null}}',
        {"op": "insert", "table_name": "o", "row_number": 1},
    ),
    "a log message of PostgreSQL": (message("m", POSTGRES, table='""'), {"op": "control"}),
    "PostgreSQL": (
        message("u", POSTGRES),
        {
            "database_name": "shop",
            "table_name": "public.o",
            "op": "update",
            "event_time": AT,
            "binlog_file": "postgres",
            "binlog_file_number": 0,
            "binlog_position": 34078720,
            "xid": 601,
        },
    ),
    "microseconds": (
        message(origin=MYSQL | {"ts_us": "1772416800123456"}),
        {"event_time": datetime(2026, 3, 2, 2, 0, 0, 123456)},
    ),
    "time 0 in a snapshot": (
        message(ts_ms="0").replace(f'"ts_ms":{TS + 5000}', '"ts_ms":1772416805123'),
        {"event_time": datetime(2026, 3, 2, 2, 0, 5, 123000)},
    ),
    "the last millisecond": (
        message(origin=MYSQL | {"ts_ms": str(LATEST)}),
        {"event_time": datetime(9999, 12, 31, 23, 59, 59, 999000)},
    ),
    "tombstone": (None, {"op": "control", "table_name": None}),
    "tombstone as text": ("null", {"op": "control"}),
    "tombstone with schema": ('{"schema":null,"payload":null}', {"op": "control"}),
    "begin": (
        f'{{"status":"BEGIN","id":"0-1-41086","event_count":null,"ts_ms":{TS}}}',
        {"op": "control", "event_time": AT},
    ),
    "end, wrapped": (wrapped('{"status":"END","id":"x","event_count":2}'), {"op": "control"}),
    "heartbeat": (f'{{"ts_ms":{TS}}}', {"op": "control", "event_time": AT}),
    "heartbeat, wrapped": (wrapped(f'{{"ts_ms":{TS},"ts_us":1,"ts_ns":2}}'), {"op": "control"}),
}
# statement, type of its table change -> op
DDL = {
    ("create table o (id int)", "CREATE"): "ddl",
    ("alter table o add n int", "ALTER"): "ddl",
    ("ALTER TABLE o RENAME COLUMN a TO b", "ALTER"): "ddl",
    ("alter table o rename  index a to b, rename key c to d", "ALTER"): "ddl",
    ("alter table o comment 'rename to x', add `rename to` int -- rename to y", "ALTER"): "ddl",
    ("/* drop table o */ create database d", None): "ddl",
    ("drop view v", None): "ddl",
    ("alter table o add n int, rename to p", "ALTER"): "rename",
    ("alter table `o` rename `p`", "ALTER"): "rename",
    ("/* swap */ Rename Table o to p, p2 to o", "ALTER"): "rename",
    ("DROP TABLE IF EXISTS `o`", "DROP"): "drop",
    ("drop database shop", None): "drop",
    ("/*!40000 truncate */\ntable o", None): "truncate",
    ("create /*M!100000 or replace */ table o (id int)", "CREATE"): "drop",
    ("alter table o drop partition p", "ALTER"): "truncate",
}
for (_ddl, _kind), _op in DDL.items():
    FINE[_ddl] = (
        schema_change(_ddl, _kind),
        {"op": _op, "database_name": "shop", "table_name": "o", "binlog_position": 9580},
    )
FINE["what a snapshot begins with"] = (
    schema_change("DROP TABLE IF EXISTS `o`", "DROP", snapshot="true"),
    {"op": "ddl"},
)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, Row]:
    """Name -> row of ods_binlog, from one job."""
    named = BAD | FINE
    found = envelopes(spark, [payload for payload, _ in named.values()], "debezium")
    return dict(zip(named, found, strict=True))


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_stays_with_its_reason(rows, name):
    payload, reason = BAD[name]
    assert (rows[name].reject_reason or "").startswith(reason)
    assert rows[name].payload == payload
    assert all(rows[name][column] is None for column in ENVELOPE if column != "envelope_reason")


@pytest.mark.parametrize("name", FINE)
def test_what_the_envelope_holds(rows, name):
    payload, expected = FINE[name]
    row = rows[name]
    assert (row.reject_reason, row.payload) == (None, payload)
    assert {column: row[column] for column in expected} == expected


def test_rows_of_one_position_are_distinguished(spark):
    # a COPY, and an old connector's snapshot, whose rows are op c
    same = [message(origin=POSTGRES, after=f'{{"id":{n}}}') for n in range(4)]
    same += [message(snapshot='"true"', after=f'{{"id":{n}}}') for n in range(4)]
    # a key change has a delete and a create at one lsn
    other = POSTGRES | {"lsn": "5"}
    key_changes = []
    for n in range(8):
        image = f'{{"id":{n}}}'
        key_changes += [
            message("d", other, before=image),
            message("c", other, after=image, before="null"),
        ]
    found = envelopes(spark, [*same, *key_changes], "debezium")
    assert [row.reject_reason for row in found] == [None] * 24
    assert len({(row.binlog_file, row.row_number) for row in found[:8]}) == 8
    deleted, created = ({row.row_number for row in found[8 + n :: 2]} for n in (0, 1))
    assert len(deleted) == len(created) == 8
    assert 0 <= min(deleted) <= max(deleted) < min(created)
    # sent again, a change is the same, though its other times differ
    (again,) = envelopes(spark, [same[2].replace(str(TS + 5000), str(TS + 9000))], "debezium")
    assert again.row_number == found[2].row_number


def retracts(rows: list[Row], names: list[str]) -> list[tuple]:
    """(sign, values) of the rows that changes take back and give, in binlog order."""
    found = []
    for row in sorted(rows, key=lambda row: (row.binlog_position, row.row_number)):
        if row.op_type != "insert":
            found.append(("-", *[row.before[name] for name in names]))
        if row.op_type != "delete":
            found.append(("+", *[row[name] for name in names]))
    return found


@pytest.mark.in_turn
def test_a_key_change_takes_the_old_row_back_and_gives_the_new_row(spark):
    new = '{"id":2,"v":"a","d":"AJY="}'
    # as they may lie in two partitions, the create read first
    lines = [message("c", after=new), None, message("d"), message("d")]
    binlog = with_envelope(raw_messages(spark, lines), "debezium")
    binlog = binlog.withColumn("load_id", F.lit("load")).localCheckpoint()
    once = change_rows(binlog, DECLARED, BusinessDay(DECLARED, ZONE, 24), [LIVE]).collect()
    assert retracts(once, ["id", "v", "d"]) == [
        ("-", 1, "a", Decimal("1.50")),
        ("+", 2, "a", Decimal("1.50")),
    ]
    keys = ["bin.000007:9580:0", "bin.000007:9580:1"]
    assert sorted(row.unique_key for row in once) == keys


# name -> (payload, (before, after) of (id, v, d) or the reason)
IMAGES: dict[str, tuple[str, Any]] = {
    "insert": (message(), (None, (1, "a", Decimal("1.50")))),
    "update": (
        message("u", before='{"id":1,"v":null,"d":null}'),
        ((1, None, None), (1, "a", Decimal("1.50"))),
    ),
    "update with schema": (
        wrapped(message("u", before='{"id":1,"v":"x","d":"/w=="}')),
        ((1, "x", Decimal("-0.01")), (1, "a", Decimal("1.50"))),
    ),
    "delete": (message("d"), ((1, "a", Decimal("1.50")), (1, "a", Decimal("1.50")))),
    "column under its old name": (
        message("u", before='{"id":1,"w":"old","d":null}'),
        ((1, "old", None), (1, "a", Decimal("1.50"))),
    ),
    "unwatched column absent": (message(after='{"id":1,"v":"a"}'), (None, (1, "a", None))),
    "text like another's": (
        message(after='{"id":1,"v":"\\ud83d\\ude00 \\"after\\":{?}","d":null}'),
        (None, (1, '\U0001f600 "after":{?}', None)),
    ),
    "no before": (message("u", before="null"), NO_BEFORE.format("update")),
    "before absent": (message("u", before=None), NO_BEFORE.format("update")),
    "before that is text": (message("u", before='"x"'), NO_BEFORE.format("update")),
    "delete without before": (message("d", before="null"), NO_BEFORE.format("delete")),
    "insert without after": (message(after="null"), "no `after` object"),
    "update without after": (message("u", after=None), "no `after` object"),
    "watched column absent": (message(after='{"id":1}'), LACKS.format("v")),
    "watched columns absent before": (message("u", before='{"d":null}'), LACKS.format("id, v")),
    "watched column absent in a delete": (message("d", before='{"id":1}'), LACKS.format("v")),
    "key null": (message(after='{"id":null,"v":"a"}'), "the key column id is null"),
    "unread values": (
        message("u", before='{"id":"x","v":"a","d":"?"}'),
        "before.id = x is no bigint; before.d = ? is no decimal(12,2)",
    ),
    "a long value": (
        message(after=f'{{"id":1,"v":"a","d":"{"x" * 100}"}}'),
        f"after.d = {'x' * 80} is no decimal(12,2)",
    ),
    "half a character": (message(after='{"id":1,"v":"\\ud83d"}'), "a lone surrogate escape"),
}
PG_IMAGES: dict[str, tuple[str, Any]] = {
    "delete": (
        message("d", POSTGRES, before='{"id":1,"v":"a","b":null}'),
        ((1, "a", None), (1, "a", None)),
    ),
    "by default, the key only": (
        message("d", POSTGRES, before='{"id":1,"v":null,"b":null}'),
        "`before` holds the key alone",
    ),
    "text left alone": (
        message("u", POSTGRES, before='{"id":1,"v":"a"}', after=f'{{"id":1,"v":"{PLACEHOLDER}"}}'),
        f"after.v = {PLACEHOLDER} is no text",
    ),
    "bytes left alone": (
        message(
            "u",
            POSTGRES,
            before='{"id":1,"v":"a"}',
            after='{"id":1,"v":"a","b":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}',
        ),
        "after.b = X19k",
    ),
}


@pytest.mark.in_turn
@pytest.mark.parametrize(("cases", "declared"), [(IMAGES, DECLARED), (PG_IMAGES, PG_DECLARED)])
def test_the_images_of_a_change_or_why_there_are_none(spark, cases, declared):
    found = typed(spark, [payload for payload, _ in cases.values()], declared)
    names = list(declared.columns)
    got = {}
    for name, row in zip(cases, found, strict=True):
        before = row.before and tuple(row.before[column] for column in names)
        got[name] = row.reject_reason or (before, tuple(row[column] for column in names))
        expected = cases[name][1]
        if isinstance(expected, str) and got[name].startswith(expected):
            got[name] = expected
            assert all(row[column] is None for column in (*names, "before"))
    assert got == {name: expected for name, (_, expected) in cases.items()}


# Values: options -> column type -> [(JSON text, value)]; a value of NONE is refused

NONE = object()
DEFAULTS: dict[str, list[tuple[str, Any]]] = {
    "bigint unsigned": [
        ("0", 0),
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", 2**63),
        ("-1", 2**64 - 1),
        ("1.5", NONE),
        ('"x"', NONE),
    ],
    "bigint": [("-9223372036854775808", -(2**63)), ("9223372036854775808", NONE)],
    "int unsigned": [("4294967295", 2**32 - 1), ('"1"', NONE)],
    "tinyint(1)": [("1", 1), ("-128", -128), ("true", 1), ("false", 0), ('"yes"', NONE)],
    "year": [("2026", 2026)],
    "bit(1)": [("true", 1), ("false", 0), ('"AQ=="', NONE)],
    "bit(9)": [('"AgE="', 258), ('"AAA="', 0), ("true", NONE), ('"AgE"', NONE)],
    "bit(32)": [('"true"', 0x9EBBB6)],
    "bit(64)": [
        ('"//////////8="', 2**64 - 1),
        ('"//////////8A"', NONE),
        ('"/////////38="', 2**63 - 1),
        ('"gAAAAAAAAAA="', 128),
        ('"AQEBAQEBAQEB"', NONE),
        ('""', NONE),
    ],
    "decimal(12,2)": [
        ('"AJY="', "1.50"),
        ('"/w=="', "-0.01"),
        ('"AA=="', "0.00"),
        ('"gA=="', "-1.28"),
        ('"AIA="', "1.28"),
        ('"AOjUpQ//"', "9999999999.99"),
        ('"/xcrWvAB"', "-9999999999.99"),
        ('"AOjUpRAA"', NONE),
        ('{"scale":1,"value":"Dw=="}', "1.50"),
        ('{"scale":0,"value":"/w=="}', "-1.00"),
        ('{"scale":-2,"value":"Dw=="}', "1500.00"),
        ('{"scale":3,"value":"AJY="}', "0.15"),
        ('{"scale":3,"value":"Dw=="}', NONE),
        ('{"scale":99,"value":"Dw=="}', NONE),
        ('{"scale":1}', NONE),
        ("1.50", NONE),
        ('"!!"', NONE),
        ('""', NONE),
    ],
    "decimal(38,0)": [
        ('"SztMqFqGxHoJiiI//////w=="', "99999999999999999999999999999999999999"),
        ('"tMSzV6V5O4X2dd3AAAAAAQ=="', "-99999999999999999999999999999999999999"),
        ('"AIAAAAAAAAAA"', "9223372036854775808"),
        ('"/3//////////"', "-9223372036854775809"),
        ('"AQAAAAAAAAAA"', "18446744073709551616"),
        ('"/wAAAAAAAAAA"', "-18446744073709551616"),
        ('"SztMqFqGxHoJiiJAAAAAAA=="', NONE),
        ('"gAAAAAAAAAAAAAAAAAAAAA=="', NONE),
        ('"AAAAAAAAAAAAAAAAAAAAAAA="', NONE),
    ],
    "decimal(38,38)": [('"/w=="', "-0." + "0" * 37 + "1")],
    "double": [("1.1", 1.1), ("-1e308", -1e308), ("1e999", NONE), ('"x"', NONE)],
    "float": [("0.5", 0.5), ('"NaN"', NONE)],
    # of +08:00 become UTC
    "datetime": [
        ("1772359200000", datetime(2026, 3, 1, 2)),
        ("-1", datetime(1969, 12, 31, 15, 59, 59, 999000)),
        ("253402300799999", datetime(9999, 12, 31, 15, 59, 59, 999000)),
        ("253402300800000", NONE),
        ("9223372036854775807", NONE),
        ("1.5", NONE),
        ('"2026-03-01 10:00:00"', NONE),
    ],
    "datetime(3)": [("1772359200123", datetime(2026, 3, 1, 2, 0, 0, 123000))],
    "datetime(4)": [("1772359200123400", datetime(2026, 3, 1, 2, 0, 0, 123400))],
    "datetime(6)": [
        ("1772359200123456", datetime(2026, 3, 1, 2, 0, 0, 123456)),
        ("-30610224000000000", datetime(999, 12, 31, 16)),
        ("0", datetime(1969, 12, 31, 16)),
    ],
    "timestamp(3)": [
        ('"2026-03-01T10:00:00.123Z"', datetime(2026, 3, 1, 10, 0, 0, 123000)),
        ('"2000-01-01T00:00:00Z"', datetime(2000, 1, 1)),
        ('"2026-03-01T10:00:00.123456+08:00"', datetime(2026, 3, 1, 2, 0, 0, 123456)),
        ('"2026-03-01T10:00:00"', NONE),
        ('"2026-02-30T10:00:00Z"', NONE),
        ("1772359200123", NONE),
    ],
    "date": [
        ("20513", date(2026, 3, 1)),
        ("-1", date(1969, 12, 31)),
        ("-354285", date(1000, 1, 1)),
        ("2932896", date(9999, 12, 31)),
        ("2932897", NONE),
        ('"2026-03-01"', NONE),
    ],
    "time": [
        ("0", "00:00:00"),
        ("3020399000000", "838:59:59"),
        ("-3020399000000", "-838:59:59"),
        ("90000000000", "25:00:00"),
        ("1500000", NONE),
        ("3020400000000", NONE),
    ],
    "time(3)": [("-45001500000", "-12:30:01.500"), ("359999999000", "99:59:59.999")],
    "time(6)": [("-1", "-00:00:00.000001"), ("-9223372036854775808", NONE)],
    "enum('x','y')": [('"x"', "x")],
    "set('x','y')": [('"x,y"', "x,y")],
    "json": [('"{\\"a\\":1.10}"', '{"a":1.10}')],
    "varchar(9)": [('""', ""), ('"null"', "null")],
    "blob": [('"AP8Q"', b"\x00\xff\x10"), ('""', b""), ('"AP8"', NONE), ('"-_8="', NONE)],
}
MODES: dict[str, tuple[dict[str, str], dict[str, list[tuple[str, Any]]]]] = {
    "Debezium's defaults": ({}, DEFAULTS),
    "texts": (
        {
            "time.precision.mode": "isostring",
            "decimal.handling.mode": "string",
            "bigint.unsigned.handling.mode": "precise",
            "binary.handling.mode": "hex",
        },
        {
            "bigint unsigned": [('"AP//////////"', 2**64 - 1), ('"AA=="', 0), ('"/w=="', NONE)],
            "decimal(12,2)": [('"1234"', "1234.00"), ('"-0.01"', "-0.01"), ('"abc"', NONE)],
            "decimal(38,18)": [("12345678901234567890.123456789012345678",) * 2],
            "decimal(12,8)": [('"1E-7"', "1E-7")],
            "datetime(6)": [
                ('"2026-03-01T10:00:00.123456Z"', datetime(2026, 3, 1, 2, 0, 0, 123456)),
                ("1772359200123456", NONE),
            ],
            "date": [('"2026-03-01Z"', date(2026, 3, 1)), ('"2026-03-01"', date(2026, 3, 1))],
            "time(3)": [('"12:30:01.500Z"', "12:30:01.500"), ('"12:30:01+08:00"', NONE)],
            "blob": [('"00fF10"', b"\x00\xff\x10"), ('""', b""), ('"0"', NONE)],
        },
    ),
    "adaptive": (
        {
            "time.precision.mode": "adaptive",
            "decimal.handling.mode": "double",
            "binary.handling.mode": "base64-url-safe",
        },
        {
            "decimal(12,2)": [("1.5", "1.50"), ("1.0E7", "10000000.00"), ('"x"', NONE)],
            "datetime(6)": [("-1", datetime(1969, 12, 31, 15, 59, 59, 999999))],
            "time(3)": [("-45001500", "-12:30:01.500")],
            "time(6)": [("45001500001", "12:30:01.500001")],
            "blob": [('"-_8="', b"\xfb\xff"), ('"+/8="', b"\xfb\xff")],
        },
    ),
    "connect": (
        {"time.precision.mode": "connect", "binary.handling.mode": "base64"},
        {
            "datetime(6)": [("1772359200123", datetime(2026, 3, 1, 2, 0, 0, 123000))],
            "time(6)": [("45001500", "12:30:01.500000")],
            "date": [("20513", date(2026, 3, 1))],
            "blob": [('"AP8Q"', b"\x00\xff\x10")],
        },
    ),
    "microseconds": (
        {"time.precision.mode": "microseconds"},
        {
            "datetime": [("1772359200000000", datetime(2026, 3, 1, 2))],
            "time": [("45001000000", "12:30:01")],
        },
    ),
    "nanoseconds": (
        {"time.precision.mode": "nanoseconds"},
        {
            "datetime(6)": [
                ("1772359200123456000", datetime(2026, 3, 1, 2, 0, 0, 123456)),
                ("0", datetime(1969, 12, 31, 16)),
                ("1772359200123456789", NONE),
            ],
            "time(3)": [("-45001500000000", "-12:30:01.500")],
        },
    ),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("mode", MODES)
def test_a_value_is_exact_or_refused_by_name(spark, mode):
    options, kinds = MODES[mode]
    columns = {f"c{n}": kind for n, kind in enumerate(kinds)}
    cases = [(name, *case) for name in columns for case in kinds[columns[name]]]
    nulls = dict.fromkeys(columns, "null") | {"id": "1"}
    lines = [message(after=json_object(nulls | {name: text})) for name, text, _ in cases]
    declared = source({"id": "int"} | columns, format="debezium", options=options)

    rows = typed(spark, [*lines, message(after=json_object(nulls))], declared)

    got, expected = {}, {}
    for (name, text, value), row in zip(cases, rows, strict=False):
        if isinstance(value, str) and columns[name].startswith("decimal"):
            value = Decimal(value)
        of = (columns[name], text)
        expected[of] = NONE if value is NONE else (value, None)
        got[of] = (row[name], row.reject_reason)
        if row.reject_reason is not None:
            assert f".{name} = " in row.reject_reason, of
            assert row.reject_reason.endswith(f" is no {columns[name]}"), of
            assert row[name] is None
            got[of] = NONE
        assert all(row[other] is None for other in columns if other != name)
    assert got == expected
    assert [rows[-1][name] for name in columns] == [None] * len(columns)
    assert rows[-1].reject_reason is None


# What a real producer wrote


def sample(name: str) -> list[str | None]:
    values = [json.loads(line)["value"] for line in raw_lines(SAMPLES / name)]
    return [value and json.dumps(value, ensure_ascii=False) for value in values]


def test_the_events_of_a_real_producer_are_all_distinguished(spark):
    rows = envelopes(spark, sample("types.jsonl.gz") + sample("transactions.jsonl.gz"), "debezium")
    assert [row.reject_reason for row in rows] == [None] * 60
    ops = Counter(row.op for row in rows)
    assert ops == {
        "ddl": 35,
        "control": 10,
        "snapshot": 1,
        "insert": 5,
        "update": 6,
        "delete": 2,
        "truncate": 1,
    }
    identities = [
        (row.binlog_position, row.row_number)
        for row in rows
        if row.op in ("insert", "update", "delete")
    ]
    assert len(set(identities)) == len(identities)


@pytest.mark.in_turn
def test_a_real_log_gives_the_same_rows_as_through_maxwell(spark):
    # tm and tz left out: Maxwell's negative TIME is wrong, and tz has the time of the run
    columns = {
        "id": "bigint unsigned",
        "a": "bigint",
        "v": "varchar(50)",
        "d": "decimal(12,2)",
        "dt": "datetime(3)",
        "ts": "timestamp(3)",
        "dd": "date",
        "j": "longtext",
        "b": "tinyint(1)",
        "bl": "blob",
        "e": "enum('x','y')",
        "bt": "bit(4)",
        "f": "float",
        "db": "double",
        "yr": "year",
    }
    found = {}
    for name, lines in (
        ("debezium", sample("types.jsonl.gz")),
        ("maxwell", [line.decode() for line in raw_lines(SAMPLES / "maxwell_types.jsonl.gz")]),
    ):
        rows = typed(spark, lines, source(columns, table="t1", format=name))
        assert [row.reject_reason for row in rows] == [None] * len(rows)
        found[name] = retracts(rows, list(columns))
    assert found["debezium"] == found["maxwell"]
    assert found["debezium"][0][1:6] == (
        2**64 - 1,
        1,
        '\U0001f600 "q" \\ \n nl',
        Decimal("10.50"),
        datetime(2026, 3, 1, 15, 59, 59, 999000),
    )
    assert [item[0] for item in found["debezium"]] == list("++-+-+-+-+-+-+-+-++"), found


def test_a_negative_time_of_a_real_log(spark):
    declared = source({"id": "bigint unsigned", "tm": "time(3)"}, table="t1", format="debezium")
    first, *_ = typed(spark, sample("types.jsonl.gz"), declared)
    assert first.tm == "-12:30:01.500"
