"""Change streams of MongoDB and Debezium's messages of them."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from pyspark.sql import Row, SparkSession

from python_udfs.ingestion.formats.mongodb import table_moves
from tests.support.mongodb_events import (
    Message,
    T,
    debezium,
    declared,
    enveloped,
    key,
    stream,
    token,
)

NO_PLACE = "the place in its transaction isn't known: "


def heads(spark: SparkSession, messages: list[Message]) -> list[Row]:
    return sorted(enveloped(spark, messages).collect(), key=lambda row: row.message_offset)


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


def test_events_of_one_time_on_several_shards_are_told_apart(spark):
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
