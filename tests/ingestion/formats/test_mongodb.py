"""Change streams of MongoDB and Debezium's messages of them.

Longer than 500 lines: change streams and Debezium's messages are made of the same documents,
and give the same rows.
"""

from __future__ import annotations

import json
import random
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.declared.made_by import check_made_by, made_by
from python_udfs.ingestion.formats.mongodb import EXTRA, images, table_moves
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.landing.spark import RAW_SCHEMA
from python_udfs.ingestion.tables.source import TableSource
from tests.support.lines import source, typed, typed_frame

pytestmark = pytest.mark.in_turn

T = 1772416800  # 2026-03-02 02:00:00 UTC
OID = "65f49506238b3bbcc1cb20c0"
UUID_BYTES = "5A1004448A9E1A91724ECA875AAFA40773D05C"
COLUMNS = {
    "id": "varchar(40)",
    "status": "varchar(20)",
    "amount": "decimal(12,2)",
    "n": "bigint",
    "ratio": "double",
    "paid": "tinyint",
    "at": "timestamp(3)",
    "city": "varchar(20)",
    "tags": "json",
    "raw": "varbinary(20)",
}
META = {"aliases": {"id": "_id", "city": ["address.city", "town"]}, "format": "mongodb"}
NO_PLACE = "the place in its transaction isn't known: "
PARTLY = (
    "the update sets a part of {}, whose value isn't known from it (keep post-images and declare "
    "them by the option full_document, or declare the parts)"
)


def declared(
    columns: dict[str, str] | None = None,
    full_document: str = "lookup",
    ids: str = "any",
    pre_images: str = "any",
    **more: Any,
) -> TableSource:
    options = {
        "options": {"full_document": full_document, "ids": ids, "pre_images": pre_images},
    }
    return source(columns or COLUMNS, **(META | options | more))


def token(t: int = T, i: int = 1, place: int = 0, key: str = "00", version: int = 2) -> str:
    """A resume token as the server builds it: a KeyString in hex."""
    number = "29"
    if place:
        size = 1 if place < 2**7 else 2 if place < 2**15 else 3
        number = f"{0x2A + size:02X}{place * 2:0{2 * size}X}"
    head = f"82{t:08X}{i:08X}" + ("29" if version == 0 else f"2B{2 * version:02X}2C0100")
    return head + number + ("" if version == 0 else "6E") + UUID_BYTES + "46" + key + "04"


def stream(kind: str = "insert", **fields: Any) -> dict[str, Any]:
    """A change event, of document 1 unless stated otherwise."""
    event = {
        "_id": {"_data": token()},
        "operationType": kind,
        "clusterTime": {"$timestamp": {"t": T, "i": 1}},
        "wallTime": {"$date": "2026-03-02T02:00:00.123Z"},
        "ns": {"db": "shop", "coll": "o"},
        "documentKey": {"_id": 1},
    }
    return {name: field for name, field in (event | fields).items() if field is not ...}


