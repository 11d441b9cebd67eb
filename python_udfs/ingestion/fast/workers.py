"""Messages decoded in the workers, those that can be proven; the others stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar, cast
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from python_udfs.ingestion.fast import canal, debezium, events, maxwell
from python_udfs.ingestion.fast.columns import AGAIN, PROVEN, ROW, TWICE
from python_udfs.ingestion.fast.zones import offsets_of
from python_udfs.ingestion.formats.envelope import COORDINATES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from python_udfs.ingestion.fast.images import Layout
    from python_udfs.ingestion.tables.source import TableSource

Decode = Callable[
    ["Layout", pa.StringArray, pa.StringArray, pa.TimestampArray],
    tuple[np.ndarray, pa.StructArray | None],
]
Decoder = TypeVar("Decoder", bound=Callable[..., object])
Found = TypeVar("Found")
# numbers of rows' messages, the rows, number of messages
Place = Callable[[np.ndarray, pa.StructArray, int], pa.Array]
PLACE = COORDINATES[1:]  # by which a batch is chosen to be decoded twice
# what the workers get of a message
_SENT = ("payload", "op", "event_time", *PLACE)
_PLACE = slice(3, 6)
# a task that proves less than this share of its rows leaves the rest of them to the present way
_LEAST_PROVEN, _ENOUGH_ROWS = 0.5, 2000
# formats whose messages the workers read
FORMATS: dict[str, ModuleType] = {
    "maxwell": maxwell,
    "canal": canal,
    "debezium": debezium,
    "events": events,
}


def layout_of(
    session: SparkSession, source: TableSource, zone: str, max_ahead_hours: int
) -> Layout | None:
    """How the workers read the table's messages; None where they could prove none of them."""
    if source.format not in FORMATS or source.written:
        return None
    return FORMATS[source.format].layout(source, lambda: offsets_of(session, zone), max_ahead_hours)


