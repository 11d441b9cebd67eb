"""Numbers and instants that stand in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.values import (
    EARLIEST,
    UTC_TIME,
    Column,
    Decode,
    Values,
    either,
    typed_values,
)
from python_udfs.ingestion.fast.zones import END

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.zones import ConstantOffsets

# digits, a sign before them, a point or exponent: whatever a cast takes beyond that isn't proven
_SIGNS = {"integer": b"-0123456789", "decimal": b"-.0123456789", "float": b"+-.0123456789eE"}
_SIGNS["double"] = _SIGNS["float"]
_FORMS = {"integer": r"^-?[0-9]+$", "float": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"}
_FORMS["double"] = _FORMS["float"]
LONGEST_NUMBER = 100  # bytes of a text
# type of a decimal -> the digits that it holds
_DIGITS_OF = {pa.lib.Type_DECIMAL128: 38, pa.lib.Type_DECIMAL256: 76}


def from_texts(number: Column) -> Column:
    """A column of numbers, written as texts.

    Args:
        number: the same column, written as numbers.
    """
    is_sign = np.zeros(256, bool)
    is_sign[list(_SIGNS[number.kind])] = True
    form, longest = _form_of(number)

    def decode(_: Column, texts: pa.StringArray, zone: ConstantOffsets) -> Values:
        read, odd = _read(texts, number.read, is_sign, form, longest)
        value = typed_values(number, read, zone)
        return value._replace(odd=either(odd, value.odd))

    return number._replace(read=pa.string(), decode=make_decode(decode))


def make_decode(decode: Decode) -> Decode:
    """`decode`, which isn't asked where there is no value."""

    def of_values(column: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
        if values.null_count == len(values):
            return Values(pa.nulls(len(values), column.typed))
        return decode(column, values, zone)

    return of_values


def _form_of(number: Column) -> tuple[str, int]:
    """A regular expression of the texts that are cast to a column's numbers one by one, and the
    least bytes of those that aren't cast without a look at each.

    A cast to a decimal doesn't see where the digits overflow, as they are read or when zeros are
    appended up to the type's places: texts with as many digits are left out.
    """
    kind = number.read
    if pa.types.is_decimal(kind):
        whole, places = max(kind.precision - kind.scale, 1), kind.scale
        fraction = rf"(\.[0-9]{{1,{places}}})?" if places else ""
        return rf"^-?[0-9]{{1,{whole}}}{fraction}$", _DIGITS_OF[kind.id] - places + 1
    return _FORMS[number.kind], LONGEST_NUMBER


def _read(
    texts: pa.StringArray, kind: pa.DataType, is_sign: np.ndarray, form: str, longest: int
) -> tuple[pa.Array, np.ndarray | None]:
    """The numbers, and a mask of texts without a number; None without such.

    Args:
        form, longest: see _form_of.
    """
    if is_sign[bytes_of(texts)].all() and pc.max(pc.binary_length(texts)).as_py() < longest:
        try:
            return texts.cast(kind), None
        except pa.ArrowInvalid:
            pass
    right = pc.and_(
        pc.match_substring_regex(texts, form), pc.less(pc.binary_length(texts), LONGEST_NUMBER)
    )
    right = pc.fill_null(right, True)
    read, odd = cast_each(pc.if_else(right, texts, pa.scalar(None, pa.string())), kind)
    return read, either(odd, ~np.asarray(right))


def instants(form: str, column: Column, texts: pa.Array, zone: ConstantOffsets) -> Values:
    """A column's times with their zone, see read_instants."""
    return read_instants(form, texts)


def read_instants(form: str, texts: pa.Array) -> Values:
    """Times with their zone, of texts.

    Args:
        form: regular expression of those that are read; it has a zone in it.
    """
    right = pc.fill_null(pc.match_substring_regex(texts, form), True)
    kept = pc.if_else(right, texts, pa.scalar(None, pa.string()))
    read, no_day = cast_each(kept, UTC_TIME)
    micros = pc.fill_null(read.cast(pa.int64()), 0).to_numpy()
    odd = ~np.asarray(right) | (micros < EARLIEST) | (micros >= END)
    if no_day is not None:
        odd |= no_day
    return Values(read, odd if odd.any() else None)


def bytes_of(texts: pa.StringArray) -> np.ndarray:
    """The bytes of all texts, one behind the other."""
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return np.zeros(0, np.uint8)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    begin, end = offsets[texts.offset], offsets[texts.offset + len(texts)]
    return np.frombuffer(data, np.uint8)[begin:end]


def cast_each(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, np.ndarray | None]:
    """The texts in a type, and a mask of those that aren't of it; None without such.

    For the few blocks that hold such, each distinct text is looked at.
    """
    try:
        return texts.cast(kind), None
    except pa.ArrowInvalid:
        pass
    distinct = texts.dictionary_encode()
    read = []
    for text in distinct.dictionary:
        try:
            read.append(text.cast(kind))
        except pa.ArrowInvalid:
            read.append(pa.scalar(None, kind))
    known = pa.array([value.as_py() for value in read], kind)
    values = known.take(distinct.indices)
    return values, np.asarray(values.is_null()) & np.asarray(texts.is_valid())