def update(
    updated: dict[str, Any] | None = None,
    removed: list[str] | None = None,
    cut: list[dict[str, Any]] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    patch = {
        "updatedFields": updated or {},
        "removedFields": removed or [],
        "truncatedArrays": cut or [],
    }
    return stream("update", updateDescription=patch, **fields)


def debezium(op: str = "c", **fields: Any) -> dict[str, Any]:
    """Debezium's message; documents become text, as it writes them."""
    origin = {"db": "shop", "collection": "o", "ts_ms": T * 1000, "ord": 1}
    message = {"op": op, "source": origin, "ts_ms": T * 1000 + 900} | fields
    for name in ("after", "before"):
        if isinstance(message.get(name), dict):
            message[name] = json.dumps(message[name])
    patch = message.get("updateDescription")
    if patch and isinstance(patch.get("updatedFields"), dict):
        patch = patch | {"updatedFields": json.dumps(patch["updatedFields"])}
        message["updateDescription"] = patch
    return message


def key(document_id: Any = 1) -> str:
    """Debezium's message key: the _id as JSON text."""
    return json.dumps({"id": json.dumps(document_id)})


Message = dict[str, Any] | str | tuple[dict[str, Any] | str, str | None]


def enveloped(spark: SparkSession, messages: list[Message]) -> DataFrame:
    """The messages, or (message, message key), as rows of ods_binlog."""
    rows = []
    for offset, message in enumerate(messages):
        value, name = message if isinstance(message, tuple) else (message, None)
        text = value if isinstance(value, str) else json.dumps(value)
        as_bytes = name.encode() if name is not None else None
        rows.append((LIVE, "t", 0, offset, 0, as_bytes, text.encode(), None))
    raw = spark.createDataFrame(rows, RAW_SCHEMA)
    return with_envelope(raw, "mongodb").localCheckpoint(eager=False)


def heads(spark: SparkSession, messages: list[Message]) -> list[Row]:
    return sorted(enveloped(spark, messages).collect(), key=lambda row: row.message_offset)


def rows_of(
    spark: SparkSession, messages: list[Message], declaration: TableSource | None = None
) -> list[Row]:
    """What `images` makes of row messages, in their order."""
    binlog = enveloped(spark, messages)
    found = images(binlog.where("reject_reason is null"), declaration or declared()).collect()
    assert len(found) == len(messages), [row.reject_reason for row in binlog.collect()]
    return sorted(found, key=lambda row: row.message_offset)


def one_row(spark: SparkSession, message: Message, declaration: TableSource | None = None) -> Row:
    return rows_of(spark, [message], declaration)[0]


def test_a_collection_without_key_is_refused():
    with pytest.raises(ValueError, match="`primary_key` is empty, and mongodb identifies"):
        declared(primary_key=[])


# The envelope


def test_where_the_documents_of_a_collection_went():
    here, there = ("shop", "o"), ("old", "o_2026")
    drop, rename = stream("drop"), stream("rename", to={"db": "old", "coll": "o_2026"})
    wrapped = {"schema": {}, "payload": rename}
    for event, to in ((drop, None), (rename, there), ([rename], there), (wrapped, there)):
        op = "rename" if to else "drop"
        assert table_moves(json.dumps(event), *here, op) == [(here, to)]
    for to in (..., None, {"db": "old"}):
        with pytest.raises(ValueError, match="a `rename` without `to`"):
            table_moves(json.dumps(stream("rename", to=to)), *here, "rename")


def test_each_operation_of_a_change_stream(spark):
    kinds = {
        "insert": "insert",
        "update": "update",
        "replace": "update",
        "delete": "delete",
        "drop": "drop",
        "rename": "rename",
        "dropDatabase": "ddl",
        "create": "ddl",
        "createIndexes": "ddl",
        "modify": "ddl",
        "invalidate": "control",
    }
    events = [stream(kind) for kind in kinds]
    events[6]["ns"] = {"db": "shop"}
    del events[-1]["ns"], events[-1]["documentKey"]
    rows = heads(spark, events)
    assert [(row.op, row.reject_reason) for row in rows] == [(op, None) for op in kinds.values()]
    assert {(row.database_name, row.table_name) for row in rows[:6]} == {("shop", "o")}
    first = rows[0]
    assert first.event_time == datetime(2026, 3, 2, 2, 0, 0, 123000)
    assert (first.binlog_file, first.binlog_file_number, first.binlog_position, first.xid) == (
        "mongodb",
        0,
        T * 2**31 + 1,
        None,
    )


@pytest.mark.parametrize(
    ("wall", "expected"),
    [
        ({"$date": {"$numberLong": "1772416800005"}}, datetime(2026, 3, 2, 2, 0, 0, 5000)),
        ({"$date": 1772416800005}, datetime(2026, 3, 2, 2, 0, 0, 5000)),
        ({"$date": "2026-03-02T10:00:00+08:00"}, datetime(2026, 3, 2, 2)),
        ({"$date": "soon"}, datetime(2026, 3, 2, 2)),
        (..., datetime(2026, 3, 2, 2)),
    ],
)
def test_the_time_is_the_wall_time_else_the_cluster_time(spark, wall, expected):
    (row,) = heads(spark, [stream(wallTime=wall)])
    assert (row.event_time, row.reject_reason) == (expected, None)


def test_each_operation_of_debezium(spark):
    document = {"_id": 1}
    wrapped = {"schema": {"type": "struct"}, "payload": debezium("c", after=document)}
    boundary = {"status": "END", "id": "x:1", "event_count": 2}
    messages: list[Message] = [
        (debezium("c", after=document), key()),
        (debezium("u", updateDescription={"updatedFields": "{}"}), key()),
        (debezium("d"), key()),
        (debezium("r", after=document), key()),
        (wrapped, json.dumps({"schema": {}, "payload": {"id": "1"}})),
        debezium("c", after=document),
        ("null", key()),
        boundary,
    ]
    rows = heads(spark, messages)
    assert [row.reject_reason for row in rows] == [None] * 8
    ops = ["insert", "update", "delete", "snapshot", "insert", "insert", "control", "control"]
    assert [row.op for row in rows] == ops
    for row in rows[:6]:
        assert (row.database_name, row.table_name) == ("shop", "o")
        assert (row.binlog_file_number, row.binlog_position) == (0, T * 2**31 + 1)
        assert row.event_time == datetime(2026, 3, 2, 2)
    # with or without schema and message key it is the same change
    assert rows[0].row_number == rows[4].row_number == rows[5].row_number
    assert len({row.row_number for row in rows[:4]}) == 4


def test_debezium_s_wall_time(spark):
    origin = debezium()["source"] | {"wallTime": T * 1000 + 7}
    (row,) = heads(spark, [debezium("c", after={"_id": 1}, source=origin)])
    assert row.event_time == datetime(2026, 3, 2, 2, 0, 0, 7000)


def test_the_changes_of_a_transaction_are_in_its_order(spark):
    places = [0, 1, 2, 63, 64, 127, 128, 300, 16383, 16384, 70000]
    tokens = [token(place=place, key=f"{place % 7:02X}") for place in places]
    # as a server wrote them: places 1 and 4
    real = [
        "8266561E1B000000062B022C01002B026E5A100433C2A58AB57149A3871DA09C9D3A899646645F696400646656"
        "1E1B5E1565D6F9200E230004",
        "8265F49506000007662B022C01002B086E5A1004448A9E1A91724ECA875AAFA40773D05C46645F696400646"
        "5F49506238B3BBCC1CB20C00004",
    ]
    events = [
        stream(_id={"_data": token}, txnNumber={"$numberLong": "7"}, lsid={})
        for token in [*tokens, *real]
    ]
    rows = heads(spark, events)
    assert [row.reject_reason for row in rows] == [None] * len(events)
    assert [row.row_number >> 32 for row in rows] == [*places, 1, 4]
    assert {row.xid for row in rows} == {7}


def test_events_of_one_time_on_several_shards_are_distinguished(spark):
    events = [stream(_id={"_data": token(key=f"{number:04X}")}) for number in range(300)]
    rows = heads(spark, [*events, *events])
    assert len({row.row_number for row in rows}) == 300


def test_tokens_of_older_and_unknown_forms(spark):
    rows = heads(
        spark,
        [
            stream(_id={"_data": token(place=3, version=0)}, txnNumber=7),
            stream(_id={"_data": token(place=3, version=1)}, txnNumber=7),
            stream(_id={"_data": "opaque"}),
            stream(_id={"_data": {"$binary": {"base64": "gg==", "subType": "00"}}}),
            stream(_id={"_data": "opaque"}, txnNumber=7),
        ],
    )
    assert [row.row_number >> 32 for row in rows[:2]] == [3, 3]
    assert [row.reject_reason for row in rows] == [None] * 4 + [
        f"{NO_PLACE}a resume token of unknown form"
    ]
    assert rows[2].row_number != rows[3].row_number


def test_debezium_s_transactions_need_their_metadata(spark):
    origin = debezium()["source"] | {"lsid": "{}", "txnNumber": 9}
    messages: list[Message] = [
        (debezium("d", source=origin, transaction={"id": "9", "total_order": 4}), key()),
        (debezium("d", source=origin), key()),
    ]
    first, second = heads(spark, messages)
    assert (first.row_number >> 32, first.xid, first.reject_reason) == (4, 9, None)
    assert second.reject_reason == (
        f"{NO_PLACE}run Debezium with provide.transaction.metadata=true"
    )


NO_NS = "no `ns` with db and coll (Debezium: `source` with db and collection)"
NO_TIME = "no `clusterTime` (Debezium: `source` with ts_ms and ord), or an invalid time"
NO_KEY = "no `documentKey` with _id (Debezium: no key of the message, nor a document)"
BAD: dict[str, tuple[Message, str]] = {
    "text": (
        "rubbish",
        "not JSON, or more than one object on a line "
        "(nor is JSON read that nests over 1000 levels or has a number of over 1000 digits)",
    ),
    "two objects": (
        json.dumps(stream()) * 2,
        "not JSON, or more than one object on a line "
        "(nor is JSON read that nests over 1000 levels or has a number of over 1000 digits)",
    ),
    "two objects and a comma": (
        f"{json.dumps(stream())},{json.dumps(stream())}",
        "more than one JSON value on a line",
    ),
    "number": ("5", "JSON, but no MongoDB message: no object"),
    "blank": (" ", "empty line"),
    "another object": (
        {"database": "shop"},
        "JSON, but no MongoDB change: no `operationType`, and no `op` of Debezium",
    ),
    "unknown operation": (stream("teleport"), "unknown MongoDB operation teleport"),
    "unknown op": (debezium("x"), "unknown MongoDB operation x"),
    "an op of Debezium in a stream": (stream("c"), "unknown MongoDB operation c"),
    "no ns": (stream(ns=...), NO_NS),
    "ns text": (stream(ns="shop.o"), NO_NS),
    "no coll": (stream("drop", ns={"db": "shop"}), NO_NS),
    "no clusterTime": (stream(clusterTime=...), NO_TIME),
    "clusterTime text": (stream(clusterTime="now"), NO_TIME),
    "clusterTime late": (stream(clusterTime={"$timestamp": {"t": 2**40, "i": 1}}), NO_TIME),
    "ordinal late": (stream(clusterTime={"$timestamp": {"t": T, "i": 2**31}}), NO_TIME),
    "no source": (debezium("c", source=None, after={"_id": 1}), NO_NS),
    "no ord": (
        debezium("c", source={"db": "shop", "collection": "o", "ts_ms": 1}, after={"_id": 1}),
        NO_TIME,
    ),
    "no documentKey": (stream(documentKey=...), NO_KEY),
    "documentKey without _id": (stream(documentKey={"id": 1}), NO_KEY),
    "key null": (stream(documentKey={"_id": None}), NO_KEY),
    "documentKey text": (stream(documentKey="x"), NO_KEY),
    "Debezium without key": (debezium("d"), NO_KEY),
    "Debezium with an invalid key": ((debezium("d"), "{"), NO_KEY),
    "no token": (
        stream(_id=...),
        "no resume token (`_id`), which distinguishes events of one time",
    ),
    "fragment": (
        stream(splitEvent={"fragment": 1, "of": 2}),
        "a part of an event that $changeStreamSplitLargeEvent split",
    ),
}


def test_what_cannot_be_read_gets_a_reason(spark):
    rows = heads(spark, [message for message, _ in BAD.values()])
    found = {name: row.reject_reason for name, row in zip(BAD, rows, strict=True)}
    assert found == {name: reason for name, (_, reason) in BAD.items()}
    assert all(row.op is None for row in rows)


# Values

RELAXED = {
    "_id": {"$oid": OID},
    "status": "paid",
    "amount": {"$numberDecimal": "9.90"},
    "n": 9223372036854775807,
    "ratio": 0.5,
    "paid": True,
    "at": {"$date": "2026-03-02T02:00:00.120Z"},
    "address": {"city": "Porto", "zip": "4000"},
    "tags": ["a", {"b": 1}],
    "raw": {"$binary": {"base64": "AQID", "subType": "00"}},
    "extra": {"deep": [1, None]},
    "note": None,
}
CANONICAL = RELAXED | {
    "n": {"$numberLong": "9223372036854775807"},
    "ratio": {"$numberDouble": "0.5"},
    "at": {"$date": {"$numberLong": "1772416800120"}},
    "tags": ["a", {"b": {"$numberInt": "1"}}],
}
STRICT = RELAXED | {  # as Debezium writes documents
    "n": {"$numberLong": "9223372036854775807"},
    "at": {"$date": 1772416800120},
    "raw": {"$binary": "AQID", "$type": "00"},
}
DATA = {
    "id": OID,
    "status": "paid",
    "amount": Decimal("9.90"),
    "n": 2**63 - 1,
    "ratio": 0.5,
    "paid": 1,
    "at": "2026-03-02 02:00:00.120000",
    "city": "Porto",
    "tags": '["a",{"b":1}]',
    "raw": "AQID",
}
REST = {"address": RELAXED["address"], "extra": RELAXED["extra"], "note": None}


def test_an_insert_in_every_form_of_extended_json(spark):
    oid = {"_id": {"$oid": OID}}
    messages: list[Message] = [
        stream(fullDocument=RELAXED, documentKey=oid),
        stream(fullDocument=CANONICAL, documentKey=oid),
        stream("replace", fullDocument=RELAXED, documentKey=oid),
        (debezium("c", after=STRICT), key({"$oid": OID})),
        (debezium("u", after=STRICT), key({"$oid": OID})),  # a replacement
    ]
    for number, row in enumerate(rows_of(spark, messages)):
        canonical = {"tags": '["a",{"b":{"$numberInt":"1"}}]'} if number == 1 else {}
        assert row.image_reason is None
        assert row.data.asDict() == DATA | canonical
        assert (row.before, row.known_columns, row.document_patch) == (None, None, None)
        assert json.loads(row.document_rest) == REST


# declared type, value, parsed value or the end of the reason
VALUES: list[tuple[str, Any, Any]] = [
    ("varchar(9)", {"$numberLong": "5"}, "5"),
    ("varchar(9)", 5, "5"),
    ("varchar(9)", True, "true"),
    ("varchar(9)", "true", "true"),
    ("varchar(9)", "", ""),
    ("varchar(9)", '{"$oid":"x"}', '{"$oid":"x"}'),
    ("text", {"b": 1, "a": [1.0]}, '{"a":[1],"b":1}'),
    ("text", {"$timestamp": {"t": 5, "i": 1}}, '{"$timestamp":{"i":1,"t":5}}'),
    ("text", {"$date": "2026-03-02T02:00:00Z"}, "2026-03-02 02:00:00.000000"),
    ("text", "2026-03-02T02:00:00Z", "2026-03-02T02:00:00Z"),
    ("json", "x", '"x"'),
    ("json", 5, "5"),
    ("json", {"$numberDecimal": "1.10"}, '{"$numberDecimal":"1.10"}'),
    ("json", None, None),
    (
        "char(36)",
        {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}},
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
    ),
    (
        "char(36)",
        {"$uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"},
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
    ),
    ("binary(16)", {"$uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"}, "AAECAwQFBgcICQoLDA0ODw=="),
    ("binary(3)", "AQID", "= AQID is no binary(3)"),
    ("int", {"$numberInt": "-5"}, -5),
    ("int", {"$numberDouble": "3.0"}, 3),
    ("int", 3.0, 3),
    ("int", 1.5, "= 1.5 is no int"),
    ("int", "3", "= 3 is no int"),
    ("int", {"a": 1}, '= {"a":1} is no int'),
    ("bigint", 2**63, "= 9223372036854775808 is no bigint"),
    ("bigint", 1e30, "= 1.0E30 is no bigint"),
    ("bigint unsigned", {"$numberDecimal": "18446744073709551615"}, Decimal(2**64 - 1)),
    ("bit(1)", False, Decimal(0)),
    ("tinyint", "true", "= true is no tinyint"),
    ("decimal(12,2)", 9.9, Decimal("9.90")),
    ("decimal(12,2)", {"$numberDecimal": "1E+3"}, Decimal(1000)),
    ("decimal(12,2)", {"$numberDecimal": "NaN"}, "= NaN is no decimal(12,2)"),
    ("decimal(12,2)", {"$numberDouble": "Infinity"}, "= Infinity is no decimal(12,2)"),
    ("decimal(12,2)", True, "= true is no decimal(12,2)"),
    ("double", {"$numberDouble": "-1E+300"}, -1e300),
    ("double", {"$numberDouble": "Infinity"}, float("inf")),
    ("double", {"$numberInt": "2"}, 2.0),
    ("double", "2", "= 2 is no double"),
    ("timestamp", "2026-03-02T10:00:00+08:00", "2026-03-02 02:00:00.000000"),
    ("timestamp", "2026-03-02 02:00:00", "2026-03-02 02:00:00"),
    ("timestamp", {"$date": {"$numberLong": "-1"}}, "1969-12-31 23:59:59.999000"),
    ("timestamp", {"$date": {"$numberLong": str(2**62)}}, f'{2**62}"}}}} is no timestamp'),
    ("timestamp", 1772416800000, "= 1772416800000 is no timestamp"),
    ("datetime", "2026-03-02 10:00:00", "2026-03-02 10:00:00"),
    (
        "datetime",
        {"$date": "2026-03-02T02:00:00Z"},
        " is no datetime, but an instant: declare the column timestamp",
    ),
    ("date", {"$date": "2026-03-02T00:00:00Z"}, "2026-03-02"),
    ("date", {"$date": "2026-03-01T16:00:00Z"}, "= 2026-03-01 16:00:00.000000 is no date"),
    ("date", "2026-03-02", "2026-03-02"),
    ("time", "10:00:00", "10:00:00"),
]


