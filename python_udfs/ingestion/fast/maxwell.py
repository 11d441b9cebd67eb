"""Maxwell's row messages as columns of a typed model, see formats.maxwell for what they mean.

A row is proven where each part of it is, else the present decoder (formats.maxwell, typed.rows)
reads its message. That decoder is the definition of right: it also gives the reasons why a
message is refused, so that none is refused here.

What isn't proven, beyond what `lines` and `parsing` leave: an update without `old`, or another
change with it; a watched column that the row image lacks; an undeclared name that differs from a
declared one by case; a key that is null; a value that doesn't fit the column's type; times before
the year 1000, or in the days around a change of the business zone's offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.lines import (
    BACKSLASH,
    IS_NUMBER,
    LETTER_N,
    OPEN,
    QUOTE,
    proven_lines,
)
from python_udfs.ingestion.fast.names import Names
from python_udfs.ingestion.fast.parsing import parsed
from python_udfs.ingestion.fast.values import UTC_TIME, Column, column_of, typed_values
from python_udfs.ingestion.fast.zones import DAY, SECOND

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.lines import Lines
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.source import TableSource

DATA, OLD = "data", "old"
RAW_VALUES = pa.map_(pa.string(), pa.string())
_EARLIEST_CUT = DAY  # a cut value before 1970-01-02 can't be true, see typed.business_date


class Layout(NamedTuple):
    """What is read of a table's messages, made once for all of them.

    Attributes:
        columns: in the typed row's order.
        schema: of the JSON members that are read.
        names: those of `of_column`, `data` and `old`.
        folded, casefolded: the same, ignoring case: of ASCII, of all letters.
        of_column: number of a name -> number of its column, -1 for none.
        data, old: numbers of these names.
        is_text: number of a name -> whether its values stand in quotes.
        watched: numbers of the columns that a row image must have.
        key: numbers of the key's columns.
        cut: number of the cut column, or None.
        max_ahead: microseconds that a cut value may be ahead of the log.
        zone: offsets of the business zone.
    """

    columns: tuple[Column, ...]
    schema: pa.Schema
    names: Names
    folded: Names
    casefolded: frozenset[str]
    of_column: np.ndarray
    data: int
    old: int
    is_text: np.ndarray
    watched: tuple[int, ...]
    key: tuple[int, ...]
    cut: int | None
    max_ahead: int
    zone: ConstantOffsets

    @property
    def proven(self) -> pa.StructType:
        """What is given of a proven row."""
        row = pa.struct(
            [
                *(pa.field(column.name, column.typed) for column in self.columns),
                pa.field("raw_values", RAW_VALUES),
            ]
        )
        return pa.struct(
            [
                pa.field("after", row),
                pa.field("before", row),
                pa.field("cut_date", pa.date32()),
                pa.field("changes", pa.list_(pa.string())),
            ]
        )


def layout(
    source: TableSource, zone: Callable[[], ConstantOffsets], max_ahead_hours: int
) -> Layout | None:
    """How the table's messages are read; None where none of their rows could be proven.

    Args:
        zone: gives the offsets of the business zone.
    """
    columns = []
    for name, kind in source.columns.items():
        found = column_of(name, source.names(name), kind)
        if found is None:
            return None
        columns.append(found)
    names = [(number, name) for number, column in enumerate(columns) for name in column.names]
    listed = [name for _, name in names]
    if len({name.casefold() for name in listed}) < len(listed):
        return None  # names that are the same to who ignores case
    row = pa.struct([pa.field(name, columns[number].read) for number, name in names])
    every = [*listed, *(name for name in (DATA, OLD) if name not in listed)]
    encoded = [name.encode() for name in every]
    of_column = np.full(len(every), -1)
    of_column[: len(names)] = [number for number, _ in names]
    places = {name: number for number, name in enumerate(source.columns)}
    return Layout(
        columns=tuple(columns),
        schema=pa.schema([pa.field(DATA, row), pa.field(OLD, row)]),
        names=Names(encoded),
        folded=Names(encoded, ignore_case=True),
        casefolded=frozenset(name.casefold() for name in every),
        of_column=of_column,
        data=every.index(DATA),
        old=every.index(OLD),
        is_text=np.array(
            [of_column[i] >= 0 and columns[of_column[i]].is_text for i in range(len(every))]
        ),
        watched=tuple(places[name] for name in source.watched),
        key=tuple(places[name] for name in source.primary_key),
        cut=None if source.cut_column is None else places[source.cut_column],
        max_ahead=max_ahead_hours * 3600 * SECOND,
        zone=zone(),
    )


def decode(
    layout: Layout, texts: pa.StringArray, ops: pa.StringArray, event_times: pa.TimestampArray
) -> tuple[np.ndarray, pa.StructArray | None]:
    """The rows that can be proven.

    Args:
        texts: payloads, each with a newline behind it; null for one that isn't to be read.
        ops: insert, update or delete.
        event_times: in UTC.

    Returns:
        Numbers of the proven rows, int64, in order, and the rows, of the type `layout.proven`.
    """
    kept, lines = proven_lines(texts)
    if lines is None:
        return kept, None
    found = _members(layout, lines)
    there = np.flatnonzero(~found.odd)
    if not len(there):
        return there, None
    texts = lines.texts if len(there) == len(kept) else lines.texts.take(pa.array(there))
    taken, read = parsed(texts, layout.schema)
    if read is None:
        return taken, None
    rows = there[taken]
    kept = kept[rows]
    number_of = np.full(len(found.odd), -1)
    number_of[rows] = np.arange(len(rows))
    null_in_data, in_old = (
        _matrix(layout, number_of, *pairs, len(rows))
        for pairs in (found.null_in_data, found.in_old)
    )
    ops, event_times = ops.take(pa.array(kept)), event_times.take(pa.array(kept))
    odd, proven = _rows(layout, read, null_in_data, in_old, ops, event_times)
    if odd.any():
        kept, proven = kept[~odd], proven.filter(pa.array(~odd))
    return kept, proven


class _Members(NamedTuple):
    """Members of the images in lines.

    Attributes:
        odd: mask of lines that aren't proven.
        null_in_data, in_old: line and column of the nulls in `data`, of the members of `old`.
    """

    odd: np.ndarray
    null_in_data: tuple[np.ndarray, np.ndarray]
    in_old: tuple[np.ndarray, np.ndarray]


def _members(layout: Layout, lines: Lines) -> _Members:
    odd = np.zeros(len(lines.texts), bool)
    number = layout.names.numbers(lines.bytes, lines.begin, lines.length)
    # the two objects: the key of each stands before its brace
    begin, end = lines.objects[:, [0, 2]], lines.objects[:, [1, 3]]
    two = begin[:, 1] >= 0
    first, after_first = lines.key_range(begin[:, 0], end[:, 0])
    second, after_second = lines.key_range(begin[:, 1], end[:, 1])
    name = number[first - 1]
    is_old_first = name == layout.old
    odd |= (name != layout.data) & ~(is_old_first & two)
    other = np.where(two, number[np.maximum(second - 1, 0)], -1)
    odd |= two & (other != np.where(is_old_first, layout.data, layout.old))
    # an object that nobody asked for is at the place of a key without a value of its own
    has_object = lines.value == OPEN
    odd |= np.bincount(lines.row[has_object], minlength=len(odd)) != 1 + two
    swapped = is_old_first & two
    second, after_second = np.where(two, second, 0), np.where(two, after_second, 0)
    in_data = _spans(
        len(number), np.where(swapped, second, first), np.where(swapped, after_second, after_first)
    )
    in_old = _spans(
        len(number),
        np.where(swapped, first, second)[two],
        np.where(swapped, after_first, after_second)[two],
    )
    within = in_data | in_old
    column = np.where(number >= 0, layout.of_column[number], -1)
    declared = within & (column >= 0)
    is_null = lines.value == LETTER_N
    fits = np.where(layout.is_text[number], lines.value == QUOTE, IS_NUMBER[lines.value])
    odd[lines.row[declared & ~fits & ~is_null]] = True
    other = np.flatnonzero(within & (column < 0))
    if len(other):
        odd[lines.row[other[_alike(layout, lines, other)]]] = True
    nulls = np.flatnonzero(declared & is_null & in_data)
    previous = np.flatnonzero(declared & in_old)
    return _Members(odd, (lines.row[nulls], column[nulls]), (lines.row[previous], column[previous]))


def _spans(count: int, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Mask of numbers within one of some ranges, which are apart from each other."""
    steps = np.zeros(count + 1, np.int8)
    some = ends > begins
    steps[begins[some]] += 1
    steps[ends[some]] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8).astype(bool)


