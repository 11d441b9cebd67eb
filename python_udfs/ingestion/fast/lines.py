"""Lines of JSON objects whose structure is proven from their bytes.

A parser of many lines at once is lax where one of a single line isn't: objects glued on a line are
two rows, an object may span lines, a bare `null` ends the process, NaN and deep nesting pass where
nobody declared the column. So the structure is read from quotes and braces first. What is left is a
line that holds one object, with no blanks beside its texts and names, and with lists of texts,
objects and lists alone: as producers write rows. Whatever else there is isn't proven.
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
BACKSLASH, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = b"\\{}[]"
LETTER_CAPITAL_N, LETTER_CAPITAL_I = b"NI"
LETTER_E, LETTER_N = b"en"  # of an exponent; a value that begins with n is null
CASE = 32  # the bit by which [ and { differ, ] and }, capitals and small letters
DEEPEST = 100  # levels of objects and lists. A parser has a bound, far beyond this


def one_of(signs: bytes) -> np.ndarray:
    """Mask of the 256 bytes."""
    mask = np.zeros(256, bool)
    mask[list(signs)] = True
    return mask


# what a value may begin with: a text, a number, an object, a list, true, false, null
_BEGINS = one_of(b'"-0123456789{[tfn')
_DIGITS = one_of(b"0123456789")
IS_NUMBER = one_of(b"-0123456789")
OF_NUMBER = one_of(b"+-.0123456789eE")
# of NaN and Inf, and what may stand before such a value
_AN, _NF = (np.frombuffer(word, np.uint8) for word in (b"aN", b"nf"))
_BEFORE_VALUE = one_of(b":,[- ")
_LONGEST_OBJECT = 1 << 15  # bytes. A parser has a bound on names, beyond this
# objects and lists of a line, however they are nested; a parser has a bound on levels, beyond this
DEEPEST_OBJECTS = 900
_STEP = 16  # each so many bytes a line is looked at for long numbers
# what may stand around a text that is no name, and begin an element of a list
_BEFORE_TEXT, _AFTER_TEXT, _ELEMENT = one_of(b":,["), one_of(b",}]"), one_of(b'"{[')


class Lines(NamedTuple):
    """Lines of proven structure.

    Attributes:
        texts: the lines, string array, each with its newline.
        bytes: uint8, of all lines, PADDING behind them.
        row, begin, length, value: of each key, in order: int64 number of its line, place of its
            first byte, its bytes; uint8 first byte of its value.
        brackets, bracket_row, level: of each brace and bracket outside of texts, in order: int64
            its place, number of its line, and the level of what it begins or ends: 1 for the line's
            own object.
    """

    texts: pa.StringArray
    bytes: np.ndarray
    row: np.ndarray
    begin: np.ndarray
    length: np.ndarray
    value: np.ndarray
    brackets: np.ndarray
    bracket_row: np.ndarray
    level: np.ndarray

    def parts(self, level: int) -> Parts:
        """The objects and lists of a level."""
        # of one level beginnings and ends take turns
        places = np.flatnonzero(self.level == level)
        first, last = places[0::2], places[1::2]
        begin, end = self.brackets[first], self.brackets[last]
        key = np.searchsorted(self.begin, begin) - 1  # the last key before it
        is_value = (key >= 0) & (self.begin[key] + self.length[key] + len('":') == begin)
        keys = (np.searchsorted(self.begin, begin), np.searchsorted(self.begin, end))
        return Parts(
            begin,
            end,
            *keys,
            last - first == 1,
            self.bracket_row[first],
            np.where(is_value, key, -1),
        )


class Parts(NamedTuple):
    """Objects and lists of one level, in order.

    Attributes:
        begin, end: int64 places of their brackets.
        first, last: int64 numbers of the first key within, and of the first key behind.
        is_flat: mask of those without objects and lists in them.
        row: int64 number of the line.
        key: int64 number of the key whose value it is, -1 for an element of a list.
    """

    begin: np.ndarray
    end: np.ndarray
    first: np.ndarray
    last: np.ndarray
    is_flat: np.ndarray
    row: np.ndarray
    key: np.ndarray

    def where(self, mask: np.ndarray) -> Parts:
        return Parts(*(values[mask] for values in self))


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


def object_lines(texts: pa.StringArray) -> tuple[np.ndarray, pa.StringArray]:
    """The lines that are an object each, if a parser finds as many objects in all of them as there
    are lines: their numbers, int64, and the lines.

    Each begins and ends with a brace. So no object goes on in the next line: behind `}` the parser
    expects a comma there, and it takes no text with a newline. And each line holds an object at
    least. What a parser of many lines passes and others don't is left out: NaN, infinity, and in
    long lines deep nesting and long numbers.

    Args:
        texts: see proven_lines.
    """
    kept = np.arange(len(texts))
    for check in (_of_no_size, _odd_bytes, _lax_values):
        if len(kept):
            odd = check(texts)
            if odd.any():
                kept, texts = kept[~odd], texts.filter(pa.array(~odd))
    return kept, texts


def _lax_values(texts: pa.StringArray) -> np.ndarray:
    """Mask of lines that may hold what a strict parser of one line refuses, see object_lines."""
    text, begin, end = _places(texts)
    odd = end - begin > _LONGEST_OBJECT
    places = np.flatnonzero((text == LETTER_CAPITAL_N) | (text == LETTER_CAPITAL_I))
    word = text[places[:, None] + np.arange(1, 3)]
    named = ((word == _AN) | (word == _NF)).all(axis=1)
    places = places[named & _BEFORE_VALUE[text[places - 1]]]
    odd[rows_at(begin, places)] = True
    longest = (end - begin).max()
    if longest > 2 * DEEPEST_OBJECTS:
        opens = np.flatnonzero((text | CASE) == OPEN)
        odd |= np.diff(np.searchsorted(opens, np.append(begin, len(text)))) > DEEPEST_OBJECTS
    if longest > LONGEST_NUMBER:
        in_numbers = np.cumsum(OF_NUMBER[text[::_STEP]])
        steps = LONGEST_NUMBER // _STEP
        runs = np.flatnonzero(in_numbers[steps:] - in_numbers[:-steps] == steps)
        # the middle: by chance its ends may stand in the lines beside it
        odd[rows_at(begin, (runs + 1 + steps // 2) * _STEP)] = True
    return odd


def _places(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of the lines, and where each begins and has its newline."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[
        texts.offset : texts.offset + len(texts) + 1
    ]
    data = texts.buffers()[2] or b""
    used = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets.astype(np.int64) - offsets[0]
    return used, offsets[:-1], offsets[1:] - 1


def rows_at(begins: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Numbers of the lines, which begin at `begins`, that some places are in."""
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
        odd[rows_at(begin, places[~np.isin(places, end)])] = True
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


