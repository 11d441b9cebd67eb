"""MongoDB's changes: the events of a change stream, and Debezium's messages of them.

    {"_id": {"_data": hex}, "operationType", "clusterTime": {"$timestamp": {"t": s, "i"}},
     "wallTime", "ns": {"db", "coll"}, "documentKey": {"_id"}, "fullDocument": {...},
     "fullDocumentBeforeChange": {...}, "lsid", "txnNumber",
     "updateDescription": {"updatedFields": {...}, "removedFields": [..], "truncatedArrays": [..]}}
    {"op": "c|u|d|r", "source": {"db", "collection", "ts_ms", "ord", "txnNumber", "wallTime"},
     "after": "{...}", "before": "{...}", "transaction": {"total_order"},
     "updateDescription": {"updatedFields": "{...}", ...}}    with or without a schema block

https://www.mongodb.com/docs/manual/reference/change-events/ and
https://debezium.io/documentation/reference/stable/connectors/mongodb.html. Values are Extended
JSON: relaxed, canonical, or the older form that Debezium writes ({"$date": ms}). Debezium's
documents are JSON within a text, and the key of a document stands in the message's key: files
don't hold those, so read Debezium's topics from Kafka, or have its documents (`after`, `before`)
in every message. A message whose document isn't known is refused. None of this was seen from a
real server: it goes by the documentation, and by resume tokens that stand there.

What identifies and orders a change:
- `clusterTime` (Debezium: source.ts_ms and ord): binlog_position is its seconds times 2**31, plus
  its ordinal. The changes of a transaction share it, as may changes of several shards.
- `row_number` tells those apart. The resume token is a hex KeyString: time, version, token type,
  place in the transaction, collection, key. The place times 2**32 orders the transaction; 32 bits
  of the token's MD5 are added, for events of other shards have the same place (two of them at
  one time and place are taken for one change once in four billion such pairs).
- Debezium leaves the token out. Within a transaction its `transaction.total_order` is taken
  (provide.transaction.metadata=true); without it such a message is refused, as its place isn't
  known. Else 60 bits of the MD5 of collection, op and key: no document changes twice at one time.
- The same change by both producers has two row numbers: take a collection from one of them.
- `xid` is txnNumber, which is a number within one client session only.

What a change tells of its document; the typed row says no more, in the columns of EXTRA:
- An insert or replacement has the whole document. A delete has the key alone, and what it deleted
  where the collection keeps pre-images.
- An update has what it set and removed. A document that was looked up (`updateLookup`) is read
  after the update and may be of a later one, or missing, so nothing is taken from it:
  `known_columns` names the columns that have their values, the others are null, unknown.
  Post-images are exact: say so by the option `full_document`. With a pre-image, the columns that
  the update doesn't tell have their values from it.
- Without a pre-image `before` is null, of an update or delete too, and metadata_changes with it:
  such rows can't be made retract rows. They can be folded: a column's value is the one in its
  newest row that knows it. The other fields are those of the newest document_rest, changed by
  each document_patch behind it.
- An update may set a part of a column: an element of an array, a field of a nested document,
  which is told by a key like tags.0. The column's value isn't known then, unless by a post-image;
  such a change is refused. Declare the parts (see below), or let the column stay in
  `document_rest`.
- A row of a snapshot stands before all changes, the newest snapshot last: what a change tells is
  newer, and what none tells is as it was when the row was read.
- A `drop`, or a `rename` away, deletes each document that the collection had: whole where its
  newest row tells all columns, else by its key. Before a `dropDatabase` each collection has its
  own `drop`. A `rename` onto the collection does the same, and is refused: the documents that came
  with it aren't known. `invalidate` ends a stream, it carries nothing. Debezium tells of none of
  these.
- A cut column that an update doesn't tell doesn't date it: the time of the change does.

Columns are the document's fields by name; a name with dots (an alias: {city: address.city}) goes
into nested documents, not into arrays. `_id` is the key: a column of that name, or with that
alias. A document is taken to hold a column by one of its names at a time. Fields whose own names
hold dots can't be told from nested ones in updates.

Values: ObjectIds, UUIDs and numbers are texts in a text column; true and false are 1 and 0 in a
number's. A MongoDB date is an instant: declare it `timestamp` (`date` where it is midnight UTC;
as `datetime`, local time, it is refused). What is nested is JSON text, all of a `json` column is;
its keys are in alphabetical order, its numbers without zeros at their end, as MySQL's are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.exact_numbers import exact_decimal, is_no_double
from python_udfs.ingestion.formats.json_lines import (
    LATEST_TS,
    as_list,
    half_character,
    no_single_object,
    not_null,
)
from python_udfs.ingestion.formats.statements import body_of, name_in, object_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.declared.table_source import TableSource
    from python_udfs.ingestion.formats.ddl import Move
    from python_udfs.ingestion.tables.types import SourceType

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
# what the document of an update is: looked up (may be later), or the post-image, where there is
# one (else the update is told by its fields), or always
OPTIONS = {"full_document": ("lookup", "whenAvailable", "required")}
WHOLE_IMAGES = False  # an update may tell only what it changed
EXACT_NAMES = True  # collections may differ in upper and lower case alone
# columns of the typed rows beside those of every format, see `images`
EXTRA = {
    "known_columns": "array<string>",
    "document_rest": "string",
    "document_patch": "string",
}

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
_BODY = dict.fromkeys(
    (
        "operationType",
        "documentKey",
        "fullDocument",
        "fullDocumentBeforeChange",
        "updateDescription",
        "after",
        "before",
        "patch",
    ),
    "string",
)
_DOCUMENT = "map<string, variant>"
_PATCH = (
    "struct<updatedFields string, removedFields array<string>, "
    "truncatedArrays array<struct<field string, newSize bigint, size bigint>>>"
)
# a timestamp; version 0, or version 1 or 2 and the token type of an event; the place in the
# transaction, a number of up to four bytes; then a boolean, or in version 0 the collection
_TOKEN = (
    r"(?i)^82[0-9A-F]{16}(?:29|2B0[24]2C0100)"
    r"(29|2B[0-9A-F]{2}|2C[0-9A-F]{4}|2D[0-9A-F]{6}|2E[0-9A-F]{8})(?:6E|6F|5A)"
)
ORDINALS = 2**31  # binlog_position has so many for each second
_ISO = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)\z"
_NUMBERS = ("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal")


def envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the envelope's columns, from their `payload` (and `message_key`)."""
    from pyspark.sql import functions as F

    frame = messages.withColumn("_listed", as_list(F.col("payload"), _struct_of(_HEAD)))
    frame = frame.withColumn("_head", F.when(F.size("_listed") == 1, F.col("_listed")[0]))
    frame = frame.withColumn("_head", _event(F.col("_head"), _HEAD))
    kind = F.coalesce("_head.operationType", "_head.op")
    of_stream = F.col("_head.operationType").isNotNull()
    boundary = F.col("_head.status").isin("BEGIN", "END") & F.col("_head.id").isNotNull()
    # Debezium's tombstone behind a delete, and where its transactions begin and end
    op = F.when((F.trim("payload") == "null") | boundary, F.lit("control"))
    for known, isnt_other in ((STREAM_OPS, of_stream), (DEBEZIUM_OPS, ~of_stream)):
        for name, one in known.items():
            op = op.when(isnt_other & (kind == name), F.lit(one))
    stamp = F.col("_head.clusterTime")["$timestamp"]
    seconds = F.when(of_stream, stamp["t"]).otherwise(F.expr("_head.source.ts_ms div 1000"))
    ordinal = F.when(of_stream, stamp["i"]).otherwise(F.col("_head.source.ord"))
    wall = F.when(of_stream, _instant(F.col("_head.wallTime"))).otherwise(
        _from_millis(F.nullif("_head.source.wallTime", F.lit(0)))
    )
    key = _key_document(F.col("_head"))["_id"]
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
        F.coalesce(_number(F.col("_head.txnNumber")).try_cast("bigint"), "_head.source.txnNumber")
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
            F.lit("no `clusterTime` (Debezium: `source` with ts_ms and ord), or one that is none"),
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
            F.lit("no resume token (`_id`), which tells events of one time apart"),
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
    """Where the documents of a collection went, by a `drop` or `rename`, as ddl.moves tells it."""
    collection = (database or "", table or "")
    if op == "drop":
        return [(collection, None)]
    event = body_of(payload)
    to = object_in(object_in(event, "payload") or event, "to")
    if not to.get("db") or not to.get("coll"):
        raise ValueError("a `rename` without `to`, or without db and coll in it")
    return [(collection, (name_in(to, "db"), name_in(to, "coll")))]


