"""Row images of one table, from lines of proven structure to rows of its typed model.

A row is proven where each part of it is, else the decoder in Spark (formats, typed.rows) reads its
message. That decoder is the definition of right: it also gives the reasons why a message is
refused, so that none is refused here.

What isn't proven, in any format: a watched column that the row image lacks; several names of one
column; an undeclared name that differs from a declared one by case; a key that is null; a value
that doesn't fit the column's type; times before the year 1000, or in the days around a change of
the business zone's offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.counted import counted_lines, declared_members
from python_udfs.ingestion.fast.lines import LETTER_N, QUOTE
from python_udfs.ingestion.fast.names import Names
from python_udfs.ingestion.fast.values import UTC_TIME, Column
from python_udfs.ingestion.fast.zones import DAY, SECOND

if TYPE_CHECKING:
    from python_udfs.ingestion.fast.lines import Lines
    from python_udfs.ingestion.fast.zones import ConstantOffsets
    from python_udfs.ingestion.tables.source import TableSource

RAW_VALUES = pa.map_(pa.string(), pa.string())
_EARLIEST_CUT = DAY  # a cut value before 1970-01-02 can't be true, see typed.business_date


class Layout(NamedTuple):
    """What is read of a table's messages, made once for all of them.

    Attributes:
        columns: in the typed row's order.
        image: what is read of a row image: a field for each name of a column.
        names: those of `of_column`, then the message's own members.
        folded, casefolded: the same, ignoring case: of ASCII, of all letters.
        of_column: number of a name -> number of its column, -1 for none.
        members: names of the message's members -> their numbers.
        is_text: number of a name -> whether its values stand in quotes.
        watched: numbers of the columns that a row image must have.
        key: numbers of the key's columns.
        cut: number of the cut column, or None.
        max_ahead: microseconds that a cut value may be ahead of the log.
        zone: offsets of the business zone.
    """

    columns: tuple[Column, ...]
    image: pa.StructType
    names: Names
    folded: Names
    casefolded: frozenset[str]
    of_column: np.ndarray
    members: dict[str, int]
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

    def with_columns(self, columns: Sequence[Column]) -> Layout:
        """The same for columns that are read in another way."""
        is_text = self.is_text.copy()
        read = []
        for number, field in enumerate(self.image):
            column = columns[self.of_column[number]]
            is_text[number] = column.is_text
            read.append(pa.field(field.name, column.read))
        return self._replace(columns=tuple(columns), image=pa.struct(read), is_text=is_text)

    def numbers(self, lines: Lines, keys: np.ndarray) -> np.ndarray:
        """The numbers of some keys' names, -1 for an unknown name."""
        return self.names.numbers(lines.bytes, lines.begin[keys], lines.length[keys])


def make_layout(
    source: TableSource,
    columns: Sequence[Column | None],
    members: Sequence[str],
    zone: Callable[[], ConstantOffsets],
    max_ahead_hours: int,
) -> Layout | None:
    """How the table's messages are read; None where none of their rows could be proven.

    Args:
        columns: how each of the table's columns is read, None where its values can't be proven.
        members: names of the message's members that are read.
        zone: gives the offsets of the business zone.
    """
    known = [column for column in columns if column is not None]
    names = [(number, name) for number, column in enumerate(known) for name in column.names]
    listed = [name for _, name in names]
    if len(known) < len(columns) or len({name.casefold() for name in listed}) < len(listed):
        return None  # or names that are the same to who ignores case
    every = [*listed, *(name for name in members if name not in listed)]
    encoded = [name.encode() for name in every]
    of_column = np.full(len(every) + 1, -1)  # the last place for what has no number: -1
    of_column[: len(names)] = [number for number, _ in names]
    is_text = np.zeros(len(every) + 1, bool)
    is_text[: len(names)] = [known[number].is_text for number, _ in names]
    places = {name: number for number, name in enumerate(source.columns)}
    return Layout(
        columns=tuple(known),
        image=pa.struct([pa.field(name, known[number].read) for number, name in names]),
        names=Names(encoded),
        folded=Names(encoded, ignore_case=True),
        casefolded=frozenset(name.casefold() for name in every),
        of_column=of_column,
        members={name: every.index(name) for name in members},
        is_text=is_text,
        watched=tuple(places[name] for name in source.watched),
        key=tuple(places[name] for name in source.primary_key),
        cut=None if source.cut_column is None else places[source.cut_column],
        max_ahead=max_ahead_hours * 3600 * SECOND,
        zone=zone(),
    )


