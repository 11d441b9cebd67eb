"""Landed files as a DataFrame of raw messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from python_udfs.ingestion.landing.files import (
    LONGEST_LINE,
    LandedFile,
    message_batches,
    offsets_key,
)
from python_udfs.ingestion.landing.object_stores import ObjectStore
from python_udfs.ingestion.landing.offsets import Interval, merge

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

BYTES_A_TASK = 64 << 20
RAW_SCHEMA = (
    "batch_id string, topic string, partition_number int, message_offset bigint, "
    "run_offset bigint, message_key binary, payload binary, cut_reason string"
)


def read_messages(
    session: SparkSession,
    files: list[LandedFile],
    held: dict[str, list[Interval]],
    longest: int = LONGEST_LINE,
    store: ObjectStore | None = None,
) -> DataFrame:
    """One row a message of `files` that is not in `held`, in the columns of RAW_SCHEMA.

    Files are read by Python workers in Arrow batches: only so do messages keep their line
    number, broken gzip streams their good part, and invalid bytes their value. The work for
    each line is done by C code (split, Arrow); no line is handled by Python.

    Args:
        longest: bytes of a line that is taken whole.
        store: that the files lie in; None of a folder.
    """
    rows = [
        (file.path, file.batch, file.topic, file.partition, file.first_offset) for file in files
    ]
    schema = "path string, batch_id string, topic string, partition_number int, first_offset bigint"
    together: dict[str, list[tuple[int, str]]] = {}
    for file in sorted(files, key=lambda file: (file.first_offset, file.path)):
        together.setdefault(file.key, []).append((file.first_offset, file.path))
    total = sum(file.size for file in files)
    tasks = max(1, min(len(files), max(-(-total // BYTES_A_TASK), _parallelism(session))))

    def read(batches: Iterable[pyarrow.RecordBatch]) -> Iterable[pyarrow.RecordBatch]:
        import pyarrow as pa

        types = [
            *(pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64()),
            *(pa.binary(), pa.binary(), pa.string()),
        ]
        for batch in batches:
            named = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            for columns in message_batches(named, held, together, longest, store):
                arrays = [
                    pa.array(values, type=kind)
                    for values, kind in zip(columns.values(), types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    return session.createDataFrame(rows, schema).repartition(tasks).mapInArrow(read, RAW_SCHEMA)


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
