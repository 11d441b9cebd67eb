"""Lines of JSON objects whose structure is proven from their bytes.

A parser of many lines at once is lax where one of a single line isn't: objects glued on a line are
two rows, an object may span lines, a bare `null` ends the process, NaN and deep nesting pass where
nobody declared the column. So the structure is read from quotes and braces first. What is left is a
line that holds one object, in which at most two members are objects, with no lists, and no blanks
between its tokens: as producers write rows. Whatever else there is isn't proven.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.names import PADDING

LONGEST = 1 << 20  # bytes of a line. A parser has bounds on texts and names, far beyond this
LONGEST_NUMBER = 400  # bytes; a parser refuses those of over 1000
LONGEST_NAME = PADDING - 8  # bytes
NEWLINE, QUOTE, COMMA, MINUS, COLON = b'\n",-:'
BACKSLASH, OPEN, CLOSE = b"\\{}"
LETTER_N = ord("n")  # a value that begins so is null
# what a value may begin with: a text, a number, an object, true, false, null
_BEGINS = np.zeros(256, bool)
_BEGINS[list(b'"-0123456789{tfn')] = True
_DIGITS = np.zeros(256, bool)
_DIGITS[list(b"0123456789")] = True
IS_NUMBER = np.zeros(256, bool)
IS_NUMBER[list(b"-0123456789")] = True
_ONE_OBJECT = np.array([OPEN, OPEN, CLOSE, CLOSE])
_TWO_OBJECTS = np.array([OPEN, OPEN, CLOSE, OPEN, CLOSE, CLOSE])


class Lines(NamedTuple):
    """Lines of proven structure.

    Attributes:
        texts: the lines, string array, each with its newline.
        bytes: uint8, of all lines, PADDING behind them.
        row, begin, length, value: of each key, in order: int64 number of its line, place of its
            first byte, its bytes; uint8 first byte of its value.
        objects: int64 (lines, 4): begin and end of the first and second object within the line's,
            the places of their braces; the second's are -1 where there is none.
    """

    texts: pa.StringArray
    bytes: np.ndarray
    row: np.ndarray
    begin: np.ndarray
    length: np.ndarray
    value: np.ndarray
    objects: np.ndarray

    def key_range(self, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the first key behind each of some places, and behind others."""
        return np.searchsorted(self.begin, begin), np.searchsorted(self.begin, end)


def proven_lines(texts: pa.StringArray) -> tuple[np.ndarray, Lines | None]:
    """The lines whose structure is proven: their numbers, int64, and what was read of them.

    Args:
        texts: each ends in a newline, or is null. In UTF-8.
    """
    kept = np.arange(len(texts))
    checks = [_of_no_size, _odd_bytes]
    while len(kept):
        # a line whose quotes or braces are odd may hide what its neighbours are: read again
        found = checks.pop(0)(texts) if checks else _read(texts)
        if isinstance(found, Lines):
            return kept, found
        if found.any():
            kept, texts = kept[~found], texts.filter(pa.array(~found))
    return kept, None


def _places(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of the lines, and where each begins and has its newline."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[
        texts.offset : texts.offset + len(texts) + 1
    ]
    data = texts.buffers()[2] or b""
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets.astype(np.int64) - offsets[0]
    return used, offsets[:-1], offsets[1:] - 1


