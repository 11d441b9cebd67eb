"""The rows that a table's keys had between its events, from changes, full loads and RENAMEs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from python_udfs.ingestion.typed.images import canonical, image_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.whole_table.statements import TableEvent

# A change this much younger than a load's last row was certainly not in it: the clocks of server
# and loader may differ, and the log has the time at which a statement began
LOAD_MARGIN = 3600 * 1_000_000


IN_DOUBT = (
    "a row of a full load that was read within an hour behind a RENAME whose rows aren't all "
    "known: clocks differ, so it may be a row of before; load the table again when the hour is over"
)


@dataclass(frozen=True)
class Fill:
    """The rows that a table got from another table.

    Attributes:
        rows: columns key, image and n.
        gap: why rows may be missing, else None.
    """

    rows: DataFrame
    gap: str | None


def is_before(prefix: str, place: tuple[int, int]) -> Column:
    """Condition on the columns <prefix>binlog_file_number and <prefix>binlog_position."""
    file_number, position = F.col(f"{prefix}binlog_file_number"), F.col(f"{prefix}binlog_position")
    return (file_number < place[0]) | ((file_number == place[0]) & (position < place[1]))


def place_struct(place: tuple[int, int]) -> Column:
    return F.struct(
        F.lit(place[0]).cast("long").alias("binlog_file_number"),
        F.lit(place[1]).cast("long").alias("binlog_position"),
    )


def fills_with_gaps(
    events: Sequence[TableEvent], fills: dict[tuple[int, int], Fill]
) -> dict[int, TableEvent]:
    """The events that filled the table with rows of which some may be missing, by their number."""
    return {
        number: event
        for number, event in enumerate(events)
        if event.filled_from and (event.place not in fills or fills[event.place].gap)
    }


def in_doubt(time: Column, gaps: Mapping[int, TableEvent]) -> Column:
    """Condition on when a row of a full load was read: it may be of the rows before a RENAME, or of
    those behind it that the log lacks. What is behind any other event the log has whole.

    Args:
        gaps: of fills_with_gaps.
    """
    found = F.lit(False)
    for event in gaps.values():
        found |= (time > event.time) & (time <= event.time + LOAD_MARGIN)
    return found


def row_key(source: TableSource, image: Column) -> Column:
    """The key of a row, or the whole row of a table without key."""
    if not source.primary_key:
        return canonical(source, image)
    fields = [image[name].alias(name) for name in source.primary_key]
    return F.when(image.isNotNull(), F.struct(*fields))


def key_moves(source: TableSource, changes: DataFrame) -> DataFrame:
    """What changes did to keys: one row a key that a change ended, began or went through.

    Returns:
        key; had, has: the images before and after, null where there was no row of the key;
        place: struct of file number, position, row number and phase, which orders; time.
    """

    def step(key: str, had: Column, has: Column, phase: int) -> Column:
        return F.struct(
            F.col(key).alias("key"), had.alias("had"), has.alias("has"), F.lit(phase).alias("phase")
        )

    frame = changes.withColumn("_image", image_of(source))
    none = F.lit(None).cast(frame.schema["_image"].dataType)
    image, before = F.col("_image"), F.col("before")
    frame = frame.withColumn("_key", row_key(source, image)).withColumn(
        "_old_key", row_key(source, before)
    )
    ended, begun = step("_old_key", before, none, 0), step("_key", none, image, 1)
    went_on = step("_key", before, image, 1)
    same = (F.col("_key") == F.col("_old_key")) & F.lit(bool(source.primary_key))
    steps = (
        F.when(F.col("op_type") == "insert", F.array(begun))
        .when(F.col("op_type") == "delete", F.array(ended))
        .when(same, F.array(went_on))
        .otherwise(F.array(ended, begun))
    )
    order = ["binlog_file_number", "binlog_position", "row_number"]
    return frame.select(
        *order, F.unix_micros("event_time").alias("time"), F.explode(steps).alias("_step")
    ).select(
        "_step.key",
        "_step.had",
        "_step.has",
        F.struct(*order, "_step.phase").alias("place"),
        "time",
    )


def load_images(source: TableSource, rows: DataFrame) -> DataFrame:
    """Rows of full loads: key, image, time; of those with equal times the last of a topic."""
    image = image_of(source)
    return rows.select(
        row_key(source, image).alias("key"),
        image.alias("image"),
        F.unix_micros("event_time").alias("time"),
        F.struct("topic", "partition_number", "message_offset").alias("came"),
    )


def segments(
    source: TableSource,
    moves: DataFrame,
    loads: DataFrame,
    events: Sequence[TableEvent],
    fills: dict[tuple[int, int], Fill],
    loaded: int | None,
) -> DataFrame:
    """The rows that keys had at the beginning and at the end of each stretch between events.

    Args:
        moves: see key_moves, of all changes of the keys.
        loads: see load_images.
        fills: place of an event -> rows that the table got there.
        loaded: time of the newest row of a full load.

    Returns:
        One row per key and segment (0 before the first event): key, segment; base: the image at
        its beginning, unless an event or a change determines it, with `time`; final: the image at
        its end; base_n, n: how many rows of base and of final, 1 for a table with a key.
    """
    segment = F.lit(0)
    for event in events:
        segment = segment + (~is_before("place.", event.place)).cast("int")
    moves = moves.withColumn("segment", segment)
    filled = [
        fills[event.place].rows.select(
            "key",
            F.lit(place + 1).alias("segment"),
            F.struct("image", F.lit(event.time).alias("time")).alias("fill"),
            "n",
        )
        for place, event in enumerate(events)
        if event.place in fills
    ]
    if not source.primary_key:
        return _bags(moves, filled)
    gaps = fills_with_gaps(events, fills)
    limit = F.lit(None if loaded is None else loaded + LOAD_MARGIN).cast("long")
    early = F.coalesce(F.col("time") <= limit, F.lit(False))
    by_segment = moves.groupBy("key", "segment").agg(
        F.min_by(F.struct("had", "time"), "place").alias("first"),
        F.max_by(F.struct("has"), "place").alias("last"),
        F.coalesce(F.max(early), F.lit(False)).alias("early"),
        F.min("time").alias("earliest"),
    )
    # a load's row belongs behind the events that were well over when it was read; one that may have
    # been read behind the end of its stretch gives way to one that wasn't
    loaded_in, is_certain = F.lit(0), F.lit(True)
    for number, event in enumerate(events):
        loaded_in = loaded_in + (F.col("time") > event.time + LOAD_MARGIN).cast("int")
        is_certain = F.when(F.col("segment") == number, F.col("time") <= event.time).otherwise(
            is_certain
        )
    # it counts only for keys without such a change; a change behind a later event is none where the
    # load was certainly read before it, whatever loads came since
    changed = by_segment.groupBy("key").agg(
        F.collect_list(F.struct("segment", "early", "earliest")).alias("changes")
    )
    may_hold = F.exists(
        "changes",
        lambda change: (
            ((change["segment"] == F.col("segment")) & change["early"])
            | (
                (change["segment"] > F.col("segment"))
                & (change["earliest"] <= F.col("time") + LOAD_MARGIN)
            )
        ),
    )
    newest = (
        loads.where(~in_doubt(F.col("time"), gaps))
        .withColumn("segment", loaded_in)
        .join(changed, "key", "left")
        .where(F.col("changes").isNull() | ~may_hold)
        .withColumn("is_certain", is_certain)
        .groupBy("key", "segment")
        .agg(
            F.max_by(F.struct("image", "time"), F.struct("is_certain", "time", "came")).alias(
                "load"
            )
        )
    )
    parts = [by_segment.drop("earliest"), newest, *filled]
    together = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    if "fill" not in together.columns:
        together = together.withColumn("fill", F.lit(None).cast(newest.schema["load"].dataType))
    states = together.groupBy("key", "segment").agg(
        *[
            F.first(name, ignorenulls=True).alias(name)
            for name in ("first", "last", "load", "fill")
        ],
        F.coalesce(F.max("early"), F.lit(False)).alias("early"),
    )
    first = F.when(
        F.col("first.had").isNotNull(),
        F.struct(F.col("first.had").alias("image"), F.col("first.time").alias("time")),
    )
    # other rows were there when the log began, and may be behind a fill with a gap
    unknown = [0, *(number + 1 for number in gaps)]
    base = F.coalesce(
        F.col("fill"),
        F.when(F.col("segment").isin(unknown) & F.col("early"), first),
        F.col("load"),
    )
    return states.select(
        "key",
        "segment",
        base.alias("base"),
        F.when(F.col("last").isNotNull(), F.col("last.has"))
        .otherwise(base["image"])
        .alias("final"),
        F.lit(1).cast("long").alias("n"),
        F.lit(1).cast("long").alias("base_n"),
    )


def _bags(moves: DataFrame, filled: list[DataFrame]) -> DataFrame:
    """As segments, of a table without key: equal rows are counted."""
    image = F.coalesce("has", "had")
    counted = moves.select(
        "key",
        "segment",
        image.alias("image"),
        F.when(F.col("has").isNotNull(), 1).otherwise(-1).cast("long").alias("n"),
    )
    none = F.lit(None)
    base_type = f"struct<image: {moves.schema['has'].dataType.simpleString()}, time: bigint>"
    parts = [counted.withColumn("base", none.cast(base_type))]
    parts += [
        frame.select(
            "key", "segment", F.col("fill.image").alias("image"), "n", F.col("fill").alias("base")
        )
        for frame in filled
    ]
    together = reduce(lambda left, right: left.unionByName(right), parts)
    grouped = together.groupBy("key", "segment").agg(
        F.first("image").alias("image"),
        F.first("base", ignorenulls=True).alias("base"),
        F.sum(F.when(F.col("base").isNotNull(), F.col("n"))).alias("base_n"),
        F.sum("n").alias("left"),
    )
    return grouped.select(
        "key",
        "segment",
        "base",
        F.when(F.col("left") > 0, F.col("image")).alias("final"),
        F.col("left").alias("n"),
        F.coalesce("base_n", F.lit(0)).alias("base_n"),
    )
