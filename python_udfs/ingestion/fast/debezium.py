"""Debezium's row messages as rows of a typed model, see formats.debezium for what they mean.

What isn't proven, beyond what `lines`, `parsing` and `images` leave: a change that lacks an image,
or has an image too many; a `before` that holds the key alone; a value that PostgreSQL left out; a
decimal with a scale of its own; base64 with line breaks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.debezium_values import debezium_column
from python_udfs.ingestion.fast.images import (
    Found,
    Image,
    Layout,
    counted_images,
    field_of,
    image_in_keys,
    make_layout,
    rows_of,
)
from python_udfs.ingestion.fast.lines import OPEN, proven_lines
from python_udfs.ingestion.fast.parsing import parsed

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.lines import Lines, Parts
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.source import TableSource

BEFORE, AFTER, PAYLOAD = "before", "after", "payload"


def layout(
    source: TableSource, zone: Callable[[], ConstantOffsets], max_ahead_hours: int
) -> Layout | None:
    """How the table's messages are read, see images.make_layout."""
    columns = [
        debezium_column(name, source.names(name), kind, source.options)
        for name, kind in source.columns.items()
    ]
    return make_layout(source, columns, (BEFORE, AFTER, PAYLOAD), zone, max_ahead_hours)


def decode(
    layout: Layout, texts: pa.StringArray, ops: pa.StringArray, event_times: pa.TimestampArray
) -> tuple[np.ndarray, pa.StructArray | None]:
    """The rows that can be proven, see fast.maxwell.decode."""
    # a message with a schema has objects within objects
    found = counted_images(layout, texts, (BEFORE, AFTER), has_others=True)
    kept, unread, images = found or _by_structure(layout, texts)
    if images is None:
        return kept[:0], None
    ops, event_times = ops.take(pa.array(kept)), event_times.take(pa.array(kept))
    odd, proven = _rows(layout, *images, ops, event_times)
    odd |= unread
    if odd.any():
        kept, proven = kept[~odd], proven.filter(pa.array(~odd))
    return kept, proven


def _by_structure(layout: Layout, texts: pa.StringArray) -> Found:
    """The images of lines that are proven by their structure."""
    kept, lines = proven_lines(texts)
    nothing: Found = (kept[:0], np.zeros(0, bool), None)
    if lines is None:
        return nothing
    parts, odd, is_wrapped = _images(layout, lines, len(kept))
    # of each image and line: its first key, and the first key behind it
    first, last = np.zeros((2, 2, len(kept)), np.int64)
    name = np.where(parts.key >= 0, layout.numbers(lines, parts.key), -1)
    for number, member in enumerate((BEFORE, AFTER)):
        mask = name == layout.members[member]
        wrong = mask & ~(parts.is_flat & (lines.bytes[parts.begin] == OPEN))
        odd[parts.row[wrong]] = True
        rows = parts.row[mask]
        first[number, rows], last[number, rows] = parts.first[mask], parts.last[mask]
    there = np.flatnonzero(~odd)
    if not len(there):
        return nothing
    both = [pa.field(BEFORE, layout.image), pa.field(AFTER, layout.image)]
    # of the other form nothing may be there
    absent = [pa.field(member, pa.null()) for member in (BEFORE, AFTER)]
    wrapped = [pa.field(PAYLOAD, pa.struct(both)), *absent]
    schema = pa.schema(wrapped if is_wrapped else [*both, pa.field(PAYLOAD, pa.null())])
    rows, read = parsed(lines, there, schema)
    if read is None:
        return nothing
    payload = read.field(0) if is_wrapped else read
    before, after = (
        image_in_keys(
            layout,
            lines,
            first[number, rows],
            last[number, rows],
            pc.struct_field(payload, [number]),
        )
        for number in (0, 1)
    )
    return kept[rows], np.zeros(len(rows), bool), (before, after)


def _images(layout: Layout, lines: Lines, count: int) -> tuple[Parts, np.ndarray, bool]:
    """Where images may stand, a mask of lines of another form, and whether most have a schema."""
    members = lines.parts(2)
    name = np.where(members.key >= 0, layout.numbers(lines, members.key), -1)
    is_payload = name == layout.members[PAYLOAD]
    has_payload = np.bincount(members.row[is_payload], minlength=count) > 0
    is_wrapped = bool(has_payload.sum() * 2 > count)
    odd = has_payload != is_wrapped
    if not is_wrapped:
        return members, odd, False
    inner = lines.parts(3)
    member = np.searchsorted(members.begin, inner.begin) - 1
    return inner.where(is_payload[member]), odd, True


def _rows(
    layout: Layout,
    before: Image,
    after: Image,
    ops: pa.StringArray,
    event_times: pa.TimestampArray,
) -> tuple[np.ndarray, pa.StructArray]:
    """Mask of rows that aren't proven, and all rows."""
    is_delete, is_insert = (np.asarray(pc.equal(ops, op)) for op in ("delete", "insert"))
    data = after
    if is_delete.any():
        places = np.arange(len(ops)) + np.where(is_delete, len(ops), 0)
        data = Image(
            pa.concat_arrays([after.values, before.values]).take(pa.array(places)),
            np.where(is_delete, before.named, after.named),
            np.where(is_delete, before.odd, after.odd),
        )
    old = before._replace(named=np.ones_like(before.named))
    odd, proven = rows_of(layout, data, old, ops, event_times)
    odd |= np.asarray(before.values.is_valid()) == is_insert
    odd |= np.asarray(after.values.is_valid()) == is_delete
    is_empty = np.full(len(ops), True)
    for number, column in enumerate(layout.columns):
        is_null = np.asarray(field_of(before.values, column).is_null())
        if number in layout.watched:
            odd |= ~is_insert & is_null & ~before.named[number]
        if number not in layout.key:
            is_empty &= is_null
    if len(layout.key) < len(layout.columns):
        odd |= ~is_insert & is_empty
    return odd, proven
