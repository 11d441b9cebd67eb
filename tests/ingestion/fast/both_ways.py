"""Messages decoded by the present way, in Spark, and by the workers' way, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.fast import counted, parsing
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
# lines, changes and times -> the numbers of what is proven, and the rows
Decode = Callable[[pa.Array, pa.Array, pa.Array], tuple[Any, Any]]


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
    spark: SparkSession,
    payloads: Sequence[bytes | str],
    table: TableSource,
    zone: str,
    alone: bool = False,
) -> Compared:
    """Compare both ways.

    Spark reads the messages that the workers' way might prove, whatever change they are of: those
    are few of the mutated messages, and it takes long over what is no row.

    Args:
        alone: whether the workers' way gets each message by itself, so that none is proven in
            another way for the sake of others.
    """
    read = FORMATS[table.format].layout(table, lambda: offsets_of(spark, zone), MAX_AHEAD)
    assert read is not None
    # each line is asked, however many don't pass
    least = 0.0 if alone else counted.LEAST_PROVEN
    decode = partial(_in_blocks, partial(FORMATS[table.format].decode, read), alone)
    with (
        patch.object(parsing, "MOST_MISFITS", 1.0),
        patch.object(counted, "LEAST_PROVEN", least),
    ):
        numbers = _provable(decode, payloads)
        some = [payloads[number] for number in numbers]
        return _compare(spark, some, numbers, decode, zone, table)


def _in_blocks(
    decode: Decode, alone: bool, texts: pa.Array, ops: pa.Array, times: pa.Array
) -> tuple[list[int], list[dict]]:
    """What is proven of all messages, or of each message alone: their numbers, and the rows."""
    kept, rows = [], []
    size = 1 if alone else max(len(texts), 1)
    for begin in range(0, len(texts), size):
        found, proven = decode(*(given.slice(begin, size) for given in (texts, ops, times)))
        kept += [begin + number for number in found.tolist()]
        rows += [] if proven is None else proven.to_pylist()
    return kept, rows


def _provable(decode: Decode, payloads: Sequence[bytes | str]) -> list[int]:
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
        found |= set(decode(lines, pa.array([op] * count), times)[0])
    return sorted(found)


def _compare(
    spark: SparkSession,
    payloads: Sequence[bytes | str],
    numbers: Sequence[int],
    decode: Decode,
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
    kept, proven = decode(lines, ops, times)
    offsets = messages["message_offset"].to_numpy()
    by_workers: dict[int, list[dict]] = {}
    for place, row in zip(kept, proven, strict=True):
        by_workers.setdefault(place, []).append({"reject_reason": None} | row)
    wrong = [
        (texts[place], found, by_spark[int(offsets[place])])
        for place, found in by_workers.items()
        if repr(found) != repr(by_spark[int(offsets[place])])
    ]
    return Compared({numbers[int(offsets[place]) - FIRST_OFFSET] for place in by_workers}, wrong)
