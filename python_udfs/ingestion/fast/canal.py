"""Canal's row messages as rows of a typed model, see formats.canal for what they mean.

A message is proven as a whole, with all its rows, or not at all. What isn't proven, beyond what
`lines`, `parsing` and `images` leave: values that are no texts; numbers in another form than
MySQL's, with blanks or a plus for instance; objects and lists within rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.images import (
    Image,
    Layout,
    field_of,
    image_in_keys,
    make_layout,
    rows_of,
)
from python_udfs.ingestion.fast.lines import IS_NUMBER, MINUS, OPEN, OPEN_LIST, one_of, proven_lines
from python_udfs.ingestion.fast.names import Names
from python_udfs.ingestion.fast.parsing import parsed
from python_udfs.ingestion.fast.texts import from_texts
from python_udfs.ingestion.fast.values import Column, Values, column_of
from python_udfs.ingestion.formats.canal import LABELLED, SET_LABELS, is_of_bytes, is_of_other_zone
from python_udfs.ingestion.tables.types import OF_DAYS

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.lines import Lines, Parts
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

ROWS = "$.data"  # path of a message's rows
DATA, OLD, TYPES = "data", "old", "mysqlType"
# kinds of columns whose type in the message is asked for: without it a text stays as it is, of the
# declared enums and sets no label is known
BY_TYPE, LABELS, TEXT = "text by its type", "labels", "text"
_LABELS = re.compile("'((?:[^']++|'')*+)'")  # that of formats.canal
_INDEX = re.compile("[0-9]{1,9}")
_BITS = re.compile("[0-9]{1,18}")
_OF_FRACTION, ZERO = one_of(b".eE"), ord("0")
LISTS = (DATA, OLD, TYPES, "sqlType", "pkNames")  # the lists and objects in a message of Canal
_LISTS = Names([name.encode() for name in LISTS])


def layout(
    source: TableSource, zone: Callable[[], ConstantOffsets], max_ahead_hours: int
) -> Layout | None:
    """How the table's messages are read, see images.make_layout."""
    columns = [
        _column(name, source.names(name), kind, source.options["enum"] == "index")
        for name, kind in source.columns.items()
    ]
    return make_layout(source, columns, (DATA, OLD), zone, max_ahead_hours)


def _column(name: str, names: tuple[str, ...], kind: SourceType, is_index: bool) -> Column | None:
    """How a column is read; None where its values can't be proven."""
    if kind.kind == "text":
        is_labelled = kind.declared.lower().startswith(LABELLED)
        how = (LABELS if is_labelled else BY_TYPE) if is_index else TEXT
        return Column(name, names, how, pa.string(), pa.string(), 0, 0, _as_it_is)
    column = column_of(name, names, kind)
    if column is None or column.kind in OF_DAYS:
        return column
    return from_texts(column)


def _as_it_is(_: Column, values: pa.Array, zone: ConstantOffsets) -> Values:
    return Values(values)


def decode(
    layout: Layout, texts: pa.StringArray, ops: pa.StringArray, event_times: pa.TimestampArray
) -> tuple[np.ndarray, pa.StructArray | None]:
    """The rows that can be proven, see fast.maxwell.decode.

    Returns:
        Number of each row's message, int64, in order and once for each of its rows; and the rows.
    """
    kept, lines = proven_lines(texts)
    if lines is None:
        return kept, None
    data, old, odd = _elements(layout, lines, len(kept))
    there = np.flatnonzero(~odd)
    if not len(there):
        return there, None
    lists = pa.list_(layout.image)
    asked = [name for column in _by_type(layout) for name in column.names]
    types = pa.struct([pa.field(name, pa.string()) for name in asked])
    schema = pa.schema([pa.field(DATA, lists), pa.field(OLD, lists), pa.field(TYPES, types)])
    rows, read = parsed(lines, there, schema)
    if read is None:
        return rows, None
    is_update = np.asarray(pc.equal(ops.take(pa.array(kept[rows])), "update"))
    images = read.field(0), read.field(1)
    sizes, sizes_of_old = (_sizes(image) for image in images)
    right = (sizes > 0) & (sizes == np.bincount(data.row, minlength=len(kept))[rows])
    right &= sizes_of_old == np.bincount(old.row, minlength=len(kept))[rows]
    # `old` has a row for each of the data, in an update alone
    right &= sizes_of_old == np.where(is_update, sizes, 0)
    if not right.any():
        return np.arange(0), None
    rows, sizes, is_update = rows[right], sizes[right], is_update[right]
    images = tuple(image.filter(pa.array(right)) for image in images)
    types = read.field(2).filter(pa.array(right))
    number = np.repeat(np.arange(len(rows)), sizes)
    values = (
        _with_labels(layout, images[0].flatten(), types.take(pa.array(number))),
        _with_labels(layout, images[1].flatten(), types.take(pa.array(number[is_update[number]]))),
    )
    is_read = np.zeros(len(kept), bool)
    is_read[rows] = True
    return _proven(
        layout,
        lines,
        (data.where(is_read[data.row]), old.where(is_read[old.row])),
        values,
        kept[rows][number],
        ops=ops,
        event_times=event_times,
    )


