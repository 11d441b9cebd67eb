"""Values of a source column, from what a strict JSON parser read to the typed model's type."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.zones import END, SECOND
from python_udfs.ingestion.tables.types import FLOAT_DIGITS, MAX_PRECISION, OF_DAYS

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.types import SourceType

# kinds of columns whose values can be proven
KINDS = ("integer", "decimal", "float", "double", "text", *OF_DAYS)
UTC_TIME = pa.timestamp("us", "UTC")
# Spark's types but decimals -> what a value is read as, and what it becomes
_READ_AND_TYPED = {
    "int": (pa.int64(), pa.int32()),
    "bigint": (pa.int64(), pa.int64()),
    "decimal(20,0)": (pa.decimal128(20, 0), pa.decimal128(20, 0)),
    "float": (pa.float64(), pa.float32()),
    "double": (pa.float64(), pa.float64()),
    "string": (pa.string(), pa.string()),
}
EARLIEST = -30_610_224_000 * SECOND  # 1000-01-01, the first that MySQL promises to hold
_TENS = np.array([float(f"1e{power}") for power in range(23)])  # those that a double holds
FIRST_YEAR = "1000"
# a date or time as MySQL writes it, also one that the calendar lacks: that of tables.types
_TIME = re.compile(
    r"[0-9]{4}-(0[0-9]|1[0-2])-([0-2][0-9]|3[01])"
    r"( ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?)?"
)
# lengths of a date, of a date with time, and with one to six digits of a second's fraction
_TIME_LENGTHS = np.zeros(27, bool)
_TIME_LENGTHS[[10, 19, *range(21, 27)]] = True
_SPACE, _POINT, _DASH, _COLON, _ZERO, _NINE = b" .-:09"


Decode = Callable[["Column", pa.Array, "ConstantOffsets"], "Values"]


class Column(NamedTuple):
    """A column to be read.

    Attributes:
        name: as declared.
        names: that it may have in the log.
        kind: of KINDS.
        read: type that it is read as from JSON.
        typed: type that it becomes.
        low, high: bounds of an integer or a decimal, both inclusive; 0 and 0 for other kinds.
        decode: makes Values of what was read.
    """

    name: str
    names: tuple[str, ...]
    kind: str
    read: pa.DataType
    typed: pa.DataType
    low: int | Decimal
    high: int | Decimal
    decode: Decode

    @property
    def is_text(self) -> bool:
        """Whether its values stand in quotes."""
        return pa.types.is_string(self.read)


class Values(NamedTuple):
    """Values of a column in its type.

    Attributes:
        typed: the values.
        odd: mask of those that aren't proven; None where all are.
        lost: mask of those that the type can't hold though MySQL does, 0000-00-00 among them: they
            are null in `typed`, and their texts are kept; None without such.
    """

    typed: pa.Array
    odd: np.ndarray | None = None
    lost: np.ndarray | None = None


def column_of(name: str, names: tuple[str, ...], kind: SourceType) -> Column | None:
    """How a column is read; None where its values can't be proven."""
    # a SET is a list of its labels
    if kind.kind not in KINDS or kind.declared.lower().startswith("set"):
        return None
    if kind.kind in OF_DAYS:
        typed = pa.date32() if kind.kind == "date" else UTC_TIME
        return Column(name, names, kind.kind, pa.string(), typed, 0, 0, typed_values)
    if kind.kind == "decimal":
        return _decimal(name, names, kind.spark)
    read, typed = _READ_AND_TYPED[kind.spark]
    return Column(name, names, kind.kind, read, typed, kind.low, kind.high, typed_values)


def _decimal(name: str, names: tuple[str, ...], spark: str) -> Column:
    """A decimal column, read as a type that holds what the parser makes of any number.

    The parser refuses a number of more digits or places than the type has. It then appends zeros up
    to the type's places, and doesn't look whether the digits still fit: a bound does.
    """
    digits, places = map(int, spark[len("decimal(") : -1].split(","))
    typed = pa.decimal128(digits, places)
    read = pa.decimal256(digits, places) if digits + places > MAX_PRECISION else typed
    highest = Decimal((0, (9,) * digits, -places))
    return Column(name, names, "decimal", read, typed, highest.copy_negate(), highest, typed_values)


