"""Lines of JSON objects that are proven by how many quotes they have.

A parser reads all members of a line, those that nobody declared too. Each of them has a name, which
has two quotes, and a text has two more. So quotes beyond these are of members without a value,
which are null, or of a text where the parser takes a number and a text alike. The nulls are found
by the bytes before them. Where they are as many as the quotes leave, nothing else is there. The
structure of the lines, which takes as long as the parser, needn't be read for that.

What isn't proven so: a line with a blank before a null, with a null and a blank before an object
that is read, or with a name that has an escape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from python_udfs.ingestion.fast.exponents import negative_exponents
from python_udfs.ingestion.fast.lines import (
    CLOSE,
    COLON,
    LETTER_N,
    LONGEST_NAME,
    OPEN,
    Quotes,
    object_lines,
    quotes_of,
    rows_at,
)
from python_udfs.ingestion.fast.parsing import all_members

# a smaller share of proven lines shows that the producer writes them otherwise
LEAST_PROVEN = 0.98


class Nulls(NamedTuple):
    """Members that are null.

    Attributes:
        row: int64 number of the line, in order.
        begin, length: int64 place of the member's name in `text`, and its bytes.
        object: number of the object that it is in, among those asked for; -1 for another.
    """

    row: np.ndarray
    begin: np.ndarray
    length: np.ndarray
    object: np.ndarray


class CountedLines(NamedTuple):
    """Lines that were read with all their members.

    Attributes:
        kept: int64 numbers of the lines, in order.
        read: their members: the schema's first, then others.
        odd: mask of lines that aren't proven.
        text: uint8, bytes of all lines, with PADDING behind them.
        nulls: of all lines.
    """

    kept: np.ndarray
    read: pa.StructArray
    odd: np.ndarray
    text: np.ndarray
    nulls: Nulls


def counted_lines(
    texts: pa.StringArray, schema: pa.Schema, has_others: bool = False
) -> CountedLines | None:
    """The lines with all their members, and which of them are proven; None where another way has to
    prove them: the parser doesn't take them together, or too few of them are proven.

    Args:
        texts: each ends in a newline, or is null. In UTF-8.
        schema: objects that are read, with their members; none of these is an object or a list.
        has_others: whether a line may have other objects beside these, without objects and lists.
    """
    kept, lines = object_lines(texts)
    if not len(kept):
        return None
    found = quotes_of(lines)
    exponents = negative_exponents(found.bytes, schema)
    if len(exponents):
        odd = np.zeros(len(kept), bool)
        odd[rows_at(found.begin, exponents)] = True
        kept, lines = kept[~odd], lines.filter(pa.array(~odd))
        if not len(kept):
            return None
        found = quotes_of(lines)
    read = all_members(lines, schema)
    if read is None or not _is_flat(read, schema, has_others):
        return None
    count = len(kept)
    named, in_quotes = np.zeros((2, count), np.int64)
    _count_members(read, named, in_quotes)
    nulls, odd = _nulls(found, read, schema.names)
    of_nulls = np.bincount(nulls.row, minlength=count)
    quotes = np.diff(np.searchsorted(found.places, np.append(found.begin, found.end[-1] + 1)))
    odd |= found.odd | (quotes != 2 * (named + in_quotes + of_nulls))
    if len(found.backslashes):
        odd[rows_at(found.begin, _in_names(found))] = True
    if np.count_nonzero(odd) > count * (1 - LEAST_PROVEN):
        return None
    return CountedLines(kept, read, odd, found.bytes, nulls)


def declared_members(read: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    """An object's members of a type, without others behind them."""
    if read.type == kind:
        return read
    members = [read.field(number) for number in range(kind.num_fields)]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=read.is_null())


def _is_flat(read: pa.StructArray, schema: pa.Schema, has_others: bool) -> bool:
    """Whether lines have no objects but those of the schema, and perhaps others beside them, no
    objects within these, and no lists."""
    kinds = [field.type for field in read.type]
    objects = [kind for kind in kinds if pa.types.is_struct(kind)]
    plain = [kind for kind in kinds if not pa.types.is_struct(kind)]
    plain += [member.type for kind in objects for member in kind]
    is_flat = not any(map(pa.types.is_nested, plain))
    return is_flat and (has_others or len(objects) == len(schema))


