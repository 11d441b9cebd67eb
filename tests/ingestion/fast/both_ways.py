"""Messages decoded by the present way, in Spark, and by the workers' way, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.fast import parsing
from python_udfs.ingestion.fast.maxwell import Layout, decode, layout
from python_udfs.ingestion.fast.zones import offsets_of
from python_udfs.ingestion.formats.maxwell import images
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.tables.source import TableSource
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.rows import typed_rows
from tests.support.lines import raw_messages

MAX_AHEAD = 24
FIRST_OFFSET = 100  # of raw_messages


class Compared(NamedTuple):
    """Both ways on some messages.

    Attributes:
        read: number of messages that became rows of the log.
        proven: numbers of the messages that the workers' way proves.
        wrong: proven messages that Spark reads otherwise: payload, its row, Spark's row.
    """

    read: int
    proven: set[int]
    wrong: list[tuple[str, object, object]]

    def proven_of(self, numbers: range) -> int:
        return len(self.proven & set(numbers))


def layout_of(spark: SparkSession, table: TableSource, zone: str) -> Layout:
    found = layout(table, lambda: offsets_of(spark, zone), MAX_AHEAD)
    assert found is not None
    return found


def compare(
    spark: SparkSession, payloads: Sequence[bytes | str], table: TableSource, zone: str
) -> Compared:
    raw = raw_messages(spark, payloads)
    binlog = with_envelope(raw, "maxwell").where(
        (F.col("database_name") == table.database)
        & (F.col("table_name") == table.table)
        & F.col("op").isin("insert", "update", "delete")
        & F.col("reject_reason").isNull()
    )
    binlog = binlog.withColumn("load_id", F.lit("load")).localCheckpoint(eager=False)
    day = BusinessDay(table, zone, MAX_AHEAD)
    rows = typed_rows(images(binlog, table), table, day)
    slow = rows.select(
        "message_offset",
        "reject_reason",
        F.struct(*table.columns, "raw_values").alias("after"),
        "before",
        "cut_date",
        F.col("metadata_changes").alias("changes"),
    ).toArrow()
    messages = binlog.select("message_offset", "payload", "op", "event_time").toArrow()
    slow, messages = (
        table.sort_by("message_offset").combine_chunks() for table in (slow, messages)
    )
    assert slow["message_offset"] == messages["message_offset"]
    texts = messages["payload"].to_pylist()
    lines = pa.array([f"{text}\n" for text in texts], pa.string())
    op, event_time = (pa.concat_arrays(messages[name].chunks) for name in ("op", "event_time"))
    # each line is asked, however many don't pass
    with patch.object(parsing, "MOST_MISFITS", 1.0):
        kept, proven = decode(layout_of(spark, table, zone), lines, op, event_time)
    wrong = []
    if proven is not None:
        names = ["after", "before", "cut_date", "changes", "reject_reason"]
        expected = slow.select(names).take(pa.array(kept)).to_pylist()
        for place, row, other in zip(kept, proven.to_pylist(), expected, strict=True):
            found = row | {"reject_reason": None}
            if repr(found) != repr(other):
                wrong.append((texts[place], found, other))
    offsets = messages["message_offset"].to_numpy()
    return Compared(len(texts), {int(offsets[place]) - FIRST_OFFSET for place in kept}, wrong)
