"""Images of MongoDB documents: values, updates, what is refused."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.mongodb import EXTRA, images
from python_udfs.ingestion.tables.source import TableSource
from tests.support.lines import source, typed, typed_frame
from tests.support.mongodb_events import Message, debezium, declared, enveloped, key, stream, token

OID = "65f49506238b3bbcc1cb20c0"
PARTLY = (
    "the update sets a part of {}, whose value isn't known from it (keep post-images and declare "
    "them by the option full_document, or declare the parts)"
)


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


def test_an_update_tells_only_its_own_fields(spark):
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
