"""Rows of full loads, which have no position in the log."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import COORDINATES
from python_udfs.ingestion.formats.registry import FORMATS, has_partial_changes
from python_udfs.ingestion.typed.rows import typed_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay

LOAD_FORMAT = "maxwell"  # of what source/full_load.py lands, whatever the log's format is
LOAD_FILE = "before the log"
BEFORE_LOG = (-1, 0)
KEYLESS_LOAD = "a row of a full load of a table without key: whether the log has it too is unknown"


def load_rows(messages: DataFrame, source: TableSource, day: BusinessDay) -> DataFrame:
    """The rows of full loads among a table's messages, as rows of a typed model.

    The log's own loads are in its format, others in LOAD_FORMAT.
    """
    snapshots, parts = messages.where(F.col("op") == "snapshot"), []
    formats = (
        (source.format,) if has_partial_changes(source.format) else (source.format, LOAD_FORMAT)
    )
    for name in dict.fromkeys(formats):
        images = FORMATS[name].images(snapshots.where(F.col("format") == name), source)
        if not source.primary_key:
            reason = F.coalesce("image_reason", F.lit(KEYLESS_LOAD))
            images = images.withColumn("image_reason", reason)
        parts.append(typed_rows(images, source, day))
    return reduce(lambda left, right: left.unionByName(right), parts)


def before_the_log(loads: DataFrame) -> DataFrame:
    """Rows of full loads as inserts before all changes, the newest load's last."""
    place = {
        "op_type": F.lit("insert"),
        "unique_key": F.concat_ws(":", F.lit(LOAD_FILE), *COORDINATES),
        "binlog_file": F.lit(LOAD_FILE),
        "binlog_file_number": F.lit(BEFORE_LOG[0]).cast("long"),
        "binlog_position": F.lit(BEFORE_LOG[1]).cast("long"),
        "row_number": F.unix_micros("event_time"),
    }
    good = F.col("reject_reason").isNull()
    kept = {name: F.when(good, value).otherwise(F.col(name)) for name, value in place.items()}
    return loads.withColumns(kept)


def with_rest(derived: DataFrame, loads: DataFrame, source: TableSource) -> DataFrame:
    """Rows that were derived of whole documents, with what the loads' documents hold beside their
    columns: of those of equal times the last of a topic, as segments takes it.

    Args:
        derived: rows of the typed model.
        loads: good rows of full loads, as the typed model's.
    """
    row = [*source.primary_key, "event_time"]
    came = F.struct(*COORDINATES[1:])
    rests = loads.groupBy(*row).agg(F.max_by("document_rest", came).alias("document_rest"))
    of_load = (F.col("metadata_op_type") == "snapshot") & (F.col("op_type") == "insert")
    loaded = derived.where(of_load).drop("document_rest").join(F.broadcast(rests), row, "left")
    return derived.where(~of_load).unionByName(loaded)