class Image(NamedTuple):
    """An image of each row: of all rows after the change, for instance.

    Attributes:
        values: what the parser read of it, of the layout's type; null where there is none.
        named: mask (columns, rows) of columns that the image has, with a value or null.
        odd: mask of rows whose image isn't proven.
    """

    values: pa.StructArray
    named: np.ndarray
    odd: np.ndarray


def image_in_keys(
    layout: Layout, lines: Lines, first: np.ndarray, last: np.ndarray, values: pa.StructArray
) -> Image:
    """The image that stands in some keys of the lines.

    Args:
        first, last: int64 of each row, numbers of the image's first key and of the first key behind
            it; equal where there is no image, or an empty image.
        values: what the parser read of it.
    """
    count = len(values)
    named, there, texts, named_times = _named(layout, values)
    is_null = lines.value == LETTER_N
    nulls, row = _keys_within(np.flatnonzero(is_null), first, last)
    column = layout.of_column[layout.numbers(lines, nulls)]
    is_declared = column >= 0
    named[column[is_declared], row[is_declared]] = True
    there += np.bincount(row[is_declared], minlength=count)
    quoted = np.concatenate(([0], np.cumsum(lines.value == QUOTE)))
    # each key is that of a value that was read, or of a null that is declared; and what stands in
    # quotes is of text
    is_whole = (last - first == there) & (quoted[last] - quoted[first] == texts)
    odd = _named_twice(len(values), named_times, column, row)
    others = np.flatnonzero(~is_whole)
    if len(others):
        odd[others] |= _odd_members(layout, lines, first[others], last[others])
    return Image(values, named, odd)


# int64 numbers of the messages, in order; a mask of those that aren't proven; and their two images
Found = tuple[np.ndarray, np.ndarray, tuple[Image, Image] | None]


def counted_images(
    layout: Layout, texts: pa.StringArray, names: tuple[str, str], has_others: bool = False
) -> Found | None:
    """The images of lines that are proven by their quotes, see counted; None where they aren't.

    Args:
        texts: see counted_lines.
        names: of the two images in a line.
        has_others: whether a line may have other objects beside them. An undeclared member that is
            named as one of the layout's members is none of them.
    """
    schema = pa.schema([pa.field(name, layout.image) for name in names])
    lines = counted_lines(texts, schema, has_others)
    if lines is None:
        return None
    kinds = list(lines.read.type)
    if any(has_alike(layout, kind.type) for kind in kinds[: len(names)]):
        return None
    if any(kind.name in layout.members for kind in kinds[len(names) :]):
        return None
    nulls = lines.nulls
    column = layout.of_column[layout.names.numbers(lines.text, nulls.begin, nulls.length)]
    images = []
    for number in range(len(names)):
        values = declared_members(lines.read.field(number), layout.image)
        within = nulls.object == number
        images.append(image_with_nulls(layout, values, column[within], nulls.row[within]))
    return lines.kept, lines.odd, (images[0], images[1])


def image_with_nulls(
    layout: Layout, values: pa.StructArray, column: np.ndarray, row: np.ndarray
) -> Image:
    """The image of which all members are known.

    Args:
        values: what the parser read of it.
        column, row: int64 of each member that is null: the number of its column, -1 for a name of
            none, and of its row.
    """
    named, _, _, named_times = _named(layout, values)
    is_declared = column >= 0
    named[column[is_declared], row[is_declared]] = True
    return Image(values, named, _named_twice(len(values), named_times, column, row))


def has_alike(layout: Layout, kind: pa.StructType) -> bool:
    """Whether an image has a member besides the declared that ignoring case has such a name."""
    others = [field.name for field in list(kind)[layout.image.num_fields :]]
    return any(name.casefold() in layout.casefolded for name in others)