def _alike(layout: Layout, lines: Lines, keys: np.ndarray) -> np.ndarray:
    """Mask of undeclared keys that may be a declared name in another case."""
    begin, length = lines.begin[keys], lines.length[keys]
    alike = layout.folded.numbers(lines.bytes, begin, length) >= 0
    # beyond ASCII the case of a letter may change more of its bytes, and escapes hide letters
    ends = np.cumsum(length)
    places = np.repeat(begin - (ends - length), length) + np.arange(length.sum())
    unusual = (lines.bytes[places] >= 128) | (lines.bytes[places] == BACKSLASH)
    unusual = np.unique(np.repeat(np.arange(len(keys)), length)[unusual])
    known: dict[bytes, bool] = {}
    for key in unusual:
        name = lines.bytes[begin[key] : begin[key] + length[key]].tobytes()
        if name not in known:
            known[name] = b"\\" in name or name.decode().casefold() in layout.casefolded
        alike[key] |= known[name]
    return alike


def _matrix(
    layout: Layout, number_of: np.ndarray, row: np.ndarray, column: np.ndarray, count: int
) -> np.ndarray:
    """Mask (columns, rows) from pairs of a line and a column."""
    mask = np.zeros((len(layout.columns), count), bool)
    number = number_of[row]
    there = number >= 0
    mask[column[there], number[there]] = True
    return mask


