"""Decimals with a negative exponent, found among the bytes of many lines.

A parser divides such a decimal by a power of ten from behind the end of its table of these: 1e-500
may become 0, and 1e-214748364 ends the process. It takes a decimal from a text, too. So lines that
may hold one are found before it reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from python_udfs.ingestion.fast.lines import (
    BACKSLASH,
    CASE,
    COLON,
    LETTER_E,
    LONGEST_NAME,
    MINUS,
    OF_NUMBER,
    QUOTE,
    one_of,
)

_BLANK, _BEFORE_COLON = one_of(b" "), one_of(b'" ')
_ESCAPE = np.frombuffer(b"u00", np.uint8)
# of a number's signs their two digits in an escape, in small letters
_SIGNS = [int.from_bytes(f"{sign:02x}".encode(), "big") for sign in b"+-.0123456789eE"]


def _decimal_names(schema: pa.Schema | pa.StructType) -> Iterator[bytes]:
    """The names of the members that are read as decimals, however deep they are."""
    for field in schema:
        if pa.types.is_decimal(field.type):
            yield field.name.encode()
        elif pa.types.is_list(field.type):
            yield from _decimal_names(pa.struct([field.type.value_field]))
        elif pa.types.is_struct(field.type):
            yield from _decimal_names(field.type)


def negative_exponents(text: np.ndarray, schema: pa.Schema) -> np.ndarray:
    """Places, int64, in the lines that may have a decimal with a negative exponent; none where no
    member is read as a decimal.

    Args:
        text: bytes of lines that each begin with a brace, PADDING behind them.
        schema: members that are read.
    """
    names = set(_decimal_names(schema))
    if not names:
        return np.arange(0)
    minus = np.flatnonzero(text == MINUS)
    before = _before(text, minus[(text[minus - 1] | CASE) == LETTER_E] - 2, OF_NUMBER)
    place = _before(text, before, _BLANK)
    bare = place[(text[place] == COLON) & _BEFORE_COLON[text[place - 1]]]
    quoted = before[text[before] == QUOTE]
    if len(quoted):
        data = text.tobytes()
        quoted = quoted[[_may_be_of(data, int(quote), names) for quote in quoted]]
    return np.concatenate((bare, quoted, _escaped_signs(text)))


def _before(text: np.ndarray, place: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The last place up to each place that has another sign than these."""
    place = place.copy()
    moving = np.arange(len(place))
    while len(moving):
        moving = moving[signs[text[place[moving]]]]
        place[moving] -= 1
    return place


def _may_be_of(data: bytes, quote: int, names: Collection[bytes]) -> bool:
    """Whether the text that begins at a quote may be the value of a member of some names."""
    given = data[max(quote - 4 * LONGEST_NAME, 0) : quote].rstrip(b" ")
    if given and not given.endswith(b":"):
        return False
    head, _, name = given[:-1].rstrip(b" ").removesuffix(b'"').rpartition(b'"')
    return not head or name in names or b"\\" in name or head.endswith(b"\\")


def _escaped_signs(text: np.ndarray) -> np.ndarray:
    """Places of escapes that may stand for signs of a number."""
    place = np.flatnonzero(text == BACKSLASH)
    place = place[(text[place[:, None] + np.arange(1, 4)] == _ESCAPE).all(axis=1)]
    digits = (text[place[:, None] + np.arange(4, 6)] | CASE).astype(np.int64)
    return place[np.isin(256 * digits[:, 0] + digits[:, 1], _SIGNS)]