def _named(
    layout: Layout, values: pa.StructArray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Of the members that have a value: mask (columns, rows) of their columns; of each row how many
    there are, and how many texts; and of each row how many of a column that has several names.
    """
    count = len(values)
    named = np.zeros((len(layout.columns), count), bool)
    there, texts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    named_times = {
        number: np.zeros(count, np.int64)
        for number, column in enumerate(layout.columns)
        if len(column.names) > 1
    }
    for number, column in enumerate(layout.columns):
        for name in column.names:
            field = values.field(layout.image.get_field_index(name))
            if field.null_count == count:
                continue
            is_there = np.asarray(field.is_valid())
            named[number] |= is_there
            there += is_there
            if number in named_times:
                named_times[number] += is_there
            if column.is_text:
                texts += is_there
    return named, there, texts, named_times


def _named_twice(
    count: int, named_times: dict[int, np.ndarray], column: np.ndarray, row: np.ndarray
) -> np.ndarray:
    """Mask of `count` images, that name a column by several names, with a value or null."""
    odd = np.zeros(count, bool)
    for number, times in named_times.items():
        odd |= times + np.bincount(row[column == number], minlength=count) > 1
    return odd


def _keys_within(
    keys: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Those of some keys, in order, that stand within ranges; and the number of the range of each.

    Args:
        keys: numbers of keys.
        first, last: the ranges, apart from each other.
    """
    begin, end = np.searchsorted(keys, first), np.searchsorted(keys, last)
    places, row = _all_of(begin, end)
    return keys[places], row


def _all_of(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All numbers of some ranges, and the number of the range of each."""
    size = last - first
    row = np.repeat(np.arange(len(size)), size)
    return np.arange(len(row)) + np.repeat(first - (np.cumsum(size) - size), size), row


def _odd_members(layout: Layout, lines: Lines, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Mask of images with a value that may be read otherwise, each member looked at."""
    odd = np.zeros(len(first), bool)
    keys, row = _all_of(first, last)
    number = layout.numbers(lines, keys)
    value = lines.value[keys]
    fits = (value == QUOTE) == layout.is_text[number]
    is_declared = layout.of_column[number] >= 0
    odd[row[is_declared & ~fits & (value != LETTER_N)]] = True
    others = np.flatnonzero(~is_declared)
    if len(others):
        odd[row[others[_alike(layout, lines, keys[others])]]] = True
    return odd


def _alike(layout: Layout, lines: Lines, keys: np.ndarray) -> np.ndarray:
    """Mask of undeclared keys that may be a declared name in another case."""
    begin, length = lines.begin[keys], lines.length[keys]
    alike = layout.folded.numbers(lines.bytes, begin, length) >= 0
    # beyond ASCII the case of a letter may change more of its bytes
    places, key_of = _all_of(begin, begin + length)
    unusual = np.unique(key_of[lines.bytes[places] >= 128])
    known: dict[bytes, bool] = {}
    for key in unusual:
        name = lines.bytes[begin[key] : begin[key] + length[key]].tobytes()
        if name not in known:
            known[name] = name.decode().casefold() in layout.casefolded
        alike[key] |= known[name]
    return alike


def rows_of(
    layout: Layout,
    data: Image,
    old: Image,
    ops: pa.StringArray,
    event_times: pa.TimestampArray,
) -> tuple[np.ndarray, pa.StructArray]:
    """Mask of rows that aren't proven, and all rows.

    Args:
        data: the row after an insert or update, and the deleted row.
        old: of an update the values before it, `named` those that aren't as in `data`.
        ops: insert, update or delete.
        event_times: in UTC.
    """
    count = len(ops)
    is_update, is_insert, is_delete = (
        np.asarray(pc.equal(ops, op)) for op in ("update", "insert", "delete")
    )
    odd = ~(is_update | is_insert | is_delete) | data.odd | np.asarray(data.values.is_null())
    odd |= is_update & (old.odd | np.asarray(old.values.is_null()))
    after, before, changed = [], [], np.zeros((count, len(layout.columns)), bool)
    lost_after, lost_before = _Lost(count), _Lost(count)
    for number, column in enumerate(layout.columns):
        raw = field_of(data.values, column)
        value = column.decode(column, raw, layout.zone)
        after.append(value.typed)
        if value.odd is not None:
            odd |= value.odd
        lost_after.add(number, raw, value.lost)
        rows = np.flatnonzero(old.named[number] & is_update)
        if not len(rows):
            before.append(value.typed)
            lost_before.add(number, raw, value.lost)
            continue
        raw_previous = field_of(old.values, column).take(pa.array(rows))
        previous = column.decode(column, raw_previous, layout.zone)
        if previous.odd is not None:
            odd[rows[previous.odd]] = True
        if value.lost is not None or previous.lost is not None:
            lost = np.zeros(count, bool) if value.lost is None else value.lost.copy()
            lost[rows] = False if previous.lost is None else previous.lost
            lost_before.add(number, _replaced(raw, rows, raw_previous), lost)
        changed[rows, number] = _differ(value.typed.take(pa.array(rows)), previous.typed)
        before.append(_replaced(value.typed, rows, previous.typed))
    for number in layout.watched:
        has_no_value = np.asarray(field_of(data.values, layout.columns[number]).is_null())
        odd |= has_no_value & ~data.named[number]
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


def field_of(image: pa.StructArray, column: Column) -> pa.Array:
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