@pytest.mark.in_turn
def test_values_by_their_declared_types(spark):
    columns = {"_id": "int"} | {f"c{at}": kind for at, (kind, *_) in enumerate(VALUES)}
    declaration = declared(columns, primary_key=["_id"], aliases={})
    events: list[Message] = [
        stream(fullDocument={"_id": 1, f"c{at}": value}) for at, (_, value, _) in enumerate(VALUES)
    ]
    rows = rows_of(spark, events, declaration)
    for at, (row, (kind, value, expected)) in enumerate(zip(rows, VALUES, strict=True)):
        found = row.data[f"c{at}"]
        case = (kind, value)
        if row.image_reason is None:
            assert found == expected, case
            assert type(found) is type(expected), case
        else:
            assert row.image_reason.startswith(f"data.c{at} = "), case
            assert row.image_reason.endswith(expected), (case, row.image_reason)
        others = {k: v for k, v in row.data.asDict().items() if k not in ("_id", f"c{at}")}
        assert set(others.values()) == {None}
        assert row.data["_id"] == 1


def test_the_instant_of_a_timestamp_column_is_the_value(spark):
    kind = declared().columns["at"]
    row = one_row(spark, stream(fullDocument=RELAXED))
    frame = spark.createDataFrame([(row.data["at"],)], "at string")
    assert kind.misfit(F.col("at")) is not None
    (found,) = frame.select(kind.value(F.col("at"), "+08:00"), kind.misfit(F.col("at"))).collect()
    assert (found[0], found[1]) == (datetime(2026, 3, 2, 2, 0, 0, 120000), False)