def _by_type(layout: Layout) -> list[Column]:
    """The columns that are read by their type in the message."""
    return [column for column in layout.columns if column.kind in (BY_TYPE, LABELS, TEXT, *OF_DAYS)]


def _with_labels(
    layout: Layout, image: pa.StructArray, types: pa.StructArray
) -> tuple[pa.StructArray, np.ndarray]:
    """Rows with labels in the place of their numbers, and a mask of rows with an unknown label, a
    time of another zone or the characters of bytes.

    Args:
        types: of each row its message's `mysqlType`.
    """
    odd = np.zeros(len(image), bool)
    values = dict(zip((field.name for field in image.type), image.flatten(), strict=True))
    for column in _by_type(layout):
        declared = field_of(types, column)
        if column.kind in OF_DAYS:
            odd |= _mask_of(declared, partial(is_of_other_zone, kind=column.kind), False)
            continue
        bytes_of_text = _mask_of(declared, is_of_bytes, False)
        if bytes_of_text.any():
            for name in column.names:
                is_ascii = pc.fill_null(pc.string_is_ascii(values[name]), True)
                odd |= bytes_of_text & ~np.asarray(is_ascii)
        for name in column.names if column.kind != TEXT else ():
            values[name], unknown = _labels_of(values[name], declared, column.kind == LABELS)
            odd |= unknown
    fields = list(image.type)
    mask = image.is_null() if image.null_count else None
    return pa.StructArray.from_arrays(list(values.values()), fields=fields, mask=mask), odd


def _mask_of(
    declared: pa.StringArray, condition: Callable[[str], bool], where_unknown: bool
) -> np.ndarray:
    """Mask of types that fulfil a condition, which is asked once for each distinct type.

    Args:
        where_unknown: what holds of a message without the type.
    """
    of_type = declared.dictionary_encode()
    found = np.array([*map(condition, of_type.dictionary.to_pylist()), where_unknown])
    return found[pc.fill_null(of_type.indices, len(found) - 1).to_numpy()]


