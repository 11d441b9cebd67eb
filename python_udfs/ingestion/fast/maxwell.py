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

from python_udfs.ingestion.fast.images import (
    Found,
    Layout,
    counted_images,
    image_in_keys,
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
    found = counted_images(layout, texts, (DATA, OLD))
    kept, unread, images = found or _by_structure(layout, texts)
    if images is None:
        return kept[:0], None
    ops, event_times = ops.take(pa.array(kept)), event_times.take(pa.array(kept))
    data, old = images
    odd, proven = rows_of(layout, data, old, ops, event_times)
    odd |= unread
    # an insert or delete has no `old`
    odd |= np.asarray(old.values.is_valid()) & ~np.asarray(pc.equal(ops, "update"))
    if odd.any():
        kept, proven = kept[~odd], proven.filter(pa.array(~odd))
    return kept, proven


def _by_structure(layout: Layout, texts: pa.StringArray) -> Found:
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
    schema = pa.schema([pa.field(DATA, layout.image), pa.field(OLD, layout.image)])
    rows, read = parsed(lines, np.flatnonzero(~odd), schema)
    if read is None:
        return kept[:0], np.zeros(0, bool), None
    data, old = (
        image_in_keys(layout, lines, first[number, rows], last[number, rows], read.field(number))
        for number in (0, 1)
    )
    return kept[rows], np.zeros(len(rows), bool), (data, old)