# What changed


def test_an_update_holds_only_its_own_fields(spark):
    late = {"_id": 1, "status": "later", "n": 99, "extra": "later"}
    patch = {"updatedFields": {"status": "paid", "x.y": 2}, "removedFields": ["amount", "z"]}
    messages: list[Message] = [
        update(patch["updatedFields"], patch["removedFields"]),
        update(patch["updatedFields"], patch["removedFields"], fullDocument=late),
        update(patch["updatedFields"], patch["removedFields"], fullDocument=None),
        (debezium("u", updateDescription=patch), key()),
        (debezium("u", updateDescription=patch, after=late), key()),
        ({"schema": {}, "payload": debezium("u", updateDescription=patch)}, key()),
    ]
    for row in rows_of(spark, messages):
        reported = {name: item for name, item in row.data.asDict().items() if item is not None}
        assert reported == {"id": "1", "status": "paid"}
        assert sorted(row.known_columns) == ["amount", "status"]
        assert (row.before, row.image_reason, row.document_rest) == (None, None, None)
        assert json.loads(row.document_patch) == patch | {"truncatedArrays": []}


def test_a_post_image_is_the_whole_document(spark):
    event = update({"tags.0": "b"}, fullDocument=RELAXED | {"_id": 1})
    message = debezium(
        "u", updateDescription={"updatedFields": '{"tags.0": "b"}'}, after=STRICT | {"_id": 1}
    )
    for option in ("whenAvailable", "required"):
        for row in rows_of(spark, [event, (message, key())], declared(full_document=option)):
            assert row.data.asDict() == DATA | {"id": "1"}
            assert (row.image_reason, row.known_columns, row.document_patch) == (None,) * 3
            assert json.loads(row.document_rest) == REST


