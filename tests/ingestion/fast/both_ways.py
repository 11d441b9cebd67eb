"""Messages decoded by the present way, in Spark, and by the workers' way, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.fast import parsing
from python_udfs.ingestion.fast.images import Layout
from python_udfs.ingestion.fast.values import UTC_TIME
from python_udfs.ingestion.fast.workers import FORMATS
from python_udfs.ingestion.fast.zones import SECOND, offsets_of
from python_udfs.ingestion.formats.registry import FORMATS as SPARK_FORMATS
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.tables.source import TableSource
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.rows import typed_rows
from tests.support.lines import TS, raw_messages

MAX_AHEAD = 24
FIRST_OFFSET = 100  # of raw_messages


class Compared(NamedTuple):
    """Both ways on some messages.

    Attributes:
        proven: numbers of the messages that the workers' way proves.
        wrong: proven messages that Spark reads otherwise: payload, its row, Spark's row.
    """

    proven: set[int]
    wrong: list[tuple[str, object, object]]

    def proven_of(self, numbers: range) -> int:
        return len(self.proven & set(numbers))


def compare(
    spark: SparkSession, payloads: Sequence[bytes | str], table: TableSource, zone: str
) -> Compared:
    """Compare both ways.

    Spark reads the messages that the workers' way might prove, whatever change they are of: those
    are few of the mutated messages, and it takes long over what is no row.
    """
    read = FORMATS[table.format].layout(table, lambda: offsets_of(spark, zone), MAX_AHEAD)
    assert read is not None
    # each line is asked, however many don't pass
    with patch.object(parsing, "MOST_MISFITS", 1.0):
        numbers = _provable(read, payloads, table)
        return _compare(spark, [payloads[number] for number in numbers], numbers, read, zone, table)


def _provable(read: Layout, payloads: Sequence[bytes | str], table: TableSource) -> list[int]:
    """Numbers of the messages that are proven as a change of any kind."""
    texts = []
    for payload in payloads:
        try:
            text = payload if isinstance(payload, str) else payload.decode("utf-8")
            texts.append(f"{text}\n".encode().decode())
        except UnicodeError:
            texts.append(None)  # ods_binlog refuses it
    lines, count = pa.array(texts, pa.string()), len(texts)
    times = pa.array([TS * SECOND] * count, pa.int64()).cast(UTC_TIME)
    found: set[int] = set()
    for op in ("insert", "update", "delete"):
        kept, _ = FORMATS[table.format].decode(read, lines, pa.array([op] * count), times)
        found |= set(kept.tolist())
    return sorted(found)


def _compare(
    spark: SparkSession,
    payloads: Sequence[bytes | str],
    numbers: Sequence[int],
    read: Layout,
    zone: str,
    table: TableSource,
) -> Compared:
    binlog = with_envelope(raw_messages(spark, payloads), table.format).where(
        (F.col("database_name") == table.database)
        & (F.col("table_name") == table.table)
        & F.col("op").isin("insert", "update", "delete")
        & F.col("reject_reason").isNull()
    )
    binlog = binlog.withColumn("load_id", F.lit("load")).localCheckpoint(eager=False)
    day = BusinessDay(table, zone, MAX_AHEAD)
    rows = typed_rows(SPARK_FORMATS[table.format].images(binlog, table), table, day)
    by_spark: dict[int, list[dict]] = {}
    for row in (
        rows.select(
            "message_offset",
            "row_number",
            "reject_reason",
            F.struct(*table.columns, "raw_values").alias("after"),
            "before",
            "cut_date",
            F.col("metadata_changes").alias("changes"),
        )
        .toArrow()
        .sort_by([("message_offset", "ascending"), ("row_number", "ascending")])
        .to_pylist()
    ):
        del row["row_number"]
        by_spark.setdefault(row.pop("message_offset"), []).append(row)
    messages = binlog.select("message_offset", "payload", "op", "event_time").toArrow()
    messages = messages.sort_by("message_offset").combine_chunks()
    texts = messages["payload"].to_pylist()
    lines = pa.array([f"{text}\n" for text in texts], pa.string())
    ops, times = (
        pa.concat_arrays(messages[name].chunks)
        if len(messages)
        else messages[name].combine_chunks()
        for name in ("op", "event_time")
    )
    kept, proven = FORMATS[table.format].decode(read, lines, ops, times)
    offsets = messages["message_offset"].to_numpy()
    by_workers: dict[int, list[dict]] = {}
    for place, row in zip(kept.tolist(), [] if proven is None else proven.to_pylist(), strict=True):
        by_workers.setdefault(place, []).append({"reject_reason": None} | row)
    wrong = [
        (texts[place], found, by_spark[int(offsets[place])])
        for place, found in by_workers.items()
        if repr(found) != repr(by_spark[int(offsets[place])])
    ]
    return Compared({numbers[int(offsets[place]) - FIRST_OFFSET] for place in by_workers}, wrong)