def images(messages: DataFrame, source: TableSource) -> DataFrame:
    """Row messages with what they tell of their documents.

    Returns:
        messages with the columns of maxwell.images, where
        data: the key and the columns of `known_columns`, the others are null;
        before: null where it isn't known: there is no pre-image;
        and with the columns of EXTRA:
        known_columns: the declared columns whose values `data` tells besides the key's; null:
            all of them. Empty for a delete without pre-image;
        document_rest: JSON text of the fields that aren't declared, where the message has the
            whole document after the change; null elsewhere;
        document_patch: JSON text of an update's description, where it hasn't.
    """
    from pyspark.sql import functions as F

    frame = messages.withColumn("_body", F.from_json("payload", _struct_of(_BODY)))
    frame = frame.withColumn("_body", _event(F.col("_body"), _BODY))
    is_update, is_delete = F.col("op") == "update", F.col("op") == "delete"
    # of Debezium, an update without description is a replacement
    described = is_update & F.coalesce(
        F.col("_body.operationType") != "replace", F.col("_body.updateDescription").isNotNull()
    )
    after = F.coalesce("_body.fullDocument", "_body.after")
    before = F.coalesce("_body.fullDocumentBeforeChange", "_body.before")
    exact = F.lit(source.options["full_document"] != "lookup")
    frame = frame.select(
        "*",
        after.alias("_after"),
        before.alias("_before_text"),
        described.alias("_described"),
        (~is_delete & after.isNotNull() & (~described | exact)).alias("_whole"),
        F.from_json("_body.updateDescription", _PATCH).alias("_patch"),
        _key_document(F.col("_body")).alias("_key"),
    )
    no_names = F.array().cast("array<string>")
    document = F.when(F.col("_whole"), F.from_json("_after", _DOCUMENT)).when(
        F.col("_described"), F.from_json(F.coalesce("_patch.updatedFields", F.lit("{}")), _DOCUMENT)
    )
    frame = frame.withColumn(
        "_prior", F.when(is_update | is_delete, F.from_json("_before_text", _DOCUMENT))
    ).withColumn("_document", F.when(is_delete, F.col("_prior")).otherwise(document))
    told = F.array_union(
        F.map_keys("_document"), F.coalesce(F.col("_patch.removedFields"), no_names)
    )
    cut = F.coalesce(F.col("_patch.truncatedArrays.field"), no_names)
    frame = frame.select(
        "*",
        _scalars(source, "_document", "_key").alias("_data"),
        _scalars(source, "_prior").alias("_before"),
        F.when(F.col("_described") & ~F.col("_whole"), told).alias("_told"),
        F.when(F.col("_described") & ~F.col("_whole"), cut).alias("_cut"),
    )
    told_columns = [
        F.when(
            F.arrays_overlap("_told", F.array(*map(F.lit, _prefixes(source, name)))), F.lit(name)
        )
        for name in source.columns
        if not _of_key(source, name)
    ]
    known = F.when(
        F.col("_told").isNotNull(),
        not_null(told_columns),
    ).when(is_delete & F.col("_prior").isNull(), no_names)
    frame = frame.withColumn("_known", known)
    data, wrong_data = _struct(source, "_data", "data")
    previous, wrong_before = _struct(source, "_before", "before")
    wrong = F.concat_ws("; ", *wrong_data, *wrong_before)
    names = F.array(*[F.lit(one) for name in source.columns for one in source.names(name)])
    unread = F.lit(True)
    for name in ("updatedFields", "removedFields", "truncatedArrays"):
        unread = unread & F.col("_patch")[name].isNull()
    reason = (
        F.when(
            is_update & F.col("_body.patch").isNotNull(),
            F.lit("a `patch` of the oplog: let Debezium read change streams (version 2 and later)"),
        )
        .when(
            F.col("_described") & unread,
            F.lit("an update without `updateDescription`, or one that can't be read"),
        )
        .when(
            F.col("_described")
            & ~F.col("_whole")
            & (source.options["full_document"] == "required"),
            F.lit("an update without post-image, which the option full_document requires"),
        )
        .when(
            ~is_delete & ~F.col("_described") & F.col("_after").isNull(),
            F.lit("no `fullDocument` (Debezium: no `after`)"),
        )
        .when(
            (~is_delete & F.col("_document").isNull())
            | (F.col("_before_text").isNotNull() & F.col("_prior").isNull()),
            F.lit("a document that can't be read: no object, or a name twice in it"),
        )
        .when(
            is_no_double(F.col("payload"))
            | is_no_double(F.concat_ws(" ", "_after", "_before_text", "_body.updateDescription")),
            F.lit(
                "a number that neither a double nor a 64-bit integer holds: its digits can't be "
                "read as they are written"
            ),
        )
        .when(wrong != "", wrong)
        .otherwise(F.coalesce(_partly_set(source), half_character(source)))
    )
    patch = F.concat(
        F.lit('{"updatedFields":'),
        F.coalesce("_patch.updatedFields", F.lit("{}")),
        F.lit(',"removedFields":'),
        F.to_json(F.coalesce("_patch.removedFields", no_names)),
        F.lit(',"truncatedArrays":'),
        F.coalesce(F.to_json("_patch.truncatedArrays"), F.lit("[]")),
        F.lit("}"),
    )
    rest = F.map_filter("_document", lambda name, _: ~F.array_contains(names, name))
    frame = frame.select(
        "*",
        data.alias("data"),
        F.when(F.col("_prior").isNotNull(), previous).alias("before"),
    )
    completed = F.struct(
        *[
            F.when(
                # null: all of them are known
                F.array_contains("_known", name) | F.col("_known").isNull(),
                F.col("data")[name],
            )
            .otherwise(F.coalesce(F.col("data")[name], F.col("before")[name]))
            .alias(name)
            for name in source.columns
        ]
    )
    return frame.withColumn("image_reason", reason).select(
        *messages.columns,
        completed.alias("data"),
        "before",
        "image_reason",
        F.when(F.col("before").isNull(), F.col("_known")).alias("known_columns"),
        F.when(F.col("_whole"), F.to_json(rest)).alias("document_rest"),
        F.when(F.col("_told").isNotNull(), patch).alias("document_patch"),
    )