class Quotes(NamedTuple):
    """Where the lines' texts begin and end.

    Attributes:
        bytes: uint8, of all lines, PADDING behind them.
        begin, end: int64 places of each line's first byte and of its newline.
        places: int64 of the quotes that begin or end a text, in order.
        backslashes: int64 places.
        odd: mask of lines with half a character, or with what may be the mark of a number.
    """

    bytes: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    places: np.ndarray
    backslashes: np.ndarray
    odd: np.ndarray


def quotes_of(texts: pa.StringArray) -> Quotes:
    """The quotes of lines that begin and end with a brace."""
    text, begin, end = _places(texts)
    odd = np.zeros(len(begin), bool)
    text = np.concatenate((text, np.zeros(PADDING, np.uint8)))
    is_quote = text == QUOTE
    backslashes = np.flatnonzero(text == BACKSLASH)
    if len(backslashes):
        escapes = _escapes(backslashes)
        odd[rows_at(begin, _marks(text, backslashes))] = True
        odd[rows_at(begin, _odd_escapes(text, escapes))] = True
        is_quote[escapes + 1] = False
    return Quotes(text, begin, end, np.flatnonzero(is_quote), backslashes, odd)


def _read(texts: pa.StringArray) -> Lines | np.ndarray:
    """The lines' structure, or a mask of those that have another."""
    text, begin, end, quotes, backslashes, odd = quotes_of(texts)
    count = len(begin)
    first = np.searchsorted(quotes, np.append(begin, end[-1] + 1))
    odd |= np.diff(first) % 2 == 1
    if odd.any():
        return odd
    # strings: a key stands behind { or , and before a colon; a text behind : or [ or ,
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = text[opening - 1], text[closing + 1]
    is_key = after == COLON
    right = np.where(
        is_key, (before == OPEN) | (before == COMMA), _BEFORE_TEXT[before] & _AFTER_TEXT[after]
    )
    odd[rows_at(begin, opening[~right])] = True
    key_begin, key_end = opening[is_key] + 1, closing[is_key]
    length, value = key_end - key_begin, text[key_end + 2]
    wrong = ~_BEGINS[value] | (length > LONGEST_NAME)
    wrong |= (value == MINUS) & ~_DIGITS[text[key_end + 3]]
    # the next key begins behind the number
    spread = np.append(key_begin[1:], len(text)) - key_end
    wrong |= IS_NUMBER[value] & (spread > LONGEST_NUMBER + PADDING)
    odd[rows_at(begin, key_begin[wrong])] = True
    if len(backslashes):  # a name with an escape may be another name
        of_text = (np.searchsorted(quotes, backslashes) - 1) // 2
        odd[rows_at(begin, backslashes[is_key[of_text]])] = True
    if odd.any():
        return odd
    brackets = _brackets(text, quotes)
    first_bracket = np.searchsorted(brackets, np.append(begin, end[-1] + 1))
    row = np.repeat(np.arange(count), np.diff(first_bracket))
    opens = (text[brackets] | CASE) == OPEN
    depth = np.cumsum(np.where(opens, 1, -1))
    depth_before = np.append(0, depth)[first_bracket[:-1]]  # not 0 behind a line that is unbalanced
    level = depth - depth_before[row] + ~opens
    if (text[brackets] == OPEN_LIST).any():
        odd[row[_odd_lists(text, brackets, row)]] = True
        after_texts = closing[after == COMMA]
        odd[rows_at(begin, after_texts[~_ELEMENT[text[after_texts + 2]]])] = True
    # a line has one object of its own, from its first to its last byte
    odd |= np.bincount(row[level == 1], minlength=count) != 2
    odd |= brackets[first_bracket[1:] - 1] != end - 1
    odd[row[(level < 1) | (level > DEEPEST)]] = True
    if odd.any():
        return odd
    keys_of = np.diff(np.searchsorted(key_begin, np.append(begin, end[-1] + 1)))
    row_of_key = np.repeat(np.arange(count), keys_of)
    return Lines(texts, text, row_of_key, key_begin, length, value, brackets, row, level)


def _brackets(text: np.ndarray, quotes: np.ndarray) -> np.ndarray:
    """Places of braces and brackets outside of strings."""
    # { [ } ] are 123 91 125 93: 0 or 2 when 32 is set and 123 taken away. In place, as these are
    # all bytes
    sign = text | np.uint8(CASE)
    sign -= np.uint8(OPEN)
    sign &= np.uint8(255 - (CLOSE - OPEN))
    places = np.flatnonzero(sign == 0)
    return places[np.searchsorted(quotes, places) % 2 == 0]


def _odd_lists(text: np.ndarray, brackets: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Mask of brackets behind which a list's element may be neither text, object nor list."""
    sign, after = text[brackets], text[brackets + 1]
    begins = (sign == OPEN_LIST) & ~(_ELEMENT[after] | (after == CLOSE_LIST))
    ends = ((sign | CASE) == CLOSE) & (after == COMMA) & ~_ELEMENT[text[brackets + 2]]
    return begins | ends
