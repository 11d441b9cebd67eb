"""Rows of ods_binlog written as files in the workers; see files for what a file is like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.ingestion.fast.columns import PROVEN, WRITTEN
from python_udfs.ingestion.fast.envelopes import READ, TIME, Columns
from python_udfs.ingestion.fast.files import Files, TaskFiles
from python_udfs.ingestion.fast.workers import (
    PLACE,
    TaskDecoder,
    able_decoder,
    is_chosen,
    library_versions,
    with_gaps,
)
from python_udfs.ingestion.fast.writing import files_as_rows, mask_of_others, task_name
from python_udfs.ingestion.formats.envelope import ENVELOPE, READ_COLUMNS
from python_udfs.ingestion.landing.spark import RAW_SCHEMA, Through

_ARROW = {"string": pa.string(), "timestamp": TIME, "bigint": pa.int64()}
_FIELDS = [pa.field(name, _ARROW[ENVELOPE[name]]) for name in READ_COLUMNS]
_RAW = ("batch_id", "topic", "partition_number", "message_offset", "run_offset")
_NULL = ("payload_bytes", "cut_reason", "reject_reason")  # of a message that is proven


def writing(log_format: str, files: Files, load_id: str, twice_in: int) -> Through:
    """Let the workers that read messages write those whose envelope they prove.

    Of raw messages come those that are left, with PROVEN and WRITTEN, and a row for each file, of
    which all but WRITTEN is null. PROVEN is the envelope of those that Spark is to read as well.

    Args:
        twice_in: number of a worker's batches of which one batch is read twice.
    """
    known, read = library_versions(), READ[log_format]
    envelope = ", ".join(f"{name}: {ENVELOPE[name]}" for name in READ_COLUMNS)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = TaskDecoder(able_decoder(read, known))
        task, empty = TaskFiles(files, task_name()), None
        for batch in batches:
            empty = batch.slice(0, 0)
            kept, columns = _proven(batch, decoder)
            if not len(kept):
                yield _left(batch, kept, None)
            elif is_chosen([batch[name] for name in PLACE], twice_in):
                yield _left(batch, kept, columns)
            else:
                task.add(_table_rows(files, batch, kept, columns, (log_format, load_id)))
                if len(kept) < len(batch):
                    yield _left(batch.filter(mask_of_others(kept, len(batch))), kept[:0], None)
        if empty is not None:
            left = _left(empty, np.arange(0), None)
            yield from files_as_rows(task.close(), left.schema.names[:-1], left.schema)

    return Through(write, f"{RAW_SCHEMA}, {PROVEN} struct<{envelope}>, {WRITTEN} string")


def _proven(batch: pa.RecordBatch, decoder: TaskDecoder[Columns]) -> tuple[np.ndarray, Columns]:
    """The messages whose envelope is proven, and what is read of it."""
    if batch["cut_reason"].null_count < len(batch) or not _are_texts(batch["message_key"]):
        return np.arange(0), {}
    places = {name: batch[name] for name in PLACE}
    kept, columns = decoder.decoded(len(batch), _lines(batch["payload"]), places)
    return kept, columns or {}


def _are_texts(keys: pa.BinaryArray) -> bool:
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _lines(payloads: pa.BinaryArray) -> pa.StringArray:
    """The payloads with a newline each, that may be no UTF-8."""
    return _as_text(pc.binary_join_element_wise(payloads, b"", b"\n"))


def _as_text(values: pa.BinaryArray) -> pa.StringArray:
    return pa.StringArray.from_buffers(
        len(values),
        values.buffers()[1],
        values.buffers()[2],
        values.buffers()[0],
        -1,
        values.offset,
    )


def _table_rows(
    files: Files, batch: pa.RecordBatch, kept: np.ndarray, columns: Columns, of_all: tuple[str, str]
) -> pa.Table:
    """Proven messages with all columns of ods_binlog.

    Args:
        of_all: format and load_id.
    """
    rows = batch if len(kept) == len(batch) else batch.take(pa.array(kept))
    known = {name: rows[name] for name in _RAW} | columns
    known["message_key"] = _as_text(rows["message_key"])
    known["payload"] = _as_text(rows["payload"])
    for name, value in zip(("format", "load_id"), of_all, strict=True):
        known[name] = pa.repeat(value, len(rows))
    arrays = [
        pa.nulls(len(rows), field.type) if field.name in _NULL else known[field.name]
        for field in files.schema
    ]
    return pa.Table.from_arrays(arrays, schema=files.schema)


def _left(batch: pa.RecordBatch, kept: np.ndarray, columns: Columns | None) -> pa.RecordBatch:
    """Raw messages with PROVEN, where `kept` and `columns` give it, and WRITTEN, which is null."""
    struct = pa.struct(_FIELDS)
    proven = pa.nulls(len(batch), struct)
    if columns is not None:
        arrays = [columns[field.name] for field in _FIELDS]
        found = pa.StructArray.from_arrays(arrays, fields=_FIELDS)
        proven = with_gaps(kept, found, len(batch))
    written = pa.nulls(len(batch), pa.string())
    names = [*batch.schema.names, PROVEN, WRITTEN]
    return pa.RecordBatch.from_arrays([*batch.columns, proven, written], names=names)
