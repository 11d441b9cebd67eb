"""Is what has landed the log that the table holds? Its messages are known by topic, partition and
offset alone: others at the same places would be passed over as held.

That happens where a topic was deleted and created again, where a landed file was edited, and where
LANDING or WAREHOUSE names another folder than before, or none.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from python_udfs.ingestion.formats.envelope import COORDINATES
from python_udfs.ingestion.landing.files import LONG_LINE, LandedFile
from python_udfs.ingestion.landing.held_again import STRETCH, Stretch, checksums_at
from python_udfs.ingestion.landing.object_stores import ObjectStore, is_uri
from python_udfs.ingestion.landing.offsets import Interval, held_until
from python_udfs.ingestion.landing.spark import STRETCH_SCHEMA, stretches_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Place = tuple[str, str, int, int]  # as COORDINATES
Bounds = dict[tuple[str, str, int], tuple[int, int]]
FOLDER_PROPERTY = "landing.folder"  # where the table's messages were read from
SAMPLE, KAFKA = "sample", "Kafka"  # instead of a folder: LANDING isn't set
MOST_AT_ONCE = 50_000  # lines whose checksums a driver holds
MOST_NAMED = 200  # partitions that are asked for by themselves; else whole topics are


def check_folder(dbt: Any, folder: str | None) -> None:
    """Note for the next run where messages come from, and compare it with that of the last commit.

    Args:
        dbt: the model's handle, with config meta `landing_is_set`: whether LANDING is set, else the
            folder is that of the project's own sample.
        folder: the landing folder of this run; None where it reads Kafka alone.

    Raises:
        ValueError: the rows of the sample and those of another log would be counted together.
    """
    now = KAFKA
    if folder is not None:
        now = _real(folder) if dbt.meta.get("landing_is_set", True) else SAMPLE
    before = dbt.snapshot_property(FOLDER_PROPERTY)
    dbt.set_snapshot_property(FOLDER_PROPERTY, now)
    sample = os.path.realpath(os.path.join(dbt.project_root, "landing"))
    if before in (None, now) or {before, now} == {SAMPLE, sample}:
        return
    if now == SAMPLE:
        raise ValueError(
            f"LANDING isn't set, and this warehouse was made of the log in {before}: the project's "
            f"sample would get in among its rows. Set LANDING={before}, or WAREHOUSE to another "
            "folder. With LANDING=./landing the sample is read nevertheless."
        )
    if before == SAMPLE and os.path.isdir(os.path.join(sample, "topics")):
        raise ValueError(
            f"This warehouse was made of the project's sample in {sample}, and messages now come "
            f"from {now}: they would be counted together. Set WAREHOUSE to another folder, or "
            "delete the sample's warehouse by `make drop-warehouse`. If the log in that folder is "
            "your own, take the folder away."
        )
    if KAFKA not in (before, now):
        from dbt.adapters.events.logging import AdapterLogger

        AdapterLogger("Log").warning(
            f"LANDING is {now}, and this warehouse was made of the log in {before} so far: the "
            "rows of both are counted. For a warehouse of the new folder alone set WAREHOUSE to "
            "another folder."
        )


def check_held_places(
    table: DataFrame,
    files: Collection[LandedFile],
    held: Mapping[str, list[Interval]],
    reading: tuple[int, ObjectStore | None],
) -> None:
    """Compare each line of some files whose offset is held with the message that is held there.

    Reads the held part of those files, and the table's messages of these offsets.

    Args:
        table: ods_binlog.
        files: what may hold messages that aren't held yet.
        held: offsets_key -> merged intervals of the offsets that the table holds.
        reading: bytes of a line that is taken whole, and the store that the files lie in.

    Raises:
        ValueError: the table holds another message at the place of a line; the first such line.
    """
    reaching = [
        file
        for file in files
        if any(last >= file.first_offset for _, last in held.get(file.key, []))
    ]
    if not reaching:
        return
    stored = _whole_messages(table)
    stretches = sorted(stretches_of(table.sparkSession, reaching, held, *reading))
    if sum(map(_length, stretches)) > MOST_AT_ONCE:
        stretches = sorted(_unequal(stored, stretches))
    by_path = {file.path: file for file in reaching}
    for together in _parts(stretches):
        messages = _held_checksums(stored, together)
        for path, some in itertools.groupby(together, key=lambda stretch: stretch.path):
            file = by_path[path]
            lines = checksums_at(some, file.first_offset, *reading)
            for offset, checksum in lines.items():
                if checksum not in messages.get(_place(file, offset), {checksum}):
                    raise ValueError(_another_message(file, offset, held[file.key]))


def _real(folder: str) -> str:
    return folder if is_uri(folder) else os.path.realpath(folder)


def _whole_messages(table: DataFrame) -> DataFrame:
    """COORDINATES, CRC-32 and `refused` of the messages that ods_binlog holds whole."""
    from pyspark.sql import functions as F

    payload = F.coalesce("payload_bytes", F.col("payload").cast("binary"))
    is_long = F.coalesce(F.col("reject_reason").startswith(LONG_LINE), F.lit(False))
    whole = table.where(F.col("cut_reason").isNull() & payload.isNotNull() & ~is_long)
    return whole.select(
        *COORDINATES,
        F.crc32(payload).alias("held_checksum"),
        F.col("reject_reason").isNotNull().alias("refused"),
    )


def _bounds(stretches: Sequence[Stretch]) -> Bounds:
    """Batch, topic and partition -> first and last offset of its stretches."""
    bounds: Bounds = {}
    for stretch in stretches:
        first, last = bounds.get(stretch[1:4], (stretch.first, stretch.last))
        bounds[stretch[1:4]] = min(first, stretch.first), max(last, stretch.last)
    return bounds


def _within(stored: DataFrame, bounds: Bounds) -> DataFrame:
    """The held messages within bounds, and others of these topics where the bounds are many."""
    from pyspark.sql import functions as F

    if len(bounds) <= MOST_NAMED:
        return stored.where(reduce(or_, itertools.starmap(_is_between, bounds.items())))
    topics = sorted({topic for _, topic, _ in bounds})
    first = min(first for first, _ in bounds.values())
    return stored.where(F.col("topic").isin(topics) & (F.col("message_offset") >= first))


def _at(stored: DataFrame, stretches: Sequence[Stretch]) -> DataFrame:
    """The held messages of some stretches, with the columns of the stretch beside each."""
    from pyspark.sql import functions as F

    stored = _within(stored, _bounds(stretches))
    asked = stored.sparkSession.createDataFrame(list(stretches), STRETCH_SCHEMA)
    asked = asked.withColumn("stretch", F.expr(f"first div {STRETCH}"))
    stored = stored.withColumn("stretch", F.expr(f"message_offset div {STRETCH}"))
    joined = stored.join(F.broadcast(asked), [*COORDINATES[:3], "stretch"])
    return joined.where(F.col("message_offset").between(F.col("first"), F.col("last")))


def _unequal(stored: DataFrame, stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches whose checksum isn't that of the held messages.

    Where all messages are as they were, they may be among these: some of them are held twice, as
    they were refused and then read again, or aren't held whole.
    """
    from pyspark.sql import functions as F

    part = F.col("held_checksum") * (F.pmod("message_offset", F.lit(STRETCH)) + 1)
    sums = (
        _at(stored, stretches)
        .groupBy("path", *COORDINATES[:3], "first", "last", "checksum")
        .agg(F.sum(part).alias("all"), F.sum(F.when(~F.col("refused"), part)).alias("taken"))
    )
    unequal = sums.where(
        (F.col("checksum") != F.col("all")) & (F.col("checksum") != F.coalesce("taken", F.lit(0)))
    )
    return [Stretch(*row[:7]) for row in unequal.collect()]


