"""Events that an application logs as JSON objects: page views, clicks, and their like.

    {"event_id": "8f3c..", "received_at": 1772416800512, "visitor_id": "v81", "user_id": 77,
     "event_time": "2026-03-02T10:00:00.317+08:00", "page": "product", ...}

What they mean:
- A topic holds the events of one kind, and is named <database>.<table>; of a topic without a dot
  the database is `events`. Every message is an insert: an event that happened stays.
- `received_at` is the collector's clock, the only clock to be trusted. It stands for the binlog
time
  and must be there. Times are milliseconds since 1970, or ISO 8601 text with a zone or Z; columns
  of them are declared timestamp. A text that is neither is refused.
- A column that a message lacks is null in it, as one that it has as null.
- What identifies an event is its place in the topic: (topic, partition, offset). A
  client that sends an event again, with the same `event_id`, makes a row of its own here; DWD
  keeps one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.exact_numbers import (
    AMBIGUOUS,
    exact_decimal,
    is_ambiguous,
    may_be_reprinted,
    with_marked_numbers,
    without_number_marks,
)
from python_udfs.ingestion.formats.json_lines import (
    JSON_ONLY,
    LATEST_TS,
    as_list,
    half_character,
    no_single_object,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.formats.ddl import Move
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

# a message's place in its topic stands for a position: comparable within one partition only
POSITION_IS_PLACE = True
_HEAD = "struct<received_at string>"
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)\z"
_TABLE = r"^(.+)\.([^.]+)$"
DATABASE = "events"  # of a topic without a dot


def envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the envelope's columns, from their `topic` and `payload`.

    The binlog position is the message's own place: file "<topic>/<partition>", number 0, the
    offset as position.
    """
    from pyspark.sql import functions as F

    frame = messages.withColumn("_listed", as_list(F.col("payload"), _HEAD))
    received = F.when(F.size("_listed") == 1, F.col("_listed")[0]["received_at"])
    frame = frame.withColumn("_received", instant(received))
    no_object = no_single_object(F.col("_listed"), "event")
    is_object = F.col("_listed")[0].isNotNull()
    reason = (
        F.when(no_object.isNotNull(), no_object)
        .when(~is_object, F.lit("JSON, but no event: no object"))
        .when(F.col("_received").isNull(), F.lit("`received_at` is missing or not a time"))
    )
    named = F.regexp_extract("topic", _TABLE, 1)
    database = F.when(named != "", named).otherwise(F.lit(DATABASE))
    place = F.concat_ws("/", "topic", "partition_number")
    return (
        frame.withColumn("envelope_reason", reason)
        .withColumn("op", F.lit("insert"))
        .withColumn("event_time", F.col("_received"))
        .withColumn("binlog_file", place)
        .withColumn("binlog_file_number", F.lit(0).cast("bigint"))
        .withColumn("binlog_position", F.col("message_offset"))
        .withColumn("row_number", F.lit(0).cast("bigint"))
        .withColumn("xid", F.lit(None).cast("bigint"))
        .withColumn("database_name", database)
        .withColumn("table_name", F.substring_index("topic", ".", -1))
        .drop("_listed", "_received")
    )


def table_moves(payload: str, database: str | None, table: str | None, op: str) -> Iterable[Move]:
    """There are no statements in a log of events."""
    return []


def images(messages: DataFrame, source: TableSource) -> DataFrame:
    """Row messages with their image, as maxwell.images; there is none before an insert."""
    from pyspark.sql import functions as F

    payload, texts = F.col("payload"), "map<string, string>"
    frame = messages.withColumn("_row", F.from_json(payload, texts, JSON_ONLY))
    values = {name: [F.col("_row")[name]] for name in source.names_in_log()}
    marked = F.from_json(with_marked_numbers(payload), texts, JSON_ONLY)
    needed = may_be_reprinted(values, payload)
    frame = frame.withColumn("_exact", F.when(needed, marked))
    is_exact = F.col("_exact").isNotNull()
    fields, wrong = [], []
    for name, kind in source.columns.items():
        raw = F.coalesce(
            *[
                F.when(is_exact, without_number_marks(F.col("_exact")[source_name])).otherwise(
                    F.col("_row")[source_name]
                )
                for source_name in source.names(name)
            ]
        )
        value = _value(raw, kind)
        fields.append(value.alias(name))
        text = F.concat(
            F.lit(f"data.{name} = "), F.substring(raw, 1, 80), F.lit(f" is no {kind.declared}")
        )
        wrong.append(F.when(raw.isNotNull() & value.isNull(), text))
    frame = frame.withColumn("data", F.struct(*fields))
    frame = frame.withColumn("before", F.when(F.lit(False), F.col("data")))
    reasons = F.concat_ws("; ", *wrong)
    reason = (
        F.when(F.col("_row").isNull(), F.lit("an object that can't be read"))
        .when(is_exact & is_ambiguous(payload), F.lit(AMBIGUOUS))
        .when(reasons != "", reasons)
        .otherwise(half_character(source))
    )
    return frame.withColumn("image_reason", reason).drop("_row", "_exact")


def instant(text: Column) -> Column:
    """The timestamp of a text: milliseconds since 1970, or ISO 8601 with a zone; else null."""
    from pyspark.sql import functions as F

    millis = text.try_cast("bigint")
    # from the year 1 on: beyond the bounds there is no timestamp
    possible = millis.between(-62135596800000, LATEST_TS * 1000 + 999)
    from_millis = F.timestamp_millis(F.when(possible, millis))
    from_iso = F.when(text.rlike(_ISO), text.try_cast("timestamp"))
    return F.coalesce(from_millis, from_iso)


def _value(raw: Column, kind: SourceType) -> Column:
    """The text of a JSON value in the column's `parsed` type; null where it is none of it."""
    from pyspark.sql import functions as F

    if kind.kind == "timestamp":
        return F.date_format(instant(raw), "yyyy-MM-dd HH:mm:ss.SSSSSS")
    if kind.kind == "integer":
        bit = F.when(raw == "true", F.lit("1")).when(raw == "false", F.lit("0")).otherwise(raw)
        raw = bit
    if kind.parsed.startswith("decimal"):
        return exact_decimal(raw, kind.parsed)
    return raw.try_cast(kind.parsed) if kind.parsed != "string" else raw