def _rows(
    layout: Layout,
    read: pa.StructArray,
    null_in_data: np.ndarray,
    in_old: np.ndarray,
    ops: pa.StringArray,
    event_times: pa.TimestampArray,
) -> tuple[np.ndarray, pa.StructArray]:
    """Mask of rows that aren't proven, and all rows."""
    count = len(read)
    data, old = read.field(DATA), read.field(OLD)
    is_update, is_insert, is_delete = (
        np.asarray(pc.equal(ops, op)) for op in ("update", "insert", "delete")
    )
    odd = ~(is_update | is_insert | is_delete) | np.asarray(data.is_null())
    odd |= is_update == np.asarray(old.is_null())  # an insert or delete has no `old`
    in_old &= is_update
    after, before, changed = [], [], np.zeros((count, len(layout.columns)), bool)
    lost_after, lost_before = _Lost(count), _Lost(count)
    for number, column in enumerate(layout.columns):
        raw = _field(data, column)
        value = typed_values(column, raw, layout.zone)
        after.append(value.typed)
        if value.odd is not None:
            odd |= value.odd
        lost_after.add(number, raw, value.lost)
        rows = np.flatnonzero(in_old[number])
        if not len(rows):
            before.append(value.typed)
            lost_before.add(number, raw, value.lost)
            continue
        raw_previous = _field(old, column).take(pa.array(rows))
        previous = typed_values(column, raw_previous, layout.zone)
        if previous.odd is not None:
            odd[rows[previous.odd]] = True
        if value.lost is not None or previous.lost is not None:
            lost = np.zeros(count, bool) if value.lost is None else value.lost.copy()
            lost[rows] = False if previous.lost is None else previous.lost
            lost_before.add(number, _replaced(raw, rows, raw_previous), lost)
        changed[rows, number] = _differ(value.typed.take(pa.array(rows)), previous.typed)
        before.append(_replaced(value.typed, rows, previous.typed))
    for number in layout.watched:
        has_no_value = np.asarray(_field(data, layout.columns[number]).is_null())
        odd |= has_no_value & ~null_in_data[number]
    for number in layout.key:
        odd |= np.asarray(after[number].is_null()) | np.asarray(before[number].is_null())
    cut_date, unknown = _cut_date(layout, after, is_delete, event_times)
    odd |= unknown
    proven = layout.proven
    names = pa.array([column.name for column in layout.columns], pa.string())
    _, changed_columns = np.nonzero(changed)
    offsets = np.concatenate(([0], np.cumsum(changed.sum(axis=1)))).astype(np.int32)
    changes = pa.ListArray.from_arrays(
        pa.array(offsets), names.take(pa.array(changed_columns)), mask=pa.array(~is_update)
    )
    fields = list(proven.field("after").type)
    images = [
        pa.StructArray.from_arrays([*after, lost_after.raw_values(names)], fields=fields),
        pa.StructArray.from_arrays(
            [*before, lost_before.raw_values(names)],
            fields=fields,
            mask=pa.array(is_insert),
        ),
    ]
    return odd, pa.StructArray.from_arrays([*images, cut_date, changes], fields=list(proven))