def test_an_update_without_post_image(spark):
    event = update({"status": "x"}, fullDocument=None)
    reported = one_row(spark, event, declared(full_document="whenAvailable"))
    assert (reported.known_columns, reported.data.status, reported.image_reason) == (
        ["status"],
        "x",
        None,
    )
    refused = one_row(spark, event, declared(full_document="required"))
    assert refused.image_reason == (
        "an update without post-image, which the option full_document requires"
    )


# updated fields, removed fields, cut arrays -> city, tags, changed fields or the columns partly set
PATHS: list[tuple[dict[str, Any], list[str], list[str], tuple]] = [
    ({"address.city": "A"}, [], [], ("A", None, ["city"])),
    ({"address": {"city": "B", "zip": "1"}}, [], [], ("B", None, ["city"])),
    ({"address": {"zip": "1"}}, [], [], (None, None, ["city"])),
    ({"address": "a text"}, [], [], (None, None, ["city"])),
    ({"address": None}, [], [], (None, None, ["city"])),
    ({"address.zip": "1"}, [], [], (None, None, [])),
    ({"addresses": 1, "address.cityname": 1}, [], [], (None, None, [])),
    ({"town": "T"}, [], [], ("T", None, ["city"])),
    ({}, ["address"], [], (None, None, ["city"])),
    ({}, ["address.city"], [], (None, None, ["city"])),
    ({}, ["address.zip"], [], (None, None, [])),
    ({"address.city.x": 1}, [], [], ("city",)),
    ({}, ["address.city.x"], [], ("city",)),
    ({"tags": [1]}, [], [], (None, "[1]", ["tags"])),
    ({"tags": None}, [], [], (None, None, ["tags"])),
    ({"tags.0": 1}, [], [], ("tags",)),
    ({"tags.0": 1, "address.city.x": 1}, [], [], ("city, tags",)),
    ({}, [], ["tags"], ("tags",)),
    ({}, [], ["tags.1.more"], ("tags",)),
    ({}, [], ["other"], (None, None, [])),
    ({"other.0": 1}, [], [], (None, None, [])),
    ({}, [], [], (None, None, [])),
]


def test_paths_into_nested_documents(spark):
    events: list[Message] = [
        update(updated, removed, [{"field": item, "newSize": 1} for item in cut])
        for updated, removed, cut, _ in PATHS
    ]
    for row, (*case, expected) in zip(rows_of(spark, events), PATHS, strict=True):
        if len(expected) == 1:
            assert row.image_reason == PARTLY.format(expected[0]), case
        else:
            assert row.image_reason is None, case
            assert (row.data.city, row.data.tags, row.known_columns) == expected, case


def test_a_key_that_is_a_document_and_a_shard_key(spark):
    declaration = declared(
        {"user": "int", "day": "date", "region": "varchar(9)", "n": "int"},
        primary_key=["user", "day", "region"],
        aliases={"user": "_id.user", "day": "_id.day"},
    )
    document_id = {"user": 5, "day": "2026-03-02"}
    shard = {"_id": document_id, "region": "eu"}
    messages: list[Message] = [
        update({"n": 1}, documentKey=shard),
        (
            debezium("u", updateDescription={"updatedFields": '{"n": 1}'}),
            json.dumps({"id": json.dumps(shard)[len('{"_id": ') : -1]}),
        ),
        stream("delete", documentKey=shard),
    ]
    rows = rows_of(spark, messages, declaration)
    assert [tuple(row.data) for row in rows] == [(5, "2026-03-02", "eu", 1)] * 2 + [
        (5, "2026-03-02", "eu", None)
    ]
    assert [row.known_columns for row in rows] == [["n"], ["n"], []]


