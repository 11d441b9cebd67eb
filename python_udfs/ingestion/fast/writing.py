"""Rows of a typed model written as files in the workers; see files for what a file is like."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from python_udfs.ingestion.fast.columns import WRITTEN
from python_udfs.ingestion.fast.files import Files, TaskFiles, WrittenFile
from python_udfs.ingestion.fast.workers import (
    FORMATS,
    PLACE,
    TaskDecoder,
    able_decoder,
    is_chosen,
    library_versions,
    path_of_rows,
)
from python_udfs.ingestion.formats.envelope import COORDINATES, IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from python_udfs.ingestion.fast.images import Layout
    from python_udfs.ingestion.fast.log_places import LineMessages
    from python_udfs.ingestion.tables.source import TableSource

# of a message and of its row, which the workers don't decode
_KEPT = ("event_time", *IDENTITY, "xid", *COORDINATES, "load_id")
_NULL = ("reject_reason", "reject_payload")  # of a row that is proven


def without_written(
    messages: LineMessages, source: TableSource, layout: Layout, files: Files, twice_in: int
) -> DataFrame:
    """Let workers write the rows of a table's messages that they prove; the other messages, with
    WRITTEN, and a row for each file, of which all but WRITTEN is null.

    Args:
        messages: of single rows' changes, in the format of the table's log.
        twice_in: number of a worker's batches of which one batch is left to be decoded twice.
    """
    # as it is sent to the workers: not its module
    decode, known = FORMATS[source.format].decode, library_versions()
    many, version = path_of_rows(source.format) is not None, source.schema_version
    columns, read = messages.schema.names, messages.read

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = TaskDecoder(partial(able_decoder(decode, known), layout))
        task, schema = TaskFiles(files, task_name()), None
        for batch in read(batches):
            schema, kept, rows = batch.schema, np.arange(0), None
            if not is_chosen([batch[name] for name in PLACE], twice_in):
                sent = (batch[name] for name in ("payload", "op", "event_time"))
                kept, rows = decoder.decoded(len(batch), *sent)
            if rows is not None and len(kept):
                task.add(_table_rows(files, batch, kept, rows, version, many))
            yield from _others(batch, kept, columns)
        yield from files_as_rows(task.close(), columns, schema)

    kinds = [f"`{field.name}` {field.dataType.simpleString()}" for field in messages.schema]
    return messages.frame.mapInArrow(write, ", ".join([*kinds, f"{WRITTEN} string"]))


def written(rows: DataFrame, files: Files) -> DataFrame:
    """Let workers write rows of a model, whoever has made them; WRITTEN of each file."""
    names = files.schema.names

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskFiles(files, task_name())
        for batch in batches:
            arrays = [batch[name].cast(files.schema.field(name).type) for name in names]
            task.add(pa.Table.from_arrays(arrays, schema=files.schema))
        yield from files_as_rows(task.close(), [], None)

    return rows.select(*names).mapInArrow(write, f"{WRITTEN} string")


def task_name() -> str:
    """The part of a task's file names that no other task or attempt of the run has."""
    context = TaskContext.get()
    assert context is not None  # it runs in a task
    return f"{context.partitionId():05d}-{context.taskAttemptId()}"


def _table_rows(
    files: Files,
    batch: pa.RecordBatch,
    kept: np.ndarray,
    rows: pa.StructArray,
    version: int | None,
    many: bool,
) -> pa.Table:
    """Proven rows with all columns of their table.

    Args:
        kept: numbers of the rows' messages among the batch.
        version: the declaration's schema_version.
        many: whether a message may have several rows, which are numbered in their order.
    """
    place = None if len(kept) == len(batch) and not many else pa.array(kept)
    after = rows.field("after")
    known = {field.name: after.field(field.name) for field in after.type}

    def of_message(name: str) -> pa.Array:
        return batch[name] if place is None else batch[name].take(place)

    known |= {name: of_message(name) for name in _KEPT}
    if many:
        first = np.searchsorted(kept, kept)  # of each row: the first row of its message
        known["row_number"] = pa.array(np.arange(len(kept)) - first, pa.int64())
    op, time = of_message("op"), known["event_time"]
    key = [known[name].cast(pa.string()) for name in ("binlog_position", "row_number")]
    key = _joined(":", known["binlog_file"], *key)
    table = _joined(".", of_message("database_name"), of_message("table_name"))
    known |= {
        "unique_key": key,
        "before": rows.field("before"),
        "cut_date": rows.field("cut_date"),
        "metadata_changes": rows.field("changes"),
        "op_type": op,
        "metadata_op_type": op,
        "metadata_commit_ts": time,
        "metadata_table": table,
        "schema_version": pa.repeat(pa.scalar(version, pa.int32()), len(kept)),
    }
    arrays = []
    for field in files.schema:
        is_null = field.name in _NULL
        values = pa.nulls(len(kept), field.type) if is_null else known[field.name]
        arrays.append(values if values.type == field.type else values.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=files.schema)


def _joined(between: str, *texts: pa.Array) -> pa.Array:
    """What Spark's concat_ws makes of the texts."""
    return pc.binary_join_element_wise(*texts, between, null_handling="skip")


def _others(
    batch: pa.RecordBatch, kept: np.ndarray, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """The messages of a batch without those of `kept`."""
    if len(kept) == len(batch):
        return
    others = batch.select(columns).filter(mask_of_others(kept, len(batch)))
    arrays = dict(zip(columns, others.columns, strict=True))
    # without the newline
    texts = pc.binary_slice(arrays["payload"].cast(pa.binary()), 0, -1)
    arrays |= {"payload": texts.cast(pa.string()), WRITTEN: pa.nulls(len(others), pa.string())}
    yield pa.RecordBatch.from_pydict(arrays)


def mask_of_others(kept: np.ndarray, count: int) -> pa.BooleanArray:
    """Mask of the messages, of `count`, whose numbers aren't in `kept`."""
    is_other = np.full(count, fill_value=True)
    is_other[kept] = False
    return pa.array(is_other)


def files_as_rows(
    files: list[WrittenFile], columns: list[str], schema: pa.Schema | None
) -> Iterator[pa.RecordBatch]:
    """Files as rows whose columns but WRITTEN are null.

    Args:
        schema: of a batch with the columns; None where there are none.
    """
    if not files:
        return
    kinds = [] if schema is None else [schema.field(name).type for name in columns]
    nulls = [pa.nulls(len(files), kind) for kind in kinds]
    texts = pa.array([json.dumps(file) for file in files], pa.string())
    yield pa.RecordBatch.from_arrays([*nulls, texts], names=[*columns, WRITTEN])