def _struct_of(fields: dict[str, str]) -> str:
    """A struct's DDL of the fields, at the top or within Debezium's `payload`."""
    listed = ", ".join(f"`{name}` {kind}" for name, kind in fields.items())
    return f"struct<{listed}, payload struct<{listed}>>"


def _event(read: Column, fields: dict[str, str]) -> Column:
    """The struct of fields that _struct_of reads, from where it stands."""
    from pyspark.sql import functions as F

    top = F.struct(*[read[name].alias(name) for name in fields])
    return F.coalesce(read["payload"], top)


def _key_document(event: Column) -> Column:
    """A document that holds the key as `_id`.

    Debezium's key has it as JSON text, in a sharded collection the shard key's fields behind it.
    """
    from pyspark.sql import functions as F

    key = F.from_json("message_key", "struct<id string, payload struct<id string>>")
    id_text = F.coalesce(key["payload"]["id"], key["id"])
    texts = (
        event["documentKey"],
        F.concat(F.lit('{"_id":'), id_text, F.lit("}")),
        event["after"],
        event["before"],
    )
    return F.coalesce(*[F.from_json(one, _DOCUMENT) for one in texts])


def _from_hex(digits: Column) -> Column:
    from pyspark.sql import functions as F

    return F.conv(digits, 16, 10).cast("bigint")