def _rows(begins: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.searchsorted(begins, places, side="right") - 1


def _of_no_size(texts: pa.StringArray) -> np.ndarray:
    """Mask of lines that are null, shorter than an object or too long."""
    length = pc.fill_null(pc.binary_length(texts), 0).to_numpy()
    return (length < len("{}\n")) | (length > LONGEST)


def _odd_bytes(texts: pa.StringArray) -> np.ndarray:
    """Mask of lines that don't go from brace to brace, are no UTF-8 or have control characters."""
    text, begin, end = _places(texts)
    odd = (text[begin] != OPEN) | (text[end - 1] != CLOSE) | (text[end] != NEWLINE)
    control = text < 32
    if np.count_nonzero(control) != len(begin):
        places = np.flatnonzero(control)
        odd[_rows(begin, places[~np.isin(places, end)])] = True
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row in range(len(begin)):
            try:
                text[begin[row] : end[row]].tobytes().decode("utf-8")
            except UnicodeDecodeError:
                odd[row] = True
    return odd


def _escapes(places: np.ndarray) -> np.ndarray:
    """Those of the backslashes' places that aren't escaped themselves."""
    begins = np.append(True, np.diff(places) != 1)
    number = np.arange(len(places)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
    return places[number % 2 == 0]


def _odd_escapes(text: np.ndarray, escapes: np.ndarray) -> np.ndarray:
    """Those of the escapes that are half a character."""
    escapes = escapes[text[escapes + 1] == ord("u")]
    sign = text[escapes[:, None] + np.arange(2, 6)]
    is_surrogate = (sign[:, 0] | 32) == ord("d")
    second = sign[:, 1] | 32  # in lower case
    is_high = is_surrogate & ((second == ord("8")) | (second == ord("9")) | (second == ord("a")))
    is_high |= is_surrogate & (second == ord("b"))
    is_low = is_surrogate & (second >= ord("c"))
    follows = np.append(False, np.diff(escapes) == len("\\ud83d"))
    completed = is_low & follows & np.append(False, is_high[:-1])
    completes = is_high & np.append(completed[1:], False)
    return escapes[(is_low & ~completed) | (is_high & ~completes)]


def _marks(text: np.ndarray, backslashes: np.ndarray) -> np.ndarray:
    """Those of the backslashes that may be within the mark of a number.

    Such a mark is what formats.exact_numbers puts before numbers: the escapes of the control
    characters 1, 2 and 1. Of these the second is the rarest. An escaped backslash counts too.
    """
    sign = text[backslashes[:, None] + np.arange(1, 6)]
    return backslashes[(sign == np.frombuffer(b"u0002", np.uint8)).all(axis=1)]


def _read(texts: pa.StringArray) -> Lines | np.ndarray:
    """The lines' structure, or a mask of those that have another."""
    text, begin, end = _places(texts)
    count, odd = len(begin), np.zeros(len(begin), bool)
    text = np.concatenate((text, np.zeros(PADDING, np.uint8)))
    quotes = np.flatnonzero(text == QUOTE)
    backslashes = np.flatnonzero(text == BACKSLASH)
    if len(backslashes):
        escapes = _escapes(backslashes)
        odd[_rows(begin, _marks(text, backslashes))] = True
        odd[_rows(begin, _odd_escapes(text, escapes))] = True
        escaped = escapes + 1
        quotes = np.delete(quotes, np.searchsorted(quotes, escaped[text[escaped] == QUOTE]))
    first = np.searchsorted(quotes, np.append(begin, end[-1] + 1))
    odd |= np.diff(first) % 2 == 1
    if odd.any():
        return odd
    # strings: a key stands behind { or , and before a colon; a text between : and , or }
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = text[opening - 1], text[closing + 1]
    is_key = after == COLON
    right = np.where(
        is_key,
        (before == OPEN) | (before == COMMA),
        (before == COLON) & ((after == COMMA) | (after == CLOSE)),
    )
    odd[_rows(begin, opening[~right])] = True
    key_begin, key_end = opening[is_key] + 1, closing[is_key]
    length, value = key_end - key_begin, text[key_end + 2]
    wrong = ~_BEGINS[value] | (length > LONGEST_NAME)
    wrong |= (value == MINUS) & ~_DIGITS[text[key_end + 3]]
    # the next key begins behind the number
    spread = np.diff(np.append(key_end, len(text)))
    wrong |= IS_NUMBER[value] & (spread > LONGEST_NUMBER + LONGEST_NAME + PADDING)
    odd[_rows(begin, key_begin[wrong])] = True
    if odd.any():
        return odd
    braces = np.flatnonzero((text == OPEN) | (text == CLOSE))
    braces = braces[np.searchsorted(quotes, braces) % 2 == 0]  # those outside of strings
    first_brace = np.searchsorted(braces, np.append(begin, end[-1] + 1))
    braces_of = np.diff(first_brace)
    objects = np.full((count, 4), -1, np.int64)
    odd = (braces_of != len(_ONE_OBJECT)) & (braces_of != len(_TWO_OBJECTS))
    for pattern in (_ONE_OBJECT, _TWO_OBJECTS):
        rows = np.flatnonzero(braces_of == len(pattern))
        places = braces[first_brace[rows][:, None] + np.arange(len(pattern))]
        right = (text[places] == pattern).all(axis=1)
        # the line's own object is the outer one, from its first to its last byte
        right &= (places[:, 0] == begin[rows]) & (places[:, -1] == end[rows] - 1)
        odd[rows[~right]] = True
        objects[rows, : len(pattern) - 2] = places[:, 1:-1]
    if odd.any():
        return odd
    keys_of = np.diff(np.searchsorted(key_begin, np.append(begin, end[-1] + 1)))
    row = np.repeat(np.arange(count), keys_of)
    return Lines(texts, text, row, key_begin, length, value, objects)