def _count_members(values: pa.StructArray, named: np.ndarray, in_quotes: np.ndarray) -> None:
    """Add the members that have a value, and those whose value is a text, of each line."""
    for member in values.flatten():
        if member.null_count == len(member):
            continue
        # a number is enough where all lines have it
        there = np.asarray(member.is_valid()) if member.null_count else np.int64(1)
        named += there
        if pa.types.is_struct(member.type):
            _count_members(member, named, in_quotes)
        elif _is_in_quotes(member.type):
            in_quotes += there


def _is_in_quotes(kind: pa.DataType) -> bool:
    """Whether the parser takes only texts for values of a type, declared or chosen by itself."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return not (is_number or pa.types.is_boolean(kind))


def _nulls(found: Quotes, read: pa.StructArray, objects: Sequence[str]) -> tuple[Nulls, np.ndarray]:
    """Members that are null, and a mask of lines in which it is unknown where some of them stand.

    Args:
        read: the lines' members, the objects asked for first.
        objects: names of these.
    """
    text, begin, quotes = found.bytes, found.begin, found.places
    place = np.flatnonzero(text == LETTER_N) - 1
    place = place[text[place] == COLON] - 1  # of the name's second quote
    closing = np.searchsorted(quotes[:-1], place)
    is_closing = (closing % 2 == 1) & (quotes[closing] == place)
    place, closing = place[is_closing], closing[is_closing]
    row = rows_at(begin, place)
    name = quotes[closing - 1] + 1
    length = quotes[closing] - name
    odd = np.zeros(len(begin), bool)
    odd[row[length > LONGEST_NAME]] = True
    names = [f'"{object_}":'.encode() for object_ in objects]
    opens = _objects(found, names)
    # an object with a blank before it is found by the parser alone
    there = [np.asarray(read.field(number).is_valid()) for number in range(len(names))]
    odd[row[((opens >= 0) != there).any(axis=0)[row]]] = True
    begins = opens[:, row]
    inside = (begins >= 0) & (begins < place) & (place < _ends(found, opens)[:, row])
    within = np.where(inside.any(axis=0), inside.argmax(axis=0), -1)
    return Nulls(row, name, length, within), odd


def _objects(found: Quotes, names: Sequence[bytes]) -> np.ndarray:
    """Where each line's objects of these names begin: int64 (names, lines) places, -1 for none.

    A name stands in the middle of no text: its second quote would end it, and a colon follows.
    """
    text = found.bytes
    braces = np.flatnonzero(text == OPEN)
    braces = braces[text[braces - 1] == COLON]
    row = rows_at(found.begin, braces)
    words = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))
    opens = np.full((len(names), len(found.begin)), -1)
    for number, name in enumerate(names):
        is_named = np.full(len(braces), fill_value=True)
        for at in range(0, len(name), 8):  # bytes of a word
            part = name[at : at + 8]
            word = words[braces - len(name) + at] & np.uint64((1 << (8 * len(part))) - 1)
            is_named &= word == np.uint64(int.from_bytes(part, "little"))
        opens[number, row[is_named]] = braces[is_named]
    return opens


def _ends(found: Quotes, opens: np.ndarray) -> np.ndarray:
    """Where objects end that have no others in them, as `opens`: places of their braces."""
    braces = np.flatnonzero(found.bytes == CLOSE)
    braces = braces[np.searchsorted(found.places, braces) % 2 == 0]  # outside of texts
    return braces[np.searchsorted(braces, opens)]


def _in_names(found: Quotes) -> np.ndarray:
    """Those of the backslashes that are in names, which may be other names than they look."""
    closing = found.places[np.searchsorted(found.places, found.backslashes)]
    return found.backslashes[found.bytes[closing + 1] == COLON]