def with_proven_rows(
    messages: DataFrame, source: TableSource, layout: Layout, twice_in: int
) -> DataFrame:
    """A table's messages with PROVEN and TWICE; `payload` is null where the row is proven.

    Where a message may have several rows, each proven row comes with its number, ROW; but a
    message that is decoded twice is one row, with all proven rows in AGAIN.

    The workers get what they read, and give what they prove: all else of a message stays in Spark.

    Args:
        messages: of single rows' changes, in the format of the table's log.
        twice_in: number of a worker's batches of which the payloads of one batch are kept.
    """
    row = ", ".join(f"`{name}`: {kind.spark}" for name, kind in source.columns.items())
    row = f"struct<{row}, raw_values: map<string, string>>"
    given = f"struct<after: {row}, before: {row}, cut_date: date, changes: array<string>"
    given = f"{given}, twice: boolean>"
    # as it is sent to the workers: not its module
    decode, path = FORMATS[source.format].decode, path_of_rows(source.format)
    many, known = path is not None, library_versions()

    def read(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        able = able_decoder(decode, known)
        return decoded_batches(batches, able, layout, as_lists if many else with_gaps, twice_in)

    # its kind is read from the hints, which the stubs don't know
    in_workers = F.arrow_udf(  # type: ignore[call-overload]
        read, f"array<{given}>" if many else given
    )
    # not deterministic to Spark: else it may be asked once for each column that it gives
    in_workers = in_workers.asNondeterministic()
    # the newline, so that the workers read the texts where they lie
    line = F.concat("payload", F.lit("\n"))
    read_rows = messages.withColumn(AGAIN if many else PROVEN, in_workers(line, *_SENT[1:]))
    first = F.get(AGAIN, F.lit(0)) if many else F.col(PROVEN)
    twice = F.coalesce(first["twice"], F.lit(False))
    unread = first.isNull() | twice
    read_rows = read_rows.withColumns({TWICE: twice, "payload": F.when(unread, F.col("payload"))})
    if path is None:
        return read_rows
    # a message that is decoded twice stays one, so that Spark makes the rows of it
    each = F.posexplode_outer(F.when(~F.col(TWICE), F.col(AGAIN))).alias(ROW, PROVEN)
    # and has no proven row where there are more or fewer than in the message: Spark's first differs
    is_complete = F.size(AGAIN) == F.json_array_length(F.get_json_object("payload", path))
    again = F.when(is_complete, F.col(AGAIN)).otherwise(F.slice(F.col(AGAIN), 1, 0))
    again = F.when(F.col(TWICE), again).alias(AGAIN)
    others = [name for name in read_rows.columns if name != AGAIN]
    return read_rows.select(*others, again, each)


def library_versions() -> tuple[str, str]:
    """Of the libraries that decode, in this process."""
    return pa.__version__, np.__version__


def able_decoder(decode: Decoder, known: tuple[str, str]) -> Decoder:
    """The decoder that a worker uses: what is proven of the driver's libraries needn't hold of
    others.

    Args:
        decode: of the format.
        known: library_versions of the driver.
    """
    pa.set_cpu_count(1)
    if library_versions() == known:
        return decode
    leave: object = leave_to_spark
    return cast("Decoder", leave)


def leave_to_spark(*_: object) -> tuple[np.ndarray, None]:
    """A decoder that proves no message."""
    return np.arange(0), None


def path_of_rows(log_format: str) -> str | None:
    """Where the rows of a message stand; None for a format whose messages have one row each."""
    return getattr(FORMATS[log_format], "ROWS", None)


def decoded_batches(
    batches: Iterable[tuple[pa.Array, ...]],
    decode: Decode,
    layout: Layout,
    place: Place,
    twice_in: int,
) -> Iterator[pa.Array]:
    """What is proven of a task's batches of messages, see with_proven_rows.

    Args:
        batches: arrays of _SENT.
        decode: of the format.
        place: puts rows to their messages.
    """
    task = TaskDecoder(partial(decode, layout))
    for batch in batches:
        kept, rows = task.decoded(len(batch[0]), *batch[: _PLACE.start])
        twice = is_chosen(batch[_PLACE], twice_in)
        yield place(kept, _marked(layout, rows, twice), len(batch[0]))


def _marked(layout: Layout, rows: pa.StructArray | None, twice: bool) -> pa.StructArray:
    """The rows with the mark of those that are decoded twice."""
    fields = [*layout.proven, pa.field("twice", pa.bool_())]
    if rows is None:
        return pa.nulls(0, pa.struct(fields))
    given = [*rows.flatten(), pa.array(np.full(len(rows), twice))]
    return pa.StructArray.from_arrays(given, fields=fields)


def with_gaps(kept: np.ndarray, rows: pa.StructArray, count: int) -> pa.StructArray:
    """The proven rows at their places among `count` messages, null at those of others."""
    if len(rows) == count:
        return rows
    place = np.zeros(count, np.int64)
    place[kept] = np.arange(len(kept))
    is_proven = np.zeros(count, bool)
    is_proven[kept] = True
    return rows.take(pa.array(place, mask=~is_proven))


def as_lists(kept: np.ndarray, rows: pa.StructArray, count: int) -> pa.ListArray:
    """The proven rows of each of `count` messages, null for others."""
    sizes = np.bincount(kept, minlength=count)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), rows, mask=pa.array(sizes == 0))


class TaskDecoder(Generic[Found]):
    """Decodes a task's messages, as long as enough of them are proven.

    Args:
        decode: from what is given of a batch's messages to the numbers of those that are proven,
            and what is found of these.
    """

    def __init__(self, decode: Callable[..., tuple[np.ndarray, Found | None]]) -> None:
        self._decode = decode
        self._seen = self._proven = 0

    def decoded(self, count: int, *given: object) -> tuple[np.ndarray, Found | None]:
        """What the decoder proves of a batch; nothing where the task's messages before weren't.

        Args:
            count: number of the batch's messages.
            given: what the decoder takes of them.
        """
        kept, rows = np.arange(0), None
        if self._seen < _ENOUGH_ROWS or self._proven >= self._seen * _LEAST_PROVEN:
            # whatever the decoder can't do, Spark does
            with suppress(Exception):
                kept, rows = self._decode(*given)
            self._seen += count
            self._proven += len(np.unique(kept))
        return kept, rows


def is_chosen(places: Sequence[pa.Array], twice_in: int) -> bool:
    """Whether a batch is decoded twice: by the place of its first message, always the same.

    Args:
        places: PLACE of its messages.
    """
    if not len(places[0]):
        return False
    place = ":".join(str(part[0].as_py()) for part in places)
    return crc32(place.encode()) % twice_in == 0
