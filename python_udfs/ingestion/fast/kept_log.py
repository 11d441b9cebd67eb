"""Messages of the kept log that workers read from its files, see row_places of the adapter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from python_udfs.ingestion.fast.file_schema import FIELD_ID

_SCHEME = "file:"
_ROWS = 10_000  # that are read from a file at one time
NEWLINE = "\n"  # behind a payload, so that it is read where it lies
# of a message: its place in its topic, by which it is seen that no other was read
CHECKED = "message_offset"


def messages_at(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The messages of a task, in the order of their places; NEWLINE behind each payload.

    Args:
        schema: the columns of the messages, each with its id in Iceberg.
        batches: of the messages' places: file, number of the row in it, and CHECKED.
    """
    file = None
    for places in batches:
        for path, numbers, offsets in _by_file(places):
            if file is None or file.path != path:
                file = _File(path, schema)
            rows = file.rows(numbers)
            if not rows[CHECKED].equals(offsets):
                raise ValueError(
                    f"{path} has other rows than Spark reads from it: nothing is committed; run "
                    "with --vars 'worker_decoding_from: never', which leaves all to Spark."
                )
            yield _with_newline(rows)


def _by_file(places: pa.RecordBatch) -> Iterator[tuple[str, np.ndarray, pa.Array]]:
    """Runs of places in the same file: its path, numbers of the rows, and their CHECKED."""
    paths, numbers, checked = places.columns
    runs = pc.run_end_encode(paths)
    begin = 0
    for path, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield path, numbers[begin:end].to_numpy(), checked[begin:end]
        begin = end


def _with_newline(rows: pa.RecordBatch) -> pa.RecordBatch:
    number = rows.schema.get_field_index("payload")
    lines = pc.binary_join_element_wise(rows["payload"], "", NEWLINE)
    return rows.set_column(number, rows.schema.field(number), lines)


class _File:
    """A file of the log, read in the order of the rows that are asked for.

    Args:
        path: a path or a URI.
        schema: the columns that are read, each with its id; a file from before a column has none.
    """

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self.path = path
        local = path.removeprefix(_SCHEME)
        self._file = pq.ParquetFile(f"/{local.lstrip('/')}", memory_map=True)
        self._schema = schema
        names = {
            (field.metadata or {}).get(FIELD_ID): field.name for field in self._file.schema_arrow
        }
        self._names = [names.get(field.metadata[FIELD_ID]) for field in schema]
        groups = self._file.metadata
        sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        self._begins = np.concatenate(([0], np.cumsum(sizes)))  # of row groups, and the end
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._begin = self._end = self._group_end = 0  # of the batch, and of the row group read
        self._batch: pa.RecordBatch | None = None

    def rows(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Some rows.

        Args:
            numbers: int64; read once where each is at least that before it.
        """
        found = []
        while len(numbers):
            self._go_to(int(numbers[0]))
            # those in the batch, as far as they go on ascending
            inside = (numbers >= self._begin) & (numbers < self._end)
            count = len(numbers) if inside.all() else int(np.argmin(inside))
            places = numbers[:count] - self._begin
            found.append(_taken(self._batch, places))
            numbers = numbers[count:]
        return found[0] if len(found) == 1 else pa.concat_batches(found)

    def _go_to(self, number: int) -> None:
        """Read the batch that has a row."""
        if not self._begin <= number < self._group_end:
            group = int(np.searchsorted(self._begins, number, side="right")) - 1
            names = [name for name in self._names if name is not None]
            self._batches = self._file.iter_batches(_ROWS, [group], names, use_threads=False)
            self._begin = self._end = int(self._begins[group])
            self._group_end = int(self._begins[group + 1])
        while number >= self._end:
            read = next(self._batches)
            self._begin, self._end = self._end, self._end + len(read)
            self._batch = self._of_schema(read)

    def _of_schema(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """The columns in the schema's order, null where the file has none."""
        arrays = [
            pa.nulls(len(read), field.type) if name is None else read[name].cast(field.type)
            for field, name in zip(self._schema, self._names, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._schema.names)


def _taken(batch: pa.RecordBatch, places: np.ndarray) -> pa.RecordBatch:
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == len(places) and (np.diff(places) == 1).all():
        return batch.slice(first, len(places))
    return batch.take(pa.array(places))