def _in(value: Column, name: str) -> Column:
    """What the variant holds under a name like $date, as text."""
    from pyspark.sql import functions as F

    return F.try_variant_get(value, f"$['{name}']", "string")


def _number(value: Column) -> Column:
    """The text of a number, of the variant of one or of {"$numberLong": ..} and its like."""
    from pyspark.sql import functions as F

    plain = F.when(F.to_json(value).rlike("^[-0-9]"), value.cast("string"))
    return F.coalesce(*[_in(value, name) for name in _NUMBERS], plain)


def _from_millis(millis: Column) -> Column:
    from pyspark.sql import functions as F

    # from the year 1 on: beyond the bounds there is no timestamp
    possible = millis.between(-62135596800000, LATEST_TS * 1000)
    return F.timestamp_millis(F.when(possible, millis))


def _instant(value: Column) -> Column:
    """The timestamp of a variant {"$date": ..}: ISO text, milliseconds, {"$numberLong": ms}."""
    from pyspark.sql import functions as F

    text = _in(value, "$date")
    millis = F.coalesce(F.try_variant_get(value, "$['$date']['$numberLong']", "string"), text)
    return F.coalesce(_from_iso(text), _from_millis(millis.try_cast("bigint")))


def _from_iso(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(text.rlike(_ISO), text.try_cast("timestamp"))


def _as_mysql(instant: Column) -> Column:
    from pyspark.sql import functions as F

    return F.date_format(instant, "yyyy-MM-dd HH:mm:ss.SSSSSS")


def _of_key(source: TableSource, name: str) -> bool:
    """Whether a column is of the documentKey, which is there in every change."""
    roots = [one.split(".")[0] for one in source.names(name)]
    return name in source.primary_key or "_id" in roots


def _prefixes(source: TableSource, column: str) -> list[str]:
    """Names that set the whole column: its paths, and the documents that they go through."""
    found = []
    for path in source.names(column):
        parts = path.split(".")
        found += [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
    return found


def _begin_with(names: str, begin: str) -> Column:
    """Condition: one of the names does."""
    from pyspark.sql import functions as F

    return F.exists(names, lambda one: F.startswith(one, F.lit(begin)))


def _partly_set(source: TableSource) -> Column:
    """Text naming the columns of which the update sets a part only; null where there are none."""
    from pyspark.sql import functions as F

    found = []
    for name in source.columns:
        if not _of_key(source, name):
            inside = F.lit(False)
            for path in source.names(name):
                inside = (
                    inside
                    | _begin_with("_told", path + ".")
                    | _begin_with("_cut", path + ".")
                    | F.array_contains("_cut", path)
                )
            found.append(F.when(inside, F.lit(name)))
    listed = F.concat_ws(", ", *found)
    text = F.concat(
        F.lit("the update sets a part of "),
        listed,
        F.lit(
            ", whose value isn't known from it (keep post-images and say so by the option "
            "full_document, or declare the parts)"
        ),
    )
    return F.when(listed != "", text)


def _scalars(source: TableSource, *documents: str) -> Column:
    """The columns' values as an array of structs (kind, text, json); null where there is none.

    Args:
        documents: columns with the document, and for the key's columns one to take them from
            where that has none.
    """
    from pyspark.sql import functions as F

    def value(document: str, path: str) -> Column:
        # of an update's description the names themselves have dots
        parts = path.split(".")
        found = []
        for size in range(len(parts), 0, -1):
            inner = F.col(document)[".".join(parts[:size])]
            steps = "".join(f"['{one}']" for one in parts[size:])
            found.append(F.try_variant_get(inner, f"${steps}", "variant") if steps else inner)
        return F.coalesce(*found)

    values = []
    for name in source.columns:
        taken = documents if _of_key(source, name) else documents[:1]
        values.append(F.coalesce(*[value(one, p) for one in taken for p in source.names(name)]))
    with_json = F.transform(
        F.array(*values), lambda one: F.struct(one.alias("v"), F.to_json(one).alias("json"))
    )
    return F.transform(with_json, _scalar)


def _scalar(one: Column) -> Column:
    """(kind, text, json) of a variant with its JSON text, Extended JSON unwrapped."""
    from pyspark.sql import functions as F

    value, json = one["v"], one["json"]

    def found(kind: str, text: Column) -> Column:
        made = F.struct(F.lit(kind).alias("kind"), text.alias("text"), json.alias("json"))
        return F.when(text.isNotNull(), made)

    first = F.left(json, F.lit(1))
    subtype = F.coalesce(
        F.try_variant_get(value, "$['$binary']['subType']", "string"), _in(value, "$type")
    )
    base64 = F.coalesce(
        F.try_variant_get(value, "$['$binary']['base64']", "string"),
        # the older form: {"$binary": base64, "$type": "00"}
        F.when(_in(value, "$type").isNotNull(), _in(value, "$binary")),
    )
    digits = F.lower(F.hex(F.try_to_binary(base64, F.lit("base64"))))
    dashed = F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    uuid = F.when(subtype.isin("04", "4") & (F.length(digits) == 32), dashed)
    unwrapped = F.coalesce(
        found("text", _in(value, "$oid")),
        found("number", F.coalesce(*[_in(value, name) for name in _NUMBERS])),
        found("instant", _as_mysql(_instant(value))),
        found("uuid", F.coalesce(_in(value, "$uuid"), uuid)),
        found("binary", base64),
        found("json", json),
    )
    return (
        F.when(value.isNull() | F.is_variant_null(value), None)
        .when(first == '"', found("text", value.cast("string")))
        .when(first.isin("t", "f"), found("boolean", json))
        .when(first == "{", unwrapped)
        .when(first == "[", found("json", json))
        .otherwise(found("number", value.cast("string")))
    )


def _struct(source: TableSource, part: str, label: str) -> tuple[Column, list[Column]]:
    """The columns in their `parsed` types, of what _scalars found; and texts of misfits."""
    from pyspark.sql import functions as F

    fields, wrong = [], []
    for place, (name, kind) in enumerate(source.columns.items()):
        one = F.col(part)[place]
        value = _parsed(one, kind)
        fields.append(value.alias(name))
        text = F.concat(
            F.lit(f"{label}.{name} = "), F.substring(one["text"], 1, 80), F.lit(" is no "),
            F.lit(kind.declared),
        )  # fmt: skip
        if kind.kind == "datetime":
            hint = F.lit(", but an instant: declare the column timestamp")
            text = F.when(one["kind"] == "instant", F.concat(text, hint)).otherwise(text)
        wrong.append(F.when(one.isNotNull() & value.isNull(), text))
    return F.struct(*fields), wrong


def _parsed(one: Column, kind: SourceType) -> Column:
    """A (kind, text, json) in the column's `parsed` type; null where it is none of it."""
    from pyspark.sql import functions as F

    text, found = one["text"], one["kind"]
    if kind.kind == "text":
        return one["json"] if kind.declared.strip().lower() == "json" else text
    if kind.kind == "binary":
        from_uuid = F.base64(F.unhex(F.replace(text, F.lit("-"), F.lit(""))))
        return F.when(found == "binary", text).when(found == "uuid", from_uuid)
    if kind.kind == "timestamp":
        # text with a zone says which instant it is
        iso = F.when(found == "text", _as_mysql(_from_iso(text)))
        return F.coalesce(iso, F.when(found.isin("instant", "text"), text))
    if kind.kind == "date":
        midnight = F.when(text.endswith(" 00:00:00.000000"), F.left(text, F.lit(10)))
        return F.when(found == "instant", midnight).when(found == "text", text)
    if kind.kind == "datetime":
        return F.when(found == "text", text)
    number = F.when(found == "number", text)
    if kind.kind == "decimal":
        return exact_decimal(number, kind.parsed)
    if kind.kind != "integer":
        return number.try_cast(kind.parsed)
    bit = F.when(found == "boolean", F.when(text == "true", F.lit("1")).otherwise(F.lit("0")))
    # shells and drivers write whole numbers as doubles
    wide = exact_decimal(F.coalesce(number, bit), "decimal(38,18)")
    return F.when((wide % 1 == 0) | (kind.parsed != "bigint"), wide.try_cast(kind.parsed))
