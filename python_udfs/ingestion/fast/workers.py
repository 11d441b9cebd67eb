"""Messages decoded in the workers, those that can be proven; the others stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from python_udfs.ingestion.fast.columns import PROVEN, TWICE
from python_udfs.ingestion.fast.maxwell import decode, layout
from python_udfs.ingestion.fast.zones import offsets_of
from python_udfs.ingestion.formats.envelope import COORDINATES, IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from python_udfs.ingestion.fast.maxwell import Layout
    from python_udfs.ingestion.tables.source import TableSource

_MESSAGE = [
    *COORDINATES,
    *("format", "database_name", "table_name", "op", "event_time"),
    *IDENTITY,
    *("xid", "load_id"),
]
# a task that proves less than this share of its rows leaves the rest of them to the present way
_LEAST_PROVEN, _ENOUGH_ROWS = 0.5, 2000
FORMATS = ("maxwell",)  # whose messages the workers read


def layout_of(
    session: SparkSession, source: TableSource, zone: str, max_ahead_hours: int
) -> Layout | None:
    """How the workers read the table's messages; None where they could prove none of them."""
    if source.format not in FORMATS:
        return None
    return layout(source, lambda: offsets_of(session, zone), max_ahead_hours)


def with_proven_rows(
    messages: DataFrame, source: TableSource, layout: Layout, twice_in: int
) -> DataFrame:
    """A table's messages with PROVEN and TWICE; `payload` is null where the row is proven.

    Args:
        messages: of single rows' changes, in the format of the table's log.
        twice_in: number of a worker's batches of which the payloads of one batch are kept.
    """
    row = ", ".join(f"`{name}`: {kind.spark}" for name, kind in source.columns.items())
    row = f"struct<{row}, raw_values: map<string, string>>"
    proven = f"struct<after: {row}, before: {row}, cut_date: date, changes: array<string>>"
    kinds = {field.name: field.dataType.simpleString() for field in messages.schema}
    kept = ", ".join(f"`{name}` {kinds[name]}" for name in _MESSAGE)
    schema = f"{kept}, payload string, {PROVEN} {proven}, {TWICE} boolean"
    # the newline, so that the workers read the texts where they lie
    lines = messages.select(*_MESSAGE, F.concat("payload", F.lit("\n")).alias("payload"))

    def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        pa.set_cpu_count(1)
        return decoded_batches(batches, layout, twice_in)

    return lines.mapInArrow(read, schema)


def decoded_batches(
    batches: Iterable[pa.RecordBatch], layout: Layout, twice_in: int
) -> Iterable[pa.RecordBatch]:
    """A task's batches of messages, with PROVEN and TWICE, see with_proven_rows."""
    seen = proven = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_tried = seen < _ENOUGH_ROWS or proven >= seen * _LEAST_PROVEN
        decoded, count = _decoded(batch, layout, twice_in, is_tried)
        if is_tried:
            seen, proven = seen + batch.num_rows, proven + count
        yield decoded


def _decoded(
    batch: pa.RecordBatch, layout: Layout, twice_in: int, is_tried: bool
) -> tuple[pa.RecordBatch, int]:
    """A batch with PROVEN and TWICE, and the number of its proven rows."""
    count, lines = batch.num_rows, batch.column("payload")
    kept, rows = np.arange(0), None
    if is_tried:
        # whatever the decoder can't do, Spark does
        with suppress(Exception):
            kept, rows = decode(layout, lines, batch.column("op"), batch.column("event_time"))
    place = np.full(count, -1)
    place[kept] = np.arange(len(kept))
    is_proven = place >= 0
    if rows is None:
        rows = pa.nulls(count, layout.proven)
    elif len(kept) < count:
        rows = rows.take(pa.array(place, mask=~is_proven))
    twice = _is_chosen(batch, twice_in)
    left = pa.array(is_proven & (not twice))
    # as few texts as can be go back
    texts = pc.if_else(left, pa.scalar(None, lines.type), lines)
    texts = pc.binary_slice(texts.cast(pa.binary()), 0, -1).cast(pa.string())
    columns = [batch.column(name) for name in _MESSAGE]
    columns += [texts, rows, pa.array(np.full(count, twice) & is_proven)]
    return pa.RecordBatch.from_arrays(columns, names=[*_MESSAGE, "payload", PROVEN, TWICE]), len(
        kept
    )


def _is_chosen(batch: pa.RecordBatch, twice_in: int) -> bool:
    """Whether a batch is decoded twice: by the place of its first message, always the same."""
    place = ":".join(str(batch.column(name)[0].as_py()) for name in COORDINATES)
    return crc32(place.encode()) % twice_in == 0
