"""Landed files as a DataFrame of raw messages, and checksums of those that are held."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from python_udfs.ingestion.landing.files import (
    LONGEST_LINE,
    OF_ALL,
    LandedFile,
    message_batches,
    offsets_key,
)
from python_udfs.ingestion.landing.held_again import Stretch, held_stretches
from python_udfs.ingestion.landing.object_stores import ObjectStore
from python_udfs.ingestion.landing.offsets import Interval, merge

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

FileRow = tuple[str, str, str, int, int]  # path, batch, topic, partition, first offset
BYTES_A_TASK, BYTES_A_WRITING_TASK = 64 << 20, 128 << 20
FEW_BYTES = 1 << 20  # are read where they are asked for: a job of workers takes longer
STRETCHES_A_BATCH = 10_000
RAW_SCHEMA = (
    "batch_id string, topic string, partition_number int, message_offset bigint, "
    "run_offset bigint, message_key binary, payload binary, cut_reason string"
)

# as Stretch, with the names that ods_binlog has for the same
STRETCH_SCHEMA = (
    "path string, batch_id string, topic string, partition_number int, first bigint, last bigint, "
    "checksum bigint"
)


class Through(NamedTuple):
    """What the workers make of raw messages where they read them.

    Attributes:
        make: from batches of RAW_SCHEMA to others.
        schema: of these.
    """

    make: Callable[[Iterable[pyarrow.RecordBatch]], Iterable[pyarrow.RecordBatch]]
    schema: str


def read_messages(
    session: SparkSession,
    files: list[LandedFile],
    held: dict[str, list[Interval]],
    longest: int = LONGEST_LINE,
    store: ObjectStore | None = None,
    through: Through | None = None,
) -> DataFrame:
    """One row a message of `files` that is not in `held`, in the columns of RAW_SCHEMA, or what
    `through` makes of these.

    Files are read by Python workers in Arrow batches: only so do messages keep their line
    number, broken gzip streams their good part, and invalid bytes their value. The work for
    each line is done by C code (split, Arrow); no line is handled by Python.

    Args:
        longest: bytes of a line that is taken whole.
        store: that the files lie in; None of a folder.
    """
    together: dict[str, list[tuple[int, str]]] = {}
    for file in sorted(files, key=lambda file: (file.first_offset, file.path)):
        together.setdefault(file.key, []).append((file.first_offset, file.path))

    def read(batches: Iterable[pyarrow.RecordBatch]) -> Iterable[pyarrow.RecordBatch]:
        import pyarrow as pa

        types = [
            *(pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64()),
            *(pa.binary(), pa.binary(), pa.string()),
        ]
        for columns in message_batches(_named(batches), held, together, longest, store):
            arrays = [
                pa.repeat(pa.scalar(values[0], kind), len(values))
                if name in OF_ALL
                else pa.array(values, type=kind)
                for (name, values), kind in zip(columns.items(), types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    if through is None:
        return _in_tasks(session, files, BYTES_A_TASK).mapInArrow(read, RAW_SCHEMA)
    make, tasks = through.make, _in_tasks(session, files, BYTES_A_WRITING_TASK)
    return tasks.mapInArrow(lambda given: make(read(given)), through.schema)


def stretches_of(
    session: SparkSession,
    files: list[LandedFile],
    held: Mapping[str, list[Interval]],
    longest: int = LONGEST_LINE,
    store: ObjectStore | None = None,
) -> list[Stretch]:
    """The lines of `files` that are held, see held_stretches; of many bytes read by workers."""
    if sum(file.size for file in files) <= FEW_BYTES:
        return list(held_stretches(map(_as_row, files), held, longest, store))

    def read(batches: Iterable[pyarrow.RecordBatch]) -> Iterable[pyarrow.RecordBatch]:
        import pyarrow as pa

        kinds = (pa.string(), pa.string(), pa.string(), pa.int32(), *(pa.int64(),) * 3)
        schema = pa.schema(list(zip(Stretch._fields, kinds, strict=True)))
        found = held_stretches(_named(batches), held, longest, store)
        while some := list(itertools.islice(found, STRETCHES_A_BATCH)):
            columns = map(pa.array, zip(*some, strict=True), kinds)
            yield pa.RecordBatch.from_arrays(list(columns), schema=schema)

    rows = _in_tasks(session, files, BYTES_A_TASK).mapInArrow(read, STRETCH_SCHEMA).collect()
    return [Stretch(*row) for row in rows]


def _as_row(file: LandedFile) -> FileRow:
    return file.path, file.batch, file.topic, file.partition, file.first_offset


def _in_tasks(session: SparkSession, files: list[LandedFile], task_bytes: int) -> DataFrame:
    """A row for each file, in as many tasks as their bytes are worth.

    A task has files that follow each other: of few partitions, each of which it writes a file of.
    """
    schema = (
        "task int, path string, batch_id string, topic string, partition_number int, "
        "first_offset bigint"
    )
    total = sum(file.size for file in files)
    tasks = max(1, min(len(files), max(-(-total // task_bytes), _parallelism(session))))
    ordered = sorted(files, key=lambda file: (file.key, file.first_offset, file.path))
    rows = [(number * tasks // len(files), *_as_row(file)) for number, file in enumerate(ordered)]
    return session.createDataFrame(rows, schema).repartitionById(tasks, "task").drop("task")


def _named(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[FileRow]:
    """The rows of _in_tasks."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _parallelism(session: SparkSession) -> int:
    return int(session.conf.get("spark.sql.leafNodeDefaultParallelism", None) or 2)


def held_offsets(messages: DataFrame) -> dict[str, list[Interval]]:
    """offsets_key -> merged intervals of the offsets in `messages` (rows of ods_binlog).

    What is left of a broken file doesn't count: its message may still come.
    """
    from pyspark.sql import functions as F

    runs = (
        messages.where("cut_reason is null")
        .groupBy("batch_id", "topic", "partition_number", "run_offset")
        .agg(F.max("message_offset").alias("last_offset"))
        .collect()
    )
    found: dict[str, list[Interval]] = {}
    for run in runs:
        key = offsets_key(run.batch_id, run.topic, run.partition_number)
        found.setdefault(key, []).append((run.run_offset, run.last_offset))
    return {key: merge(intervals) for key, intervals in found.items()}
