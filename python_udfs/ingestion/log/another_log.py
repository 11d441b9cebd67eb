"""Is what has landed the log that the table holds? Its messages are known by topic, partition and
offset alone: those of another log at the same places would be passed over as held.

That happens where a topic was deleted and created again, and where LANDING or WAREHOUSE names
another folder than before, or none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from python_udfs.ingestion.formats.envelope import COORDINATES
from python_udfs.ingestion.landing.files import LONG_LINE, LandedFile, read_lines
from python_udfs.ingestion.landing.object_stores import ObjectStore, is_uri
from python_udfs.ingestion.landing.offsets import Interval, held_until

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Place = tuple[str, str, int, int]  # as COORDINATES
FOLDER_PROPERTY = "landing.folder"  # where the table's messages were read from
SAMPLE, KAFKA = "sample", "Kafka"  # instead of a folder: LANDING isn't set
MOST_COMPARED = 200  # files of a run, of which a message is compared


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
    """Compare the first message of a file that is held with the message that is held there.

    Args:
        table: ods_binlog.
        files: what may hold messages that aren't held yet; MOST_COMPARED are read up to their first
            held offset. It is that of the first line, but for files that reach into what is held.
        held: offsets_key -> merged intervals of the offsets that the table holds.
        reading: bytes of a line that is taken whole, and the store that the files lie in.

    Raises:
        ValueError: the table holds another message at the place of that line.
    """
    from pyspark.sql import functions as F

    begun = [
        (file, offset)
        for file in files
        if (offset := _first_held(held.get(file.key, []), file.first_offset)) is not None
    ]
    firsts = {
        (file, offset): line
        for file, offset in begun[-MOST_COMPARED:]
        if (line := _line_at(file, offset, *reading)) is not None
    }
    if not firsts:
        return
    places = {_place(*first) for first in firsts}
    stored = table.where(reduce(or_, map(_is_at, places))).where(
        F.col("cut_reason").isNull()
        & ~F.coalesce(F.col("reject_reason").startswith(LONG_LINE), F.lit(False))
    )
    payload = F.coalesce("payload_bytes", F.col("payload").cast("binary"))
    messages: dict[Place, set[bytes]] = {}
    for row in stored.select(*COORDINATES, payload.alias("message")).distinct().collect():
        if row.message is not None:
            held_at = row.batch_id, row.topic, row.partition_number, row.message_offset
            messages.setdefault(held_at, set()).add(bytes(row.message))
    for (file, offset), line in sorted(firsts.items()):
        if line not in messages.get(_place(file, offset), {line}):
            until = held_until(held.get(file.key, []), offset)
            raise ValueError(
                f"{file.path} holds another message than the warehouse at offset {offset} of "
                f"partition {file.partition} of {file.topic}, so it is of another log: its "
                f"messages up to offset {until} would be passed over as known. Was the topic "
                "deleted and created again? Land the new log under another topic. Does LANDING or "
                "WAREHOUSE name the wrong folder? Set it. Is the file wrong? Take it away."
            )


def _real(folder: str) -> str:
    return folder if is_uri(folder) else os.path.realpath(folder)


def _place(file: LandedFile, offset: int) -> Place:
    return file.batch, file.topic, file.partition, offset


def _first_held(intervals: list[Interval], offset: int) -> int | None:
    """The first held offset from `offset` on."""
    return next((max(first, offset) for first, last in intervals if last >= offset), None)


def _is_at(place: Place) -> Column:
    from pyspark.sql import functions as F

    batch, topic, partition, offset = place
    return (
        (F.col("batch_id") == batch)
        & (F.col("topic") == topic)
        & (F.col("partition_number") == partition)
        & (F.col("message_offset") == offset)
    )


def _line_at(
    file: LandedFile, offset: int, longest: int, store: ObjectStore | None
) -> bytes | None:
    """A file's line at an offset, None where it has no whole line there."""
    begin = file.first_offset
    for lines, reason in read_lines(file.path, longest, store):
        if offset < begin + len(lines):
            return lines[offset - begin] if reason is None else None
        begin += len(lines)
    return None
