"""Debezium's values, by the column's type and the connector's settings, see formats.debezium."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.texts import bytes_of, from_texts, instants, make_decode
from python_udfs.ingestion.fast.values import (
    EARLIEST,
    UTC_TIME,
    Column,
    Decode,
    Values,
    column_of,
    micros_of_counts,
)
from python_udfs.ingestion.fast.zones import DAY, END
from python_udfs.ingestion.formats.debezium.values import (
    LONGEST_TIME,
    PLACEHOLDER,
    digits_of_second,
    name_and_length,
)

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.types import SourceType

_TIMESTAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z$"
_LOWEST_SIGNED = 2**63
# of 256 bytes the six bits that each means in base64; 64 for =, 255 for others
_SIX_BITS = np.full(256, 255, np.uint8)
_SIX_BITS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] = range(64)
_SIX_BITS[ord("=")] = _PAD = 64
_MOST_DIGITS = 18  # of a number of 64 bits


def debezium_column(
    name: str, names: tuple[str, ...], kind: SourceType, options: dict[str, str]
) -> Column | None:
    """How a column is read; None where its values can't be proven."""
    found = _json_column(name, names, kind)
    if found is None:
        return None
    declared, length = name_and_length(kind)
    mode = options["time.precision.mode"]
    if kind.kind == "decimal":
        if options["decimal.handling.mode"] == "precise":
            return _of_base64(found)
        return from_texts(found) if options["decimal.handling.mode"] == "string" else found
    if declared == "bit":
        # one bit is a truth value; more are bytes, the lowest first
        if length <= 1:
            return found._replace(read=pa.bool_(), decode=make_decode(_truth_values))
        return found._replace(read=pa.string(), decode=make_decode(partial(_bits, length)))
    if kind.spark == "decimal(20,0)":
        if options["bigint.unsigned.handling.mode"] == "precise":
            return _of_base64(found)
        return found._replace(read=pa.int64(), decode=make_decode(_unsigned))
    if kind.kind == "timestamp":
        return found._replace(read=pa.string(), decode=make_decode(partial(instants, _TIMESTAMP)))
    is_time = kind.kind in ("date", "datetime") or declared == "time"
    if is_time and mode == "isostring":
        return None
    if kind.kind == "date":
        return found._replace(read=pa.int32(), decode=make_decode(_dates))
    if is_time:
        digits = digits_of_second(declared, length, mode)
        decode = partial(_times_of_day, digits, length)
        if kind.kind == "datetime":
            decode = partial(_datetimes, digits)
        return found._replace(read=pa.int64(), decode=make_decode(decode))
    return found


def _json_column(name: str, names: tuple[str, ...], kind: SourceType) -> Column | None:
    if kind.kind == "text":
        return Column(name, names, "text", pa.string(), pa.string(), 0, 0, _texts)
    return column_of(name, names, kind)


