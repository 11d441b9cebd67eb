"""Values of a source column, from what a strict JSON parser read to the typed model's type."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.zones import END, SECOND

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.types import SourceType

TIMES = ("date", "datetime", "timestamp")
# kinds of columns whose values can be proven
KINDS = ("integer", "decimal", "float", "double", "text", *TIMES)
UTC_TIME = pa.timestamp("us", "UTC")
EARLIEST = -30_610_224_000 * SECOND  # 1000-01-01, the first that MySQL promises to hold
# lengths of a date, of a date with time, and with one to six digits of a second's fraction
_TIME_LENGTHS = np.zeros(27, bool)
_TIME_LENGTHS[[10, 19, *range(21, 27)]] = True
_SPACE, _POINT, _DASH, _COLON, _ZERO, _NINE = b" .-:09"


class Column(NamedTuple):
    """A column to be read.

    Attributes:
        name: as declared.
        names: that it may have in the log.
        kind: of KINDS.
        read: type that it is read as from JSON.
        typed: type that it becomes.
        low, high: bounds of an integer, both inclusive.
    """

    name: str
    names: tuple[str, ...]
    kind: str
    read: pa.DataType
    typed: pa.DataType
    low: int
    high: int

    @property
    def is_text(self) -> bool:
        """Whether its values stand in quotes."""
        return self.kind == "text" or self.kind in TIMES


def column(name: str, names: tuple[str, ...], kind: SourceType) -> Column | None:
    """How a column is read; None where its values can't be proven."""
    # a SET is a list of its labels
    if kind.kind not in KINDS or kind.declared.lower().startswith("set"):
        return None
    if kind.kind in TIMES:
        typed = pa.date32() if kind.kind == "date" else UTC_TIME
        return Column(name, names, kind.kind, pa.string(), typed, 0, 0)
    if kind.spark.startswith("decimal"):
        digits, places = map(int, kind.spark[len("decimal(") : -1].split(","))
        typed = pa.decimal128(digits, places)
    else:
        typed = {
            "int": pa.int32(),
            "bigint": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "string": pa.string(),
        }[kind.spark]
    read = pa.int64() if kind.spark == "int" else typed
    return Column(name, names, kind.kind, read, typed, kind.low, kind.high)


def typed_values(
    column: Column, values: pa.Array, zone: ConstantOffsets
) -> tuple[pa.Array, np.ndarray | None]:
    """The values in the column's type.

    Returns:
        The values, and a mask of those that aren't proven; None where all are.
    """
    if values.null_count == len(values):
        return pa.nulls(len(values), column.typed), None
    if column.kind in TIMES:
        return _times(column, values, zone)
    if column.kind == "integer":
        odd = _out_of_bounds(column, values)
        if column.typed != column.read:
            kept = values if odd is None else _without(values, odd)
            return kept.cast(column.typed), odd
        return values, odd
    if column.kind in ("float", "double"):
        # -0 is a whole number to one parser, and has a sign to the other
        read = values.to_numpy(zero_copy_only=False)
        odd = np.asarray(values.is_valid()) & ~np.isfinite(read) | ((read == 0) & np.signbit(read))
        return values, odd if odd.any() else None
    return values, None


def _without(values: pa.Array, odd: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(odd), pa.scalar(None, values.type), values)


def _out_of_bounds(column: Column, values: pa.Array) -> np.ndarray | None:
    """Mask of integers that the column can't hold; None without such."""
    extremes = pc.min_max(values).as_py()
    if extremes["min"] >= column.low and extremes["max"] <= column.high:
        return None
    low, high = (
        Decimal(one) if pa.types.is_decimal(values.type) else one
        for one in (column.low, column.high)
    )
    low, high = (pa.scalar(one, values.type) for one in (low, high))
    odd = pc.or_(pc.less(values, low), pc.greater(values, high))
    return np.asarray(pc.fill_null(odd, False))


def _times(
    column: Column, texts: pa.StringArray, zone: ConstantOffsets
) -> tuple[pa.Array, np.ndarray | None]:
    """Dates and times from texts as MySQL writes them."""
    odd = _no_time_form(texts, column.kind)
    if odd.any():
        texts = _without(texts, odd)
    try:
        read = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        # one of them is no day of the calendar
        read, no_day = _one_by_one(texts)
        odd |= no_day
    micros = pc.fill_null(read.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    outside = (micros < EARLIEST) | (micros >= END)
    if column.kind == "datetime":
        utc, unknown = zone.to_utc(micros)
        outside |= unknown
        read = pa.array(utc, mask=np.asarray(read.is_null()))
    odd |= outside & np.asarray(texts.is_valid())
    if column.kind == "date":
        return read.cast(pa.date32()), odd
    return read.cast(pa.int64()).cast(UTC_TIME), odd


def _no_time_form(texts: pa.StringArray, kind: str) -> np.ndarray:
    """Mask of texts that aren't written as MySQL writes a time.

    What is left differs from that form in digits alone, which the cast to a time looks at.
    """
    there = np.asarray(texts.is_valid())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    text = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    length = np.diff(offsets)
    odd = there & ~_TIME_LENGTHS[np.minimum(length, 20 if kind == "date" else 27 - 1)]
    odd |= there & (length > 26)
    if kind == "date":
        odd |= there & (length != 10)
    rows = np.flatnonzero(there & ~odd)
    begin, size = offsets[rows], length[rows]
    wrong = (text[begin + 4] != _DASH) | (text[begin + 7] != _DASH)
    last = text[begin + size - 1]
    wrong |= (last < _ZERO) | (last > _NINE)
    with_time = size > 10
    at = begin[with_time]
    wrong[with_time] |= (
        (text[at + 10] != _SPACE) | (text[at + 13] != _COLON) | (text[at + 16] != _COLON)
    )
    with_fraction = size > 19
    wrong[with_fraction] |= text[begin[with_fraction] + 19] != _POINT
    odd[rows[wrong]] = True
    return odd


def _one_by_one(texts: pa.StringArray) -> tuple[pa.Array, np.ndarray]:
    """Times of texts, and a mask of those that are no time. For the few blocks that hold such."""
    distinct = texts.dictionary_encode()
    read = [_time(text) for text in distinct.dictionary.to_pylist()]
    times = pa.array(read, pa.timestamp("us")).take(distinct.indices)
    return times, np.asarray(texts.is_valid()) & np.asarray(times.is_null())


def _time(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo is None else None
