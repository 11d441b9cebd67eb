"""The envelope of MongoDB's changes: operation, collection, position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.json_lines import as_list, no_single_object
from python_udfs.ingestion.formats.mongodb.documents import event_of, event_schema, key_document
from python_udfs.ingestion.formats.mongodb.values import from_millis, instant_of, number_text
from python_udfs.ingestion.formats.statements import body_of, name_in, object_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.formats.ddl import Move

STREAM_OPS = {
    "insert": "insert",
    "update": "update",
    "replace": "update",
    "delete": "delete",
    "drop": "drop",
    "rename": "rename",
    "dropDatabase": "ddl",
    "create": "ddl",
    "createIndexes": "ddl",
    "dropIndexes": "ddl",
    "modify": "ddl",
    "shardCollection": "ddl",
    "reshardCollection": "ddl",
    "refineCollectionShardKey": "ddl",
    "invalidate": "control",
}
DEBEZIUM_OPS = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot"}
_HEAD = {
    "operationType": "string",
    "_id": "struct<_data string>",
    "ns": "struct<db string, coll string>",
    "clusterTime": "struct<`$timestamp` struct<t bigint, i bigint>>",
    "wallTime": "variant",
    "documentKey": "string",
    "txnNumber": "variant",
    "splitEvent": "string",
    "op": "string",
    "source": "struct<db string, `collection` string, ts_ms bigint, ord bigint, tord bigint, "
    "txnNumber bigint, wallTime bigint>",
    "transaction": "struct<total_order bigint>",
    "after": "string",
    "before": "string",
    "status": "string",
    "id": "string",
}
# a timestamp; version 0, or version 1 or 2 and the token type of an event; the place in the
# transaction, a number of up to four bytes; then a boolean, or in version 0 the collection
_TOKEN = (
    r"(?i)^82[0-9A-F]{16}(?:29|2B0[24]2C0100)"
    r"(29|2B[0-9A-F]{2}|2C[0-9A-F]{4}|2D[0-9A-F]{6}|2E[0-9A-F]{8})(?:6E|6F|5A)"
)
ORDINALS = 2**31  # binlog_position has so many for each second


def envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the envelope's columns, from their `payload` (and `message_key`)."""
    from pyspark.sql import functions as F

    frame = messages.withColumn("_listed", as_list(F.col("payload"), event_schema(_HEAD)))
    frame = frame.withColumn("_head", F.when(F.size("_listed") == 1, F.col("_listed")[0]))
    frame = frame.withColumn("_head", event_of(F.col("_head"), _HEAD))
    kind = F.coalesce("_head.operationType", "_head.op")
    of_stream = F.col("_head.operationType").isNotNull()
    boundary = F.col("_head.status").isin("BEGIN", "END") & F.col("_head.id").isNotNull()
    # Debezium's tombstone behind a delete, and where its transactions begin and end
    op = F.when((F.trim("payload") == "null") | boundary, F.lit("control"))
    for known, isnt_other in ((STREAM_OPS, of_stream), (DEBEZIUM_OPS, ~of_stream)):
        for name, code in known.items():
            op = op.when(isnt_other & (kind == name), F.lit(code))
    stamp = F.col("_head.clusterTime")["$timestamp"]
    seconds = F.when(of_stream, stamp["t"]).otherwise(F.expr("_head.source.ts_ms div 1000"))
    ordinal = F.when(of_stream, stamp["i"]).otherwise(F.col("_head.source.ord"))
    wall = F.when(of_stream, instant_of(F.col("_head.wallTime"))).otherwise(
        from_millis(F.nullif("_head.source.wallTime", F.lit(0)))
    )
    key = key_document(F.col("_head"))["_id"]
    token = F.col("_head._id._data")
    place = F.regexp_extract(token, _TOKEN, 1)
    frame = frame.select(
        *messages.columns,
        "_listed",
        "_head",
        kind.alias("_kind"),
        op.alias("op"),
        F.coalesce("_head.ns.db", "_head.source.db").alias("database_name"),
        F.coalesce("_head.ns.coll", "_head.source.collection").alias("table_name"),
        F.when(seconds.between(0, 2**32 - 1), seconds).alias("_seconds"),
        F.when(ordinal.between(0, ORDINALS - 1), ordinal).alias("_ordinal"),
        wall.alias("_wall"),
        F.coalesce(
            number_text(F.col("_head.txnNumber")).try_cast("bigint"), "_head.source.txnNumber"
        )
        .cast("bigint")
        .alias("xid"),
        key.alias("_key"),
        F.when(
            of_stream & (place != ""),
            F.shiftright(F.coalesce(_from_hex(F.substr(place, F.lit(3))), F.lit(0)), 1),
        )
        .when(~of_stream, F.coalesce("_head.transaction.total_order", "_head.source.tord"))
        .alias("_place"),
        F.when(of_stream, token)
        .otherwise(
            F.concat_ws("/", "_head.source.db", "_head.source.collection", kind, F.to_json(key))
        )
        .alias("_identity"),
    )
    digest = F.md5(F.col("_identity").cast("binary"))
    # `_place` has 31 bits, so that the sum has at most 63
    ordered = F.when(
        F.col("_place").between(0, 2**31 - 1),
        F.col("_place") * 2**32 + _from_hex(F.left(digest, F.lit(8))),
    )
    frame = frame.withColumn(
        "row_number",
        F.when(F.col("_place").isNotNull(), ordered).when(
            F.col("xid").isNull(), _from_hex(F.left(digest, F.lit(15)))
        ),
    )
    of_row = F.col("op").isin("insert", "update", "delete", "snapshot")
    of_table = of_row | F.col("op").isin("drop", "rename")
    no_object = no_single_object(F.col("_listed"), "MongoDB")
    reason = (
        F.when(F.col("op") == "control", None)
        .when(no_object.isNotNull(), no_object)
        .when(
            F.col("_kind").isNull(),
            F.lit("JSON, but no MongoDB change: no `operationType`, and no `op` of Debezium"),
        )
        .when(
            F.col("op").isNull(),
            F.concat(F.lit("unknown MongoDB operation "), F.substring("_kind", 1, 40)),
        )
        .when(
            of_table & (F.col("database_name").isNull() | F.col("table_name").isNull()),
            F.lit("no `ns` with db and coll (Debezium: `source` with db and collection)"),
        )
        .when(
            F.col("_seconds").isNull() | F.col("_ordinal").isNull(),
            F.lit("no `clusterTime` (Debezium: `source` with ts_ms and ord), or an invalid time"),
        )
        .when(
            of_row & F.col("_head.splitEvent").isNotNull(),
            F.lit("a part of an event that $changeStreamSplitLargeEvent split"),
        )
        .when(
            of_row & (F.col("_key").isNull() | F.is_variant_null("_key")),
            F.lit("no `documentKey` with _id (Debezium: no key of the message, nor a document)"),
        )
        .when(
            of_row & of_stream & token.isNull(),
            F.lit("no resume token (`_id`), which distinguishes events of one time"),
        )
        .when(
            of_row & F.col("row_number").isNull() & of_stream,
            F.lit("the place in its transaction isn't known: a resume token of unknown form"),
        )
        .when(
            of_row & F.col("row_number").isNull(),
            F.lit(
                "the place in its transaction isn't known: "
                "run Debezium with provide.transaction.metadata=true"
            ),
        )
    )
    return (
        frame.withColumn("event_time", F.coalesce("_wall", F.timestamp_seconds("_seconds")))
        .withColumn("binlog_file", F.lit("mongodb"))
        .withColumn("binlog_file_number", F.lit(0).cast("bigint"))
        .withColumn("binlog_position", F.col("_seconds") * ORDINALS + F.col("_ordinal"))
        .withColumn("envelope_reason", reason)
        .drop("_listed", "_head", "_kind", "_seconds", "_ordinal", "_wall", "_key", "_place")
        .drop("_identity")
    )


def table_moves(payload: str, database: str | None, table: str | None, op: str) -> list[Move]:
    """Where the documents of a collection went, by a `drop` or `rename`, in the form of
    ddl.moves."""
    collection = (database or "", table or "")
    if op == "drop":
        return [(collection, None)]
    event = body_of(payload)
    to = object_in(object_in(event, "payload") or event, "to")
    if not to.get("db") or not to.get("coll"):
        raise ValueError("a `rename` without `to`, or without db and coll in it")
    return [(collection, (name_in(to, "db"), name_in(to, "coll")))]


def _from_hex(digits: Column) -> Column:
    from pyspark.sql import functions as F

    return F.conv(digits, 16, 10).cast("bigint")