def _labels_of(
    texts: pa.StringArray, declared: pa.StringArray, is_labelled: bool
) -> tuple[pa.StringArray, np.ndarray]:
    """Texts, with the labels that numbers mean in types like enum('new','used') in their place;
    and a mask of numbers whose labels aren't known.

    Args:
        declared: the type of each, from its message.
        is_labelled: whether a text without a type is a number of labels.
    """
    there = np.asarray(texts.is_valid())
    mask = there & _mask_of(declared, lambda text: text.lower().startswith(LABELLED), is_labelled)
    if not mask.any():
        return texts, mask
    some = pa.array(mask)
    number = texts.filter(some).dictionary_encode()
    kind = pc.fill_null(declared.filter(some), "").dictionary_encode()
    numbers, types = number.dictionary.to_pylist(), kind.dictionary.to_pylist()
    pair = pc.add(
        pc.multiply(number.indices.cast(pa.int64()), len(types)), kind.indices.cast(pa.int64())
    ).dictionary_encode()
    labels = [
        _label(numbers[value // len(types)], types[value % len(types)])
        for value in pair.dictionary.to_pylist()
    ]
    labelled = pc.replace_with_mask(texts, some, pa.array(labels, pa.string()).take(pair.indices))
    return labelled, there & np.asarray(labelled.is_null())


def _label(text: str, declared: str) -> str | None:
    """The label of an enum's index, or those of a set's bits, see formats.canal."""
    labels = [label.replace("''", "'") for label in _LABELS.findall(declared)]
    if declared.lower().startswith("enum"):
        if not _INDEX.fullmatch(text) or int(text) > len(labels):
            return None
        return ["", *labels][int(text)]
    if not labels or not _BITS.fullmatch(text) or len(labels) > SET_LABELS:
        return None
    return ",".join(label for place, label in enumerate(labels) if int(text) >> place & 1)


def _elements(layout: Layout, lines: Lines, count: int) -> tuple[Parts, Parts, np.ndarray]:
    """The rows in `data` and in `old`, and a mask of lines that aren't proven."""
    odd = np.zeros(count, bool)
    members, elements = lines.parts(2), lines.parts(3)
    name = np.where(members.key >= 0, layout.numbers(lines, members.key), -1)
    is_list = lines.bytes[members.begin] == OPEN_LIST
    of_rows = [(name == layout.members[part]) & is_list for part in (DATA, OLD)]
    member = np.searchsorted(members.begin, elements.begin) - 1
    of_data, of_old = (mask[member] for mask in of_rows)
    odd[_rows_with_other_lists(lines, members)] = True
    is_row = (of_data | of_old) & elements.is_flat & (lines.bytes[elements.begin] == OPEN)
    odd[elements.row[~is_row]] = True
    odd[_rows_with_fractions(lines)] = True
    return elements.where(of_data), elements.where(of_old), odd


def _rows_with_other_lists(lines: Lines, members: Parts) -> np.ndarray:
    """Numbers of the lines, int64, with a list or object that Canal's messages don't have, or one
    twice: the decoder in Spark refuses those that may be a column's.

    Args:
        members: the lists and objects that the messages have.
    """
    name = _LISTS.numbers(lines.bytes, lines.begin[members.key], lines.length[members.key])
    known = name >= 0
    of_line = members.row[known] * len(LISTS) + name[known]
    found, times = np.unique(of_line, return_counts=True)
    return np.concatenate([members.row[~known], found[times > 1] // len(LISTS)])


def _rows_with_fractions(lines: Lines) -> np.ndarray:
    """Numbers of the lines, int64, that have a number with a point or an exponent, or -0, anywhere.

    The decoder in Spark refuses a message where a member of a column's name has such a number,
    be it in a row or in what describes the rows, such as `sqlType`.
    """
    key = np.flatnonzero(IS_NUMBER[lines.value])
    begin, row = lines.begin[key] + lines.length[key] + len('":'), lines.row[key]
    is_zero = lines.bytes[begin + 1] == ZERO
    is_zero &= (lines.bytes[begin] == MINUS) & ~IS_NUMBER[lines.bytes[begin + 2]]
    found, at = [row[is_zero]], begin + 1
    while len(at):  # once for each digit of the longest number
        byte = lines.bytes[at]
        found.append(row[_OF_FRACTION[byte]])
        more = IS_NUMBER[byte]
        at, row = at[more] + 1, row[more]
    return np.concatenate(found)


def _sizes(lists: pa.ListArray) -> np.ndarray:
    """Number of elements of each list, 0 for null."""
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)


def _proven(
    layout: Layout,
    lines: Lines,
    parts: tuple[Parts, Parts],
    values: tuple[tuple[pa.StructArray, np.ndarray], tuple[pa.StructArray, np.ndarray]],
    message: np.ndarray,
    *,
    ops: pa.StringArray,
    event_times: pa.TimestampArray,
) -> tuple[np.ndarray, pa.StructArray]:
    """The rows of messages that are proven whole, and the number of each row's message.

    Args:
        parts: where the rows of `data` and of `old` stand.
        values: the same, as they were read, and masks of those that aren't proven.
        message: of each row of `data`.
    """
    ops, event_times = (each.take(pa.array(message)) for each in (ops, event_times))
    is_update = np.asarray(pc.equal(ops, "update"))
    data, found = (
        image_in_keys(layout, lines, part.first, part.last, read)
        for part, (read, _) in zip(parts, values, strict=True)
    )
    unknown, unknown_before = (odd for _, odd in values)
    # of all rows, as `data`
    place = np.where(is_update, np.cumsum(is_update) - 1, 0)
    named = np.zeros_like(data.named)
    named[:, is_update] = found.named
    odd = np.zeros(len(message), bool)
    odd[is_update] = found.odd | unknown_before
    old = Image(found.values.take(pa.array(place, mask=~is_update)), named, odd)
    odd, proven = rows_of(layout, data, old, ops, event_times)
    odd |= unknown
    if odd.any():
        whole = ~np.isin(message, message[odd])
        message, proven = message[whole], proven.filter(pa.array(whole))
    return message, proven
