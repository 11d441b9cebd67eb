"""The log formats by name, and messages as rows of ods_binlog.

A format is one module with two functions, entered in FORMATS:
    envelope(messages) -> messages with the columns of ENVELOPE, from their `payload`
    images(messages, source) -> messages with the columns `data`, `before` and `image_reason`, see
        maxwell.py. Where a message holds several rows it gives one row each and numbers them in
        `row_number`
It may have
    OPTIONS: name -> the values that a table's `meta.source.options` may give it, the default first
    EXTRA: columns that its `images` adds beyond those three, which become columns of its typed
        rows, and of no other format's
    has_lsn() -> condition on changes that their place and their row's key identify
    by_own_schemas(messages, source, samples) -> see as_written below
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_udfs.ingestion.formats import canal, debezium, events, maxwell, mongodb
from python_udfs.ingestion.formats.envelope import READ_COLUMNS, TABLE_OPS
from python_udfs.ingestion.landing.files import LONG_LINE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource

FORMATS: dict[str, ModuleType] = {
    "maxwell": maxwell,
    "canal": canal,
    "debezium": debezium,
    "mongodb": mongodb,
    "events": events,
}


def positions_are_places(format_name: str) -> bool:
    """Whether the format's positions are places in a topic, not in a binlog."""
    return getattr(FORMATS[format_name], "POSITION_IS_PLACE", False)


def key_identifies(source: TableSource) -> Column | None:
    """Condition on a table's changes: their place and their row's key identify them, whatever
    their row_number; None where that holds for none."""
    has_lsn = getattr(FORMATS[source.format], "has_lsn", None)
    return has_lsn() if has_lsn is not None and source.primary_key else None


def has_partial_changes(format_name: str) -> bool:
    """Whether changes of the format may hold only a part of their rows."""
    return not getattr(FORMATS[format_name], "WHOLE_IMAGES", True)


def has_whole_images(source: TableSource) -> bool:
    """Whether each change of a table that isn't refused has its row whole, before and after it."""
    is_required = source.options.get("pre_images") == "required"
    return is_required or not has_partial_changes(source.format)


def as_written(
    messages: DataFrame, source: TableSource, samples: Iterable[tuple[str, str | None]]
) -> tuple[TableSource, Column | None]:
    """A declaration by which a table's messages are read as each is written, and why some of them
    would be read as other values all the same: a column, null for the others, None for none.

    Args:
        samples: format and payload of some of them.
    """
    looks = getattr(FORMATS[source.format], "by_own_schemas", None)
    return (source, None) if looks is None else looks(messages, source, samples)


def with_envelope(messages: DataFrame, format_name: str, kept: Iterable[str] = ()) -> DataFrame:
    """Raw messages (landing.spark.RAW_SCHEMA) as rows of ods_binlog without load_id.

    Text that isn't UTF-8 stays as bytes in `payload_bytes`, and as text with the bad bytes
    replaced in `payload`. What can't be read gets a `reject_reason`; its envelope is empty.

    Args:
        kept: further columns of the messages that the rows are to have.
    """
    from pyspark.sql import functions as F

    if format_name not in FORMATS:
        raise ValueError(
            f"format {format_name!r} is not known, must be one of {', '.join(FORMATS)}. "
            "A new format is a module in python_udfs/ingestion/formats; see CONTRIBUTING.md"
        )
    text = F.col("payload").cast("string")
    good_utf8 = F.is_valid_utf8(text)
    decoded = messages.select(
        "batch_id",
        "topic",
        "partition_number",
        "message_offset",
        "run_offset",
        F.make_valid_utf8(F.col("message_key").cast("string")).alias("message_key"),
        F.when(good_utf8, text).otherwise(F.make_valid_utf8(text)).alias("payload"),
        F.when(~good_utf8, F.col("payload")).alias("payload_bytes"),
        "cut_reason",
        *kept,
    )
    parsed = FORMATS[format_name].envelope(decoded)
    # what it empties can't be distinguished from what came after it
    unplaced = F.col("op").isin(*TABLE_OPS) & (
        F.col("binlog_file_number").isNull() | F.col("binlog_position").isNull()
    )
    reason = (
        F.when(F.col("cut_reason").isNotNull(), F.col("cut_reason"))
        .when(F.col("payload_bytes").isNotNull(), F.lit("invalid UTF-8"))
        .when(F.trim(F.col("payload")) == "", F.lit("empty line"))
        .when(F.col("envelope_reason").isNotNull(), F.col("envelope_reason"))
        .when(unplaced, F.lit("a statement on whole tables without a binlog position"))
    )
    no_value = F.col("payload").isNull()
    judged = parsed.withColumn("reject_reason", F.when(~no_value, reason)).withColumn(
        "op", F.when(no_value, F.lit("control")).otherwise(F.col("op"))
    )
    good = F.col("reject_reason").isNull()
    return judged.select(
        "batch_id",
        "topic",
        "partition_number",
        "message_offset",
        "run_offset",
        F.lit(format_name).alias("format"),
        *[F.when(good, F.col(name)).alias(name) for name in READ_COLUMNS],
        "message_key",
        "payload",
        "payload_bytes",
        # of what may come whole yet; too long a line stays so
        F.when(~F.col("cut_reason").startswith(LONG_LINE), F.col("cut_reason")).alias("cut_reason"),
        "reject_reason",
        *kept,
    )
