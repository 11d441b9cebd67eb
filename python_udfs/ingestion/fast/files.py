"""Rows that tasks write as Parquet files of a table, as Spark's own writer would have left them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyarrow import Schema

Values = tuple[str | None, ...]  # of partition columns
_LEVEL = 3  # of zstd, as Spark's writer has it
_PAGE_ROWS = 20_000  # the same
_MOST_OPEN = 100  # files of a task at one time: a load may bring thousands of days
# rows by which it is judged whether a column's values repeat, and the share of its values that may
# differ from each other
_SAMPLED_ROWS, _MOST_DISTINCT = 20_000, 0.5


class Files(NamedTuple):
    """Where and how tasks write the files of a table.

    Attributes:
        folder: of the table's files.
        schema: the table's columns in their order, each with its id in Iceberg.
        partition: the columns whose values have files of their own.
        group_bytes: of rows in memory from which they are written as a row group.
        held_bytes: the same of all partitions' rows that a task holds.
        file_bytes: size from which a file is followed by another.
        run: part of each file's name, that no other run has.
    """

    folder: str
    schema: Schema
    partition: tuple[str, ...]
    group_bytes: int
    held_bytes: int
    file_bytes: int
    run: str


class WrittenFile(NamedTuple):
    """A file that is written, and not yet part of its table: the adapter's AddedFile, which isn't
    where workers are.

    Attributes:
        path: absolute.
        partition: its rows' value of each partition column, as Iceberg writes it as text, or null.
        offsets: where its row groups begin.
    """

    path: str
    partition: list[str | None]
    offsets: list[int]


class TaskFiles:
    """The files of one task.

    Args:
        task: part of each file's name, that no other task or attempt of the run has.

    Attributes:
        held: bytes of the rows that wait for more of their partition.
    """

    def __init__(self, files: Files, task: str) -> None:
        self._files, self._task = files, task
        self._partitions: dict[Values, _Partition] = {}
        self._open: dict[_Partition, None] = {}  # that have a file open, the longest unused first
        self.held = self._count = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows of the table's columns."""
        for values, part in _by_partition(rows, self._files.partition):
            partition = self._partitions.get(values)
            if partition is None:
                partition = self._partitions[values] = _Partition(self, values)
            self.held += partition.add(part)
        while self.held > self._files.held_bytes:
            largest = max(self._partitions.values(), key=lambda partition: partition.held)
            self.held -= largest.write()

    def close(self) -> list[WrittenFile]:
        """Write what is held; all files of the task."""
        return [file for part in self._partitions.values() for file in part.close()]

    def new_path(self, values: Values) -> Path:
        """Of the next file of a partition."""
        self._count += 1
        folder = Path(self._files.folder)
        for name, value in zip(self._files.partition, values, strict=True):
            folder /= f"{_escaped(name)}={'null' if value is None else _escaped(value)}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{self._task}-{self._files.run}-{self._count:05d}.parquet"

    def note_open(self, partition: _Partition) -> None:
        """Before a partition writes: end another's file where too many are open."""
        self.note_closed(partition)
        if len(self._open) >= _MOST_OPEN:
            next(iter(self._open)).end_file()
        self._open[partition] = None

    def note_closed(self, partition: _Partition) -> None:
        """Note that a partition has no file open."""
        self._open.pop(partition, None)

    @property
    def files(self) -> Files:
        """Where and how they are written."""
        return self._files


def _escaped(text: str) -> str:
    """A part of a path as Iceberg writes it: URLEncoder of Java leaves other signs than Python."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _by_partition(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """The rows of each partition, in their order."""
    if not columns:
        yield (), rows
        return
    first, *others = columns
    values = rows[first]
    distinct = pc.unique(values)
    for value in distinct:
        part = rows
        if len(distinct) > 1:
            part = rows.filter(pc.equal(values, value) if value.is_valid else pc.is_null(values))
        for inner, found in _by_partition(part, others):
            yield (_text(value), *inner), found


def _text(value: pa.Scalar) -> str | None:
    """A value as Iceberg writes it; a date may be one that Python has none of."""
    if not value.is_valid:
        return None
    return str(np.datetime64(value.value, "D") if pa.types.is_date(value.type) else value.as_py())


class _Partition:
    """The rows of a task that lie in one partition."""

    def __init__(self, task: TaskFiles, values: Values) -> None:
        self._task, self._values = task, values
        self._rows: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None
        self._path = Path()
        self._written: list[WrittenFile] = []
        self.held = 0

    def add(self, rows: pa.Table) -> int:
        """Hold rows, or write them; bytes that are held more, or less."""
        before = self.held
        self._rows.append(rows)
        self.held += rows.nbytes
        if self.held >= self._task.files.group_bytes:
            self.write()
        return self.held - before

    def write(self) -> int:
        """Write what is held as a row group; how many bytes were held."""
        held, self.held = self.held, 0
        rows = pa.concat_tables(self._rows)
        self._rows = []
        self._task.note_open(self)
        if self._writer is None:
            self._path = self._task.new_path(self._values)
            self._writer = pq.ParquetWriter(
                self._path,
                self._task.files.schema,
                compression="zstd",
                compression_level=_LEVEL,
                store_schema=False,
                store_decimal_as_integer=True,
                use_dictionary=_with_dictionary(rows),
                write_page_index=True,
                max_rows_per_page=_PAGE_ROWS,
            )
        self._writer.write_table(rows, row_group_size=len(rows))
        if self._path.stat().st_size >= self._task.files.file_bytes:
            self.end_file()
        return held

    def close(self) -> list[WrittenFile]:
        """Write what is held; all files of the partition."""
        if self._rows:
            self.write()
        self.end_file()
        return self._written

    def end_file(self) -> None:
        """End the open file, if there is one: further rows come into another."""
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        self._task.note_closed(self)
        self._written.append(WrittenFile(str(self._path), list(self._values), _offsets(self._path)))


def _with_dictionary(rows: pa.Table) -> list[str]:
    """Paths of the columns whose values repeat: of others Spark's writer gives up its dictionary,
    too, while Arrow's would keep one of a megabyte."""
    first, repeating = rows.slice(0, _SAMPLED_ROWS), []
    for name, column in zip(first.schema.names, first.columns, strict=True):
        for path, values in _leaves(name, column.combine_chunks()):
            there = values.drop_null()
            if len(pc.unique(there)) <= len(there) * _MOST_DISTINCT:
                repeating.append(path)
    return repeating


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """What a column holds in Parquet: the path and the values of each."""
    kind = values.type
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", pc.struct_field(values, [field.name]))
    elif pa.types.is_map(kind):
        for part, found in (("key", values.keys), ("value", values.items)):
            yield from _leaves(f"{path}.key_value.{part}", found)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _offsets(path: Path) -> list[int]:
    """Where a file's row groups begin."""
    groups = pq.read_metadata(path)
    columns = (groups.row_group(number).column(0) for number in range(groups.num_row_groups))
    return [column.dictionary_page_offset or column.data_page_offset for column in columns]
