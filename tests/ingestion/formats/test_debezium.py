"""Debezium's messages: what is read of them, and that they tell the same as Maxwell's."""

from __future__ import annotations

import json
from datetime import datetime
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
from tests.support.debezium_messages import MYSQL, TS, message, retracts
from tests.support.lines import (
    ZONE,
    envelopes,
    json_object,
    raw_messages,
    source,
    typed,
)

AT = datetime(2026, 3, 2, 2, 0, 0, 123000)
LATEST = 253402300799999  # the last millisecond of the year 9999
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
NO_TIME = "no `source.ts_ms`, or one that is no time"
NO_BEFORE = "no `before` object in a change of op {}: "
LACKS = (
    "the row image lacks {} (is binlog_row_image FULL, is the column declared by its right name?)"
)


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
def test_what_the_envelope_tells(rows, name):
    payload, expected = FINE[name]
    row = rows[name]
    assert (row.reject_reason, row.payload) == (None, payload)
    assert {column: row[column] for column in expected} == expected


def test_rows_of_one_position_are_told_apart(spark):
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


def test_a_key_change_takes_the_old_row_back_and_gives_the_new_one(spark):
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