def _texts(_: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
    left_out = pc.fill_null(pc.equal(values, PLACEHOLDER), False)
    return Values(values, np.asarray(left_out) if pc.any(left_out).as_py() else None)


def _truth_values(column: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
    return Values(values.cast(pa.int64()).cast(column.typed))


def _unsigned(column: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
    """A number of 64 bits whose first bit was taken for a sign."""
    whole = pc.fill_null(values, 0).to_numpy().view(np.uint64)
    mask = np.asarray(values.is_null())
    return Values(pa.array(whole, mask=mask).cast(column.typed))


def _dates(column: Column, days: pa.Array, zone: ConstantOffsets) -> Values:
    number = pc.fill_null(days, 0).to_numpy().astype(np.int64)
    outside = (number < EARLIEST // DAY) | (number >= END // DAY)
    return Values(days.cast(pa.date32()), outside if outside.any() else None)


def _datetimes(digits: int, column: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
    wall, odd = micros_of_counts(digits, values)
    utc, unknown = zone.to_utc(wall)
    odd = (odd | unknown | (wall < EARLIEST) | (wall >= END)) & np.asarray(values.is_valid())
    typed = pa.array(utc, mask=np.asarray(values.is_null())).cast(UTC_TIME)
    return Values(typed, odd if odd.any() else None)


def _times_of_day(
    digits: int, length: int, column: Column, values: pa.Array, zone: ConstantOffsets
) -> Values:
    """As MySQL writes a TIME of so many decimals."""
    micros, odd = micros_of_counts(digits, values)
    micros = np.where(odd, 0, micros)
    odd |= (np.abs(micros) > LONGEST_TIME) | (micros % 10 ** (6 - length) != 0)
    distinct, place = np.unique(micros, return_inverse=True)
    texts = pa.array([_time_text(int(value), length) for value in distinct], pa.string())
    typed = texts.take(pa.array(place.reshape(-1), mask=np.asarray(values.is_null())))
    return Values(typed, odd if odd.any() else None)


def _time_text(micros: int, length: int) -> str:
    second, fraction = divmod(abs(micros), 10**6)
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    fraction_text = f".{fraction:06d}"[: 1 + length] if length else ""
    return ("-" if micros < 0 else "") + text + fraction_text


def _bits(length: int, column: Column, texts: pa.Array, zone: ConstantOffsets) -> Values:
    most = (length + 7) // 8

    def number(text: str) -> Decimal | None:
        found = _bytes(text)
        if not found or len(found) > most:
            return None
        return Decimal(int.from_bytes(found, "little"))

    return _of_distinct(column, texts, number)


def _bytes(text: str) -> bytes | None:
    """The bytes of base64 as Debezium writes it."""
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if base64.b64encode(found).decode() == text else None


def _of_distinct(
    column: Column, texts: pa.StringArray, number: Callable[[str], Decimal | None]
) -> Values:
    """The numbers of texts, of which each distinct text is looked at."""
    distinct = texts.dictionary_encode()
    read = [number(text) for text in distinct.dictionary.to_pylist()]
    beyond = [value is not None and not column.low <= value <= column.high for value in read]
    known = [None if far else value for value, far in zip(read, beyond, strict=True)]
    typed = pa.array(known, column.typed).take(distinct.indices)
    odd = np.asarray(typed.is_null()) & np.asarray(texts.is_valid())
    return Values(typed, odd if odd.any() else None)


def _of_base64(number: Column) -> Column:
    """A column of numbers that are written as base64 of their bytes, without their point."""
    digits, places = number.typed.precision, number.typed.scale

    def unscaled(text: str) -> Decimal | None:
        found = _bytes(text)
        if not found or len(found) > 16:
            return None
        value = int.from_bytes(found, "big", signed=True)
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -places))

    def of_any_size(column: Column, texts: pa.StringArray, zone: ConstantOffsets) -> Values:
        return _of_distinct(column, texts, unscaled)

    def of_64_bits(column: Column, texts: pa.StringArray, zone: ConstantOffsets) -> Values:
        value, odd = _unscaled(texts)
        odd |= (value >= 10**digits) | (value <= -(10**digits))
        value[odd] = 0
        odd &= np.asarray(texts.is_valid())
        typed = _decimals(value, np.asarray(texts.is_valid()), column.typed)
        return Values(typed, odd if odd.any() else None)

    decode: Decode = of_64_bits if digits <= _MOST_DIGITS else of_any_size
    return number._replace(read=pa.string(), decode=make_decode(decode))


def _decimals(unscaled: np.ndarray, is_valid: np.ndarray, kind: pa.Decimal128Type) -> pa.Array:
    """Decimals of their digits, int64."""
    words = np.stack((unscaled, unscaled >> 63), axis=1)
    bits = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(unscaled), [bits, pa.py_buffer(words)])


def _unscaled(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of base64 of at most 8 bytes, and a mask of texts that are something else.

    Null is in the mask.
    """
    value, odd = np.zeros(len(texts), np.int64), np.full(len(texts), True)
    length = pc.fill_null(pc.binary_length(texts), 0).to_numpy()
    begin = np.cumsum(length) - length
    text = bytes_of(texts)
    for size in (4, 8, 12):
        rows = np.flatnonzero(length == size)
        if not len(rows):
            continue
        six = _SIX_BITS[text[begin[rows][:, None] + np.arange(size)]]
        pads = (six[:, -1] == _PAD).astype(np.int64) + ((six[:, -2] == _PAD) & (six[:, -1] == _PAD))
        code = six.astype(np.uint64)
        code[:, -2:][six[:, -2:] == _PAD] = 0
        right = (six[:, :-2] < _PAD).all(axis=1) & (code[:, -2:] < _PAD).all(axis=1)
        right &= (six[:, -2] != _PAD) | (pads == 2)
        # the bits behind the last byte are 0
        right &= (pads != 1) | (code[:, -2] & np.uint64(3) == 0)
        right &= (pads != 2) | (code[:, -3] & np.uint64(15) == 0)
        count = size // 4 * 3 - pads
        right &= count <= 8
        # the bytes' bits, the last byte lowest: what stands behind them is shifted out
        bits = np.zeros(len(rows), np.uint64)
        behind = 6 * size - 8 * np.minimum(count, 8)
        for number in range(size):
            shift = 6 * (size - 1 - number) - behind
            up = np.clip(shift, 0, 63).astype(np.uint64)
            down = np.clip(-shift, 0, 63).astype(np.uint64)
            bits |= (code[:, number] << up) >> down
        unused = np.clip(64 - 8 * count, 0, 63).astype(np.uint64)
        signed = (bits << unused).view(np.int64) >> unused.astype(np.int64)
        value[rows], odd[rows] = np.where(right, signed, 0), ~right
    return value, odd