LIKE_ANOTHER = " is a text that reads like an id of another type: where all ids are texts, set the "
IDS = [  # _id, its text, and whether one of another type reads like it
    (1, "1", False),
    ("1", "1", True),
    ("-2.50", "-2.50", True),
    ("NaN", "NaN", True),
    ({"$oid": "65a1b2c3d4e5f60718293a4b"}, "65a1b2c3d4e5f60718293a4b", False),
    ("65a1b2c3d4e5f60718293a4b", "65a1b2c3d4e5f60718293a4b", True),
    ("65A1b2c3d4e5f60718293a4b", "65A1b2c3d4e5f60718293a4b", False),
    (
        {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"},
        "00112233-4455-6677-8899-aabbccddeeff",
        False,
    ),
    ("00112233-4455-6677-8899-aabbccddeeff", "00112233-4455-6677-8899-aabbccddeeff", True),
    ({"$date": "2026-03-01T16:00:00Z"}, "2026-03-01 16:00:00.000000", False),
    ("2026-03-01 16:00:00.000000", "2026-03-01 16:00:00.000000", True),
    (True, "true", False),
    ("true", "true", True),
    ({"user": 5}, '{"user":5}', False),
    ('{"user":5}', '{"user":5}', True),
    ("ord-1", "ord-1", False),
    ("", "", False),
]


def test_ids_that_read_alike_are_refused_or_declared(spark):
    events = [stream(documentKey={"_id": value}, fullDocument={"_id": value}) for value, *_ in IDS]
    for row, (value, text, is_like) in zip(rows_of(spark, events), IDS, strict=True):
        reason = row.image_reason
        assert (row.data.id, reason is not None) == (text, is_like), value
        assert not is_like or reason.startswith(f"data.id = {text}{LIKE_ANOTHER}"), reason
    for row, (value, text, _) in zip(
        rows_of(spark, events, declared(ids="texts")), IDS, strict=True
    ):
        refused = None if isinstance(value, str) else "is no text, which the option ids requires"
        assert row.image_reason == (refused and f"data.id = {text} {refused}")
    as_json = declared(COLUMNS | {"id": "json"})
    for row, (value, *_) in zip(rows_of(spark, events, as_json), IDS, strict=True):
        assert (json.loads(row.data.id), row.image_reason) == (value, None)
    binary = {"$binary": {"base64": "AQID", "subType": "00"}}
    (row,) = rows_of(spark, [stream("delete", documentKey={"_id": binary})])
    assert "AQID is binary, which may read like a text" in row.image_reason


def test_a_delete_has_its_key_or_what_it_deleted(spark):
    gone = RELAXED | {"_id": 1}
    messages: list[Message] = [
        stream("delete"),
        (debezium("d"), key()),
        stream("delete", fullDocumentBeforeChange=None),
        stream("delete", fullDocumentBeforeChange=gone),
        (debezium("d", before=STRICT | {"_id": 1}), key()),
    ]
    rows = rows_of(spark, messages)
    for row in rows[:3]:
        assert {k: v for k, v in row.data.asDict().items() if v is not None} == {"id": "1"}
        assert (row.before, row.known_columns) == (None, [])
    for row in rows[3:]:
        assert row.data == row.before
        assert row.before.asDict() == DATA | {"id": "1"}
        assert row.known_columns is None
    assert {(row.image_reason, row.document_rest, row.document_patch) for row in rows} == {
        (None, None, None)
    }


def test_a_pre_image_completes_an_update(spark):
    event = update({"status": "x"}, ["address", "n"], fullDocumentBeforeChange=RELAXED | {"_id": 1})
    row = one_row(spark, event)
    assert row.before.asDict() == DATA | {"id": "1"}
    assert row.data.asDict() == DATA | {"id": "1", "status": "x", "city": None, "n": None}
    assert (row.image_reason, row.known_columns, row.document_rest) == (None, None, None)
    assert json.loads(row.document_patch)["removedFields"] == ["address", "n"]
    debezium_row = one_row(
        spark,
        (
            debezium("u", updateDescription={"updatedFields": "{}"}, before=STRICT | {"_id": 1}),
            key(),
        ),
    )
    assert debezium_row.before == row.before


def test_fields_that_are_missing_are_null(spark):
    row = one_row(spark, stream(fullDocument={"_id": 1}), declared(columns_of_interest=["status"]))
    assert (row.data.status, row.image_reason, row.document_rest) == (None, None, "{}")


REFUSED: dict[str, tuple[Message, str]] = {
    "insert without document": (stream(), "no `fullDocument` (Debezium: no `after`)"),
    "replace without document": (stream("replace"), "no `fullDocument` (Debezium: no `after`)"),
    "u of Debezium without anything": (
        (debezium("u"), key()),
        "no `fullDocument` (Debezium: no `after`)",
    ),
    "update without description": (
        stream("update"),
        "an update without `updateDescription`, or one that can't be read",
    ),
    "description that is a text": (
        stream("update", updateDescription="x"),
        "an update without `updateDescription`, or one that can't be read",
    ),
    "patch of the oplog": (
        (debezium("u", patch='{"$set": {"n": 1}}'), key()),
        "a `patch` of the oplog: let Debezium read change streams (version 2 and later)",
    ),
    "document that is a text": (
        stream(fullDocument="x"),
        "a document that can't be read: no object, or a name twice in it",
    ),
    "a name twice": (
        json.dumps(stream(fullDocument={"_id": 1, "tags": 0})).replace(
            '"tags": 0', '"tags": {"a": 1, "a": 2}'
        ),
        "a document that can't be read: no object, or a name twice in it",
    ),
    "invalid pre-image": (
        stream("delete", fullDocumentBeforeChange=[1]),
        "a document that can't be read: no object, or a name twice in it",
    ),
    "misfits": (
        update({"n": "x", "amount": True}, fullDocumentBeforeChange={"_id": 1, "paid": "no"}),
        "data.amount = true is no decimal(12,2); data.n = x is no bigint; "
        "before.paid = no is no tinyint",
    ),
}


def test_images_that_cannot_be_had_are_refused_with_the_reason(spark):
    rows = rows_of(spark, [message for message, _ in REFUSED.values()])
    found = {name: row.image_reason for name, row in zip(REFUSED, rows, strict=True)}
    assert found == {name: reason for name, (_, reason) in REFUSED.items()}


def test_the_option_is_checked():
    with pytest.raises(ValueError, match="full_document"):
        declared(full_document="updateLookup")


# Typed rows


def test_typed_rows_say_what_is_known(spark):
    old = {"_id": 1, "status": "old", "at": {"$date": "2026-03-01T00:00:00Z"}}
    shown = {"_id": 1, "status": "new", "at": {"$date": "2026-03-02T20:00:00Z"}, "z": [1]}
    events = [
        stream(fullDocument=shown),
        update({"status": "x", "z.0": 2}, _id={"_data": token(key="01")}),
        update({"status": "x"}, _id={"_data": token(key="02")}, fullDocumentBeforeChange=old),
        stream("delete", _id={"_data": token(key="03")}),
        stream("delete", _id={"_data": token(key="04")}, fullDocumentBeforeChange=old),
        update({"tags.0": 1}, _id={"_data": token(key="05")}),
    ]
    columns = {"id": "int", "status": "varchar(9)", "at": "timestamp", "tags": "json"}
    declaration = declared(columns, cut_column="at", aliases={"id": "_id"})

    rows = typed(spark, [json.dumps(event) for event in events], declaration)

    assert [row.reject_reason for row in rows] == [None] * 5 + [PARTLY.format("tags")]
    was = (1, "old", datetime(2026, 3, 1), None, None)
    found = [
        (
            (row.id, row.status, row.before and tuple(row.before), str(row.cut_date)[5:]),
            (row.known_columns, row.metadata_changes, row.document_rest),
        )
        for row in rows
    ]
    assert found == [
        # 20:00 in UTC is the next day in the business zone
        ((1, "new", None, "03-03"), (None, None, '{"z":[1]}')),
        ((1, "x", None, "03-02"), (["status"], None, None)),
        ((1, "x", was, "03-01"), (None, ["status"], None)),
        ((1, None, None, "03-02"), ([], None, None)),
        ((1, "old", was, "03-02"), (None, None, None)),
        ((None, None, None, ""), (None, None, None)),
    ]
    assert json.loads(rows[1].document_patch)["updatedFields"] == {"status": "x", "z.0": 2}
    assert len({row.unique_key for row in rows}) == 6


def test_other_formats_have_no_extra_columns(spark):
    names = {}
    for format_name in ("mongodb", "maxwell", "canal", "debezium"):
        frame = typed_frame(spark, [], source({"id": "int"}, format=format_name))
        names[format_name] = frame.columns
    extra = list(EXTRA)
    assert names["mongodb"][3:6] == extra
    assert [item for item in names["mongodb"] if item not in extra] == names["maxwell"]
    assert names["maxwell"] == names["canal"] == names["debezium"]


def test_a_column_may_not_be_called_as_one_of_the_format():
    with pytest.raises(ValueError, match="`document_rest`: the typed row has a column"):
        source({"id": "int", "document_rest": "json"}, format="mongodb")
    assert source({"id": "int", "document_rest": "json"}).columns.keys() == {"id", "document_rest"}


# The latest document, folded from the rows

FOLD_COLUMNS = {
    "_id": "int",
    "status": "varchar(9)",
    "n": "bigint",
    "city": "varchar(9)",
    "tags": "json",
}
FOLD_META = {"primary_key": ["_id"], "aliases": {"city": "address.city"}}
FOLD = """
with changes as (
    select
        data._id as _id,
        op,
        data,
        known_columns,
        struct(binlog_position, row_number) as place
    from rows
),

columns_known as (
    select
        _id,
        max(place) as last,
        max_by(op, place) as last_op,
        -- a column is known by each row but updates of other columns only; a delete has
        -- that nothing is left
        {columns}
    from changes
    group by _id
)

select _id, {names} from columns_known where last_op <> 'delete'
"""


def fold_sql() -> str:
    names = [name for name in FOLD_COLUMNS if name != "_id"]
    reported = "op <> 'update' or known_columns is null or array_contains(known_columns, '{0}')"
    columns = [
        f"max_by(if(op = 'delete', null, data.{name}), place) "
        f"filter (where {reported.format(name)}) as {name}"
        for name in names
    ]
    return FOLD.format(columns=",\n        ".join(columns), names=", ".join(names))


class Collection:
    """A collection, in plain Python, that writes down its changes."""

    def __init__(self, rng: random.Random, debezium_s: bool, exact: bool) -> None:
        self.rng, self.debezium_s, self.exact = rng, debezium_s, exact
        self.documents: dict[int, dict[str, Any]] = {}
        self.log: list[Message] = []
        self.t, self.i, self.place = T, 0, 0
        self.in_transaction = 0
        self.pending: list[tuple[dict[str, Any], int]] = []

    def document(self, document_id: int) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {"_id": document_id}
        if rng.random() < 0.8:
            made["status"] = rng.choice(["new", "paid", None])
        if rng.random() < 0.8:
            made["n"] = rng.randint(0, 9)
        if rng.random() < 0.7:
            made["address"] = {"city": rng.choice("ABC"), "zip": rng.choice("12")}
        if rng.random() < 0.5:
            made["tags"] = [rng.randint(0, 3) for _ in range(rng.randint(0, 2))]
        return made | {"other": rng.randint(0, 9)}

    def change(self) -> None:
        rng = self.rng
        document_id = rng.randint(1, 6)
        present = self.documents.get(document_id)
        if present is None:
            self.documents[document_id] = self.document(document_id)
            self.write("insert", document_id, fullDocument=self.copy(document_id))
        elif rng.random() < 0.15:
            del self.documents[document_id]
            before = {"fullDocumentBeforeChange": present} if rng.random() < 0.3 else {}
            self.write("delete", document_id, **before)
        elif rng.random() < 0.2:
            self.documents[document_id] = self.document(document_id)
            self.write("replace", document_id, fullDocument=self.copy(document_id))
        else:
            self.update(document_id, present)

    def copy(self, document_id: int) -> dict[str, Any]:
        return json.loads(json.dumps(self.documents[document_id]))

    def update(self, document_id: int, present: dict[str, Any]) -> None:
        rng = self.rng
        updated: dict[str, Any] = {}
        removed: list[str] = []
        for name in rng.sample(["status", "n", "address", "tags", "other"], rng.randint(1, 3)):
            if name in present and rng.random() < 0.25:
                del present[name]
                removed.append(name)
            elif name == "address" and name in present and rng.random() < 0.7:
                part = rng.choice(["city", "zip"])
                if part in present[name] and rng.random() < 0.3:
                    del present[name][part]
                    removed.append(f"address.{part}")
                else:
                    present[name][part] = rng.choice("DEF")
                    updated[f"address.{part}"] = present[name][part]
            else:
                fresh = self.document(0)
                if name in fresh:
                    present[name] = updated[name] = fresh[name]
        patch = {"updatedFields": json.loads(json.dumps(updated)), "removedFields": removed}
        fields: dict[str, Any] = {"updateDescription": patch}
        if self.exact:
            fields["fullDocument"] = self.copy(document_id)
        elif rng.random() < 0.5:  # looked up: anything that comes later
            fields["fullDocument"] = self.document(document_id)
        self.write("update", document_id, **fields)

    def write(self, kind: str, document_id: int, **fields: Any) -> None:
        rng = self.rng
        if self.in_transaction:
            self.in_transaction -= 1
            self.place += 1
        else:
            self.t, self.i = (self.t + 1, 1) if rng.random() < 0.2 else (self.t, self.i + 1)
            self.place, self.in_transaction = 0, rng.choice([0, 0, 3, 140])
            self.session = self.in_transaction
        if not self.debezium_s:
            data = token(self.t, self.i, self.place, f"{document_id:02X}")
            time = {"$timestamp": {"t": self.t, "i": self.i}}
            more = {"txnNumber": 1} if self.session else {}
            event = stream(
                kind,
                _id={"_data": data},
                clusterTime=time,
                documentKey={"_id": document_id},
                **more,
                **fields,
            )
            self.log.append(event)
            return
        origin = {"db": "shop", "collection": "o", "ts_ms": self.t * 1000, "ord": self.i}
        message: dict[str, Any] = {}
        if self.session:
            origin["txnNumber"] = 1
            message["transaction"] = {"total_order": self.place + 1}
        renamed = {"fullDocument": "after", "fullDocumentBeforeChange": "before"}
        message |= {renamed.get(name, name): field for name, field in fields.items()}
        op = {"insert": "c", "delete": "d"}.get(kind, "u")
        self.log.append((debezium(op, source=origin, **message), key(document_id)))

    def latest(self) -> dict[int, tuple]:
        return {
            document["_id"]: (
                document.get("status"),
                document.get("n"),
                document.get("address", {}).get("city"),
                json.dumps(document["tags"], separators=(",", ":")) if "tags" in document else None,
            )
            for document in self.documents.values()
        }


@pytest.mark.in_turn
@pytest.mark.parametrize("debezium_s", [False, True])
@pytest.mark.parametrize("full_document", ["lookup", "required"])
def test_the_latest_documents_of_random_histories(spark, debezium_s, full_document):
    declaration = declared(FOLD_COLUMNS, full_document=full_document, **FOLD_META)
    for _ in range(2):
        seed = random.SystemRandom().randrange(10**6)
        print(f"seed {seed}")
        rng = random.Random(seed)
        collection = Collection(rng, debezium_s, exact=full_document == "required")
        for _ in range(rng.choice([3, 60, 120])):
            collection.change()
        sent = [*collection.log, *rng.sample(collection.log, len(collection.log) // 3)]
        rng.shuffle(sent)
        binlog = enveloped(spark, sent)
        rows = images(binlog.where("reject_reason is null"), declaration).localCheckpoint()
        assert rows.where("image_reason is null").count() == len(sent)
        identity = rows.select("binlog_position", "row_number").distinct()
        assert identity.count() == len(collection.log)
        rows.createOrReplaceTempView("rows")
        found = {row[0]: tuple(row)[1:] for row in spark.sql(fold_sql()).collect()}
        assert found == collection.latest()


def test_a_change_without_the_pre_image_that_is_required_is_refused(spark):
    """As where pre-images stop midway: they expire, or somebody turns them off."""
    before = {"_id": 1, "status": "new", "n": 1}
    changes: list[dict[str, Any]] = [
        stream(fullDocument=before),
        update({"n": 2}, fullDocumentBeforeChange=before),
        update({"n": 3}),
        update({"n": 3}, fullDocumentBeforeChange=None),
        stream("replace", fullDocument=before),
        stream("delete"),
        stream("delete", fullDocumentBeforeChange=before),
    ]
    reason = "an update or delete without pre-image, which the option pre_images requires"
    wanted = [None, None, reason, reason, reason, reason, None]
    rows = rows_of(spark, changes, declared(pre_images="required"))
    assert [row.image_reason for row in rows] == wanted
    assert [row.image_reason for row in rows_of(spark, changes)] == [None] * 7


def test_a_table_of_before_the_option_pre_images_is_of_the_same_declaration():
    before = made_by(declared(), "UTC", 24)
    assert before["options"] == {"full_document": "lookup", "ids": "any"}
    required = made_by(declared(pre_images="required"), "UTC", 24)
    with pytest.raises(ValueError, match=r"options\.pre_images was not declared"):
        check_made_by("ods_o", before, required)