class _Lost:
    """Texts of values of an image that their columns' types can't hold.

    Args:
        count: number of rows.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._found: list[tuple[int, np.ndarray, pa.Array]] = []

    def add(self, column: int, texts: pa.Array, lost: np.ndarray | None) -> None:
        """Add those of a column, whose number is higher than those before."""
        if lost is not None and lost.any():
            rows = np.flatnonzero(lost)
            self._found.append((column, rows, texts.take(pa.array(rows))))

    def raw_values(self, names: pa.StringArray) -> pa.MapArray:
        """Map of each row: a column's name -> text; null for a row without such."""
        if not self._found:
            return pa.nulls(self._count, RAW_VALUES)
        row = np.concatenate([rows for _, rows, _ in self._found])
        column = np.concatenate([np.full(len(rows), number) for number, rows, _ in self._found])
        texts = pa.concat_arrays([texts for _, _, texts in self._found])
        order = np.lexsort((column, row))
        times = np.bincount(row, minlength=self._count)
        offsets = np.concatenate(([0], np.cumsum(times))).astype(np.int32)
        return pa.MapArray.from_arrays(
            pa.array(offsets),
            names.take(pa.array(column[order])),
            texts.take(pa.array(order)),
            mask=pa.array(times == 0),
        )


def _field(image: pa.StructArray, column: Column) -> pa.Array:
    """A column of an image by its first name that has a value."""
    found = [pc.struct_field(image, [name]) for name in column.names]
    return found[0] if len(found) == 1 else pc.coalesce(*found)


def _differ(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Mask of places where one is null and the other isn't, or both have other values."""
    other = np.asarray(pc.fill_null(pc.not_equal(left, right), False))
    return other | (np.asarray(left.is_null()) != np.asarray(right.is_null()))


def _replaced(values: pa.Array, rows: np.ndarray, others: pa.Array) -> pa.Array:
    """The values, with others at some rows."""
    places = np.arange(len(values))
    places[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(pa.array(places))


def _cut_date(
    layout: Layout,
    after: Sequence[pa.Array],
    is_delete: np.ndarray,
    event_times: pa.TimestampArray,
) -> tuple[pa.Array, np.ndarray]:
    """The business days, see typed.business_date, and a mask of rows whose day isn't proven."""
    utc = event_times.cast(UTC_TIME).cast(pa.int64())
    unknown = np.asarray(utc.is_null())
    event, outside = layout.zone.to_wall(pc.fill_null(utc, 0).to_numpy())
    unknown |= outside
    day = event
    if layout.cut is not None:
        kind, values = layout.columns[layout.cut].kind, after[layout.cut]
        there = np.asarray(values.is_valid())
        if kind == "date":
            cut = pc.fill_null(values.cast(pa.int32()), 0).to_numpy().astype(np.int64) * DAY
        else:
            utc = pc.fill_null(values.cast(pa.int64()), 0).to_numpy()
            cut, outside = layout.zone.to_wall(utc)
            unknown |= there & outside
        possible = there & (cut >= _EARLIEST_CUT) & (cut <= event + layout.max_ahead)
        day = np.where(possible & ~is_delete, cut, event)
    return pa.array((day // DAY).astype(np.int32)).cast(pa.date32()), unknown