def either(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    """Mask of what is in one of two masks, of which None has nothing."""
    if left is None or right is None:
        return right if left is None else left
    return left | right


def typed_values(column: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
    """The values in the column's type."""
    if values.null_count == len(values):
        return Values(pa.nulls(len(values), column.typed))
    if column.kind in OF_DAYS:
        return _times(column, values, zone)
    if column.kind in ("integer", "decimal"):
        odd = _out_of_bounds(column, values)
    elif column.kind in ("float", "double"):
        odd = _ambiguous_floats(column, values)
    else:
        return Values(values)
    if column.typed == column.read:
        return Values(values, odd)
    kept = values if odd is None else _without(values, odd)
    return Values(kept.cast(column.typed, safe=column.kind != "float"), odd)


def _ambiguous_floats(column: Column, values: pa.Array) -> np.ndarray | None:
    """Mask of numbers that two parsers may read as different numbers, or that are no value of the
    column's type; None without such.

    Those beyond the type; -0, which is a whole number to one parser and has a sign to another; and
    for a float of 32 bits doubles with more digits than it has.
    """
    read = values.to_numpy(zero_copy_only=False)
    there = np.asarray(values.is_valid())
    odd = ~np.isfinite(read) | ((read == 0) & np.signbit(read))
    if column.typed == pa.float32():
        with np.errstate(over="ignore"):
            single = read.astype(np.float32)
        odd |= ~np.isfinite(single)
        longer = np.flatnonzero(~odd & (single.astype(np.float64) != read))
        odd[longer[~_has_few_digits(np.abs(read[longer]))]] = True
    odd &= there
    return odd if odd.any() else None


def _has_few_digits(size: np.ndarray) -> np.ndarray:
    """Mask of numbers that are written with the digits of a float, see tables.types.

    A whole number of so many digits and a power of ten that a double holds give the double that is
    nearest to what was written; other powers aren't looked at.

    Args:
        size: doubles above 0.
    """
    places = FLOAT_DIGITS - 1 - np.floor(np.log10(size)).astype(np.int64)
    power = _TENS[np.minimum(np.abs(places), len(_TENS) - 1)]
    digits = np.rint(np.where(places < 0, size / power, size * power))
    found = np.where(places < 0, digits * power, digits / power) == size
    return found & (digits <= 10.0**FLOAT_DIGITS) & (np.abs(places) < len(_TENS))


def _without(values: pa.Array, odd: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(odd), pa.scalar(None, values.type), values)


def _out_of_bounds(column: Column, values: pa.Array) -> np.ndarray | None:
    """Mask of numbers that the column can't hold; None without such."""
    extremes = pc.min_max(values).as_py()
    if extremes["min"] >= column.low and extremes["max"] <= column.high:
        return None
    low, high = (
        Decimal(bound) if pa.types.is_decimal(values.type) else bound
        for bound in (column.low, column.high)
    )
    low, high = (pa.scalar(bound, values.type) for bound in (low, high))
    odd = pc.or_(pc.less(values, low), pc.greater(values, high))
    return np.asarray(pc.fill_null(odd, False))


def _times(column: Column, texts: pa.StringArray, zone: ConstantOffsets) -> Values:
    """Dates and times from texts as MySQL writes them."""
    there = np.asarray(texts.is_valid())
    odd, lost = _time_forms(texts, there, column.kind)
    left = odd | lost
    if left.any():
        texts = _without(texts, left)
    try:
        read = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        # one of them is no day of the calendar
        read, no_day = _one_by_one(texts)
        lost |= no_day
        odd |= ~no_day & there & ~left & np.asarray(read.is_null())
    there = np.asarray(read.is_valid())
    micros = pc.fill_null(read.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    outside = (micros < EARLIEST) | (micros >= END)
    if column.kind == "datetime":
        utc, unknown = zone.to_utc(micros)
        outside |= unknown
        read = pa.array(utc, mask=~there)
    odd |= outside & there
    typed = read.cast(pa.date32()) if column.kind == "date" else in_utc(read)
    return Values(typed, odd if odd.any() else None, lost if lost.any() else None)


def micros_of_counts(digits: int, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds of what counts so many digits of a second; and a mask of those beyond bounds."""
    number = pc.fill_null(values, 0).to_numpy()
    per_micro = 10 ** abs(digits - 6)
    if digits > 6:
        return number // per_micro, number % per_micro != 0
    outside = (number < EARLIEST // per_micro) | (number >= END // per_micro)
    return np.where(outside, 0, number) * per_micro, outside


def in_utc(times: pa.Array) -> pa.Array:
    return times.cast(pa.int64()).cast(UTC_TIME)


def _time_forms(
    texts: pa.StringArray, there: np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Masks of texts that aren't written as MySQL writes a time, and of those in month or day 0.

    What is left differs from that form in digits alone, which the cast to a time looks at.

    Args:
        there: mask of texts that aren't null.
    """
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
    zero = np.zeros(len(texts), bool)
    for first in (5, 8):  # places of the month and of the day
        zero[rows] |= (text[begin + first] == _ZERO) & (text[begin + first + 1] == _ZERO)
    zero &= ~odd
    if zero.any():
        zeros = np.flatnonzero(zero)
        no_form = [not _TIME.fullmatch(text) for text in texts.take(pa.array(zeros)).to_pylist()]
        odd[zeros[no_form]], zero[zeros[no_form]] = True, False
    return odd, zero


def _one_by_one(texts: pa.StringArray) -> tuple[pa.Array, np.ndarray]:
    """Times of texts, and a mask of those whose day the calendar lacks: 2026-02-30.

    For the few blocks that hold such. What is neither is null, and not in the mask.
    """
    distinct = texts.dictionary_encode()
    listed = distinct.dictionary.to_pylist()
    read = [_time(text) for text in listed]
    times = pa.array(read, pa.timestamp("us")).take(distinct.indices)
    lost = [
        time is None and text >= FIRST_YEAR and _TIME.fullmatch(text) is not None
        for text, time in zip(listed, read, strict=True)
    ]
    no_day = pa.array(lost, pa.bool_()).take(distinct.indices)
    return times, np.asarray(pc.fill_null(no_day, False))


def _time(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo is None else None