def _held_checksums(stored: DataFrame, stretches: Sequence[Stretch]) -> dict[Place, set[int]]:
    """Place -> checksums of the messages that are held there; of some other places too."""
    bounds = _bounds(stretches)
    is_short = sum(last - first + 1 for first, last in bounds.values()) <= MOST_AT_ONCE
    # messages between the stretches do no harm, and a join takes longer than to read a few
    near = is_short and len(bounds) <= MOST_NAMED
    rows = _within(stored, bounds) if near else _at(stored, stretches)
    found: dict[Place, set[int]] = {}
    for *place, checksum in rows.select(*COORDINATES, "held_checksum").collect():
        found.setdefault(tuple(place), set()).add(checksum)
    return found


def _parts(stretches: Iterable[Stretch]) -> Iterator[list[Stretch]]:
    """Stretches in their order, so many at once that a driver can hold their lines' checksums."""
    part: list[Stretch] = []
    lines = 0
    for stretch in stretches:
        if part and lines + _length(stretch) > MOST_AT_ONCE:
            yield part
            part, lines = [], 0
        part.append(stretch)
        lines += _length(stretch)
    if part:
        yield part


def _length(stretch: Stretch) -> int:
    return stretch.last - stretch.first + 1


def _place(file: LandedFile, offset: int) -> Place:
    return file.batch, file.topic, file.partition, offset


def _is_between(key: tuple[str, str, int], bounds: tuple[int, int]) -> Column:
    from pyspark.sql import functions as F

    batch, topic, partition = key
    return (
        (F.col("batch_id") == batch)
        & (F.col("topic") == topic)
        & (F.col("partition_number") == partition)
        & F.col("message_offset").between(*bounds)
    )


def _another_message(file: LandedFile, offset: int, held: list[Interval]) -> str:
    return (
        f"{file.path} holds another message than the warehouse at offset {offset} of partition "
        f"{file.partition} of {file.topic}, so it was edited, or is of another log: its messages "
        f"up to offset {held_until(held, offset)} would be passed over as known. Was a message "
        "corrected? Put the file back as it was, and land the correction as a batch. Was the topic "
        "deleted and created again? Land the new log under another topic. Does LANDING or "
        "WAREHOUSE name the wrong folder? Set it. Is the file wrong? Take it away."
    )
