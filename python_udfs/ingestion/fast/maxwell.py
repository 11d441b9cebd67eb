"""Maxwell's row messages as rows of a typed model, see formats.maxwell for what they mean.

What isn't proven, beyond what `lines`, `parsing` and `images` leave: an update without `old`, or
another change with it; further objects and lists in a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.counted import counted_lines, declared_members
from python_udfs.ingestion.fast.images import (
    Image,
    Layout,
    has_alike,
    image_in_keys,
    image_with_nulls,
    make_layout,
    rows_of,
)
from python_udfs.ingestion.fast.lines import proven_lines
from python_udfs.ingestion.fast.parsing import parsed
from python_udfs.ingestion.fast.values import column_of

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.source import TableSource

DATA, OLD = "data", "old"
# int64 numbers of the messages, in order; a mask of those that aren't proven; the row and what it
# was before
_Found = tuple[np.ndarray, np.ndarray, tuple[Image, Image] | None]


def layout(
    source: TableSource, zone: Callable[[], ConstantOffsets], max_ahead_hours: int
) -> Layout | None:
    """How the table's messages are read, see images.make_layout."""
    columns = [column_of(name, source.names(name), kind) for name, kind in source.columns.items()]
    return make_layout(source, columns, (DATA, OLD), zone, max_ahead_hours)


def decode(
    layout: Layout, texts: pa.StringArray, ops: pa.StringArray, event_times: pa.TimestampArray
) -> tuple[np.ndarray, pa.StructArray | None]:
    """The rows that can be proven.

    Args:
        texts: payloads, each with a newline behind it; null for one that isn't to be read.
        ops: insert, update or delete.
        event_times: in UTC.

    Returns:
        Numbers of the proven rows' messages, int64, in order, and the rows, of the type
        `layout.proven`.
    """
    schema = pa.schema([pa.field(DATA, layout.image), pa.field(OLD, layout.image)])
    found = _by_counts(layout, texts, schema)
    if found is None:
        found = _by_structure(layout, texts, schema)
    kept, odd, images = found
    if images is None or odd.all():
        return kept[~odd], None
    ops, event_times = ops.take(pa.array(kept)), event_times.take(pa.array(kept))
    data, old = images
    unproven, proven = rows_of(layout, data, old, ops, event_times)
    odd |= unproven
    # an insert or delete has no `old`
    odd |= np.asarray(old.values.is_valid()) & ~np.asarray(pc.equal(ops, "update"))
    if odd.any():
        kept, proven = kept[~odd], proven.filter(pa.array(~odd))
    return kept, proven


def _by_counts(layout: Layout, texts: pa.StringArray, schema: pa.Schema) -> _Found | None:
    """The images of lines that are proven by their quotes; None where they aren't."""
    lines = counted_lines(texts, schema)
    if lines is None or any(has_alike(layout, lines.read.field(part).type) for part in (0, 1)):
        return None
    nulls = lines.nulls
    number = layout.names.numbers(lines.text, nulls.begin, nulls.length)
    column = layout.of_column[number]
    images = []
    for part in (0, 1):
        values = declared_members(lines.read.field(part), layout.image)
        within = nulls.object == part
        images.append(image_with_nulls(layout, values, column[within], nulls.row[within]))
    return lines.kept, lines.odd, (images[0], images[1])


def _by_structure(layout: Layout, texts: pa.StringArray, schema: pa.Schema) -> _Found:
    """The images of lines that are proven by their structure."""
    kept, lines = proven_lines(texts)
    if lines is None:
        return kept[:0], np.zeros(0, bool), None
    # of each image and line: its first key, and the first key behind it
    first, last = np.zeros((2, 2, len(kept)), np.int64)
    parts = lines.parts(2)
    name = np.where(parts.key >= 0, layout.numbers(lines, parts.key), -1)
    is_data, is_old = name == layout.members[DATA], name == layout.members[OLD]
    for number, mask in enumerate((is_data, is_old)):
        rows = parts.row[mask]
        first[number, rows], last[number, rows] = parts.first[mask], parts.last[mask]
    odd = np.zeros(len(kept), bool)
    odd[parts.row[~(is_data | is_old) | ~parts.is_flat]] = True
    rows, read = parsed(lines, np.flatnonzero(~odd), schema)
    if read is None:
        return kept[:0], np.zeros(0, bool), None
    data, old = (
        image_in_keys(layout, lines, first[number, rows], last[number, rows], read.field(number))
        for number in (0, 1)
    )
    return kept[rows], np.zeros(len(rows), bool), (data, old)
