"""Events as rows of a typed model, see formats.events for what they mean.

What isn't proven, beyond what `lines`, `parsing` and `images` leave: an event with an object or a
list in it; an instant in another form of text than ISO; an instant in a text where most events of
a batch have a number in that column, or the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from python_udfs.ingestion.fast.images import (
    Image,
    Layout,
    image_in_keys,
    make_layout,
    rows_of,
)
from python_udfs.ingestion.fast.lines import IS_NUMBER, QUOTE, proven_lines
from python_udfs.ingestion.fast.parsing import parsed
from python_udfs.ingestion.fast.texts import instants, make_decode
from python_udfs.ingestion.fast.values import UTC_TIME, Column, Values, column_of, micros_of_counts

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.lines import Lines
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

ISO = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
    r"(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])$"
)
_MILLIS = 3  # digits of a second
_LOOKED_AT = 10_000  # keys of a batch, by which its events' instants are numbers or texts


def layout(
    source: TableSource, zone: Callable[[], ConstantOffsets], max_ahead_hours: int
) -> Layout | None:
    """How the table's messages are read, see images.make_layout."""
    columns = [_column(name, source.names(name), kind) for name, kind in source.columns.items()]
    found = make_layout(source, columns, (), zone, max_ahead_hours)
    # what an event lacks is null
    return None if found is None else found._replace(watched=())


def _column(name: str, names: tuple[str, ...], kind: SourceType) -> Column | None:
    found = column_of(name, names, kind)
    if found is None or kind.kind != "timestamp":
        return found
    return found._replace(decode=make_decode(partial(instants, ISO)))


def decode(
    layout: Layout, texts: pa.StringArray, ops: pa.StringArray, event_times: pa.TimestampArray
) -> tuple[np.ndarray, pa.StructArray | None]:
    """The rows that can be proven, see fast.maxwell.decode."""
    kept, lines = proven_lines(texts)
    if lines is None or not len(lines.begin):  # events of nothing
        return kept[:0], None
    event = lines.parts(1)  # one of each line
    there = np.flatnonzero(event.is_flat)
    if not len(there):
        return there, None
    layout = _as_written(layout, lines)
    rows, read = parsed(lines, there, pa.schema(list(layout.image)))
    if read is None:
        return rows, None
    kept = kept[rows]
    ops, event_times = ops.take(pa.array(kept)), event_times.take(pa.array(kept))
    data = image_in_keys(layout, lines, event.first[rows], event.last[rows], read)
    nothing = Image(
        pa.nulls(len(rows), layout.image), np.zeros_like(data.named), np.zeros_like(data.odd)
    )
    odd, proven = rows_of(layout, data, nothing, ops, event_times)
    if odd.any():
        kept, proven = kept[~odd], proven.filter(pa.array(~odd))
    return kept, proven


def _as_written(layout: Layout, lines: Lines) -> Layout:
    """The layout whose instants are read as numbers, where most of a column's first events are."""
    columns = list(layout.columns)
    times = [number for number, column in enumerate(columns) if column.kind == "timestamp"]
    if not times:
        return layout
    keys = np.arange(min(len(lines.begin), _LOOKED_AT))
    column_of_key = layout.of_column[layout.numbers(lines, keys)]
    value = lines.value[keys]
    for number in times:
        found = value[column_of_key == number]
        if IS_NUMBER[found].sum() > (found == QUOTE).sum():
            columns[number] = columns[number]._replace(
                read=pa.int64(), decode=make_decode(_instants_of_millis)
            )
    return layout.with_columns(columns)


def _instants_of_millis(column: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
    micros, odd = micros_of_counts(_MILLIS, values)
    typed = pa.array(micros, mask=np.asarray(values.is_null())).cast(UTC_TIME)
    return Values(typed, odd if odd.any() else None)
