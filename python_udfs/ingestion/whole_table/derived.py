"""The derived rows of a table, as the difference to those that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dbt.adapters.sparksession.session import checkpointed
from pyspark.sql import Window
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import TABLE_OPS
from python_udfs.ingestion.typed.images import canonical, digest, image_of
from python_udfs.ingestion.typed.loads import BEFORE_LOG, LOAD_FILE, load_rows
from python_udfs.ingestion.typed.rows import refused_rows
from python_udfs.ingestion.whole_table.partial_images import marked, unmarked
from python_udfs.ingestion.whole_table.segments import (
    IN_DOUBT,
    fills_with_gaps,
    in_doubt,
    key_moves,
    load_images,
    place_struct,
    row_key,
    segments,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay
    from python_udfs.ingestion.whole_table.state import TableState
    from python_udfs.ingestion.whole_table.statements import TableEvent

DERIVED_OPS = (*TABLE_OPS, "snapshot")


def rows_of_loads(
    state: TableState, messages: DataFrame, source: TableSource, day: BusinessDay
) -> DataFrame:
    """The rows of full loads among a table's messages, as rows of the typed model; refused where it
    isn't known of which rows of the table they are.

    Args:
        source: the table's declaration, as its messages are written.
    """
    gaps = fills_with_gaps(state.events, state.fills) if state.whole_images else {}
    if not gaps:
        return load_rows(messages, source, day)
    snapshots = messages.where(F.col("op") == "snapshot")
    doubtful = in_doubt(F.unix_micros("event_time"), gaps)
    refused = refused_rows(snapshots.where(doubtful), F.lit(IN_DOUBT), source, day)
    return load_rows(snapshots.where(~doubtful), source, day).unionByName(refused)


def derived_rows(
    state: TableState,
    changes: DataFrame,
    loads: DataFrame,
    known: DataFrame | None,
    gone: DataFrame | None = None,
) -> DataFrame:
    """The rows to add, so that the model holds what follows from all that it knows.

    Args:
        state: what the run knows of the table.
        changes: new good rows of the typed model, of ops insert, update, delete.
        loads: good rows of full loads, as the typed model's.
        known: the model's rows, or None before its first run.
        gone: rows that were among them, and that some of `changes` took the place of.

    Returns:
        Rows of the typed model.
    """
    source = state.source
    if not state.whole_images:
        changes, loads = marked(source, changes), marked(source, loads)
        known, gone = (None if frame is None else marked(source, frame) for frame in (known, gone))
    moves, new_loads = key_moves(source, changes), load_images(source, loads)
    emitted, fills = None, state.fills
    if known is not None:
        good = known.where(F.col("reject_reason").isNull())
        derived = F.col("metadata_op_type").isin(*DERIVED_OPS)
        old_moves = key_moves(source, good.where(~derived))
        emitted = _emitted(source, good.where(derived))
        if not state.all_keys:
            keys = _touched_keys(state, moves, new_loads, old_moves)
            if gone is not None:
                keys = keys.union(key_moves(source, gone).select("key")).distinct()
            old_moves = old_moves.join(keys, "key", "left_semi")
            emitted = emitted.join(keys, "key", "left_semi")
            fills = {
                place: replace(fill, rows=fill.rows.join(keys, "key", "left_semi"))
                for place, fill in fills.items()
            }
        moves = moves.unionByName(old_moves)
        new_loads = new_loads.unionByName(_held_loads(emitted, state.events))
    moves = checkpointed(moves, eager=False)
    states = segments(source, moves, new_loads, state.events, fills, state.loaded)
    difference = _difference(source, _wanted(states, state.events, state.day), emitted)
    rows = _rows_of(state, difference, changes.schema)
    return rows if state.whole_images else unmarked(source, rows)


def _touched_keys(
    state: TableState, moves: DataFrame, loads: DataFrame, old_moves: DataFrame
) -> DataFrame:
    """Keys for which something else may follow than what the table holds."""
    keys = moves.select("key").union(loads.select("key"))
    if state.has_load and state.loaded_before is not None:
        # changes that were too young for the load before, but not for this one
        keys = keys.union(old_moves.where(F.col("time") >= state.loaded_before).select("key"))
    return keys.distinct()


def _rows_of(state: TableState, difference: DataFrame, like: StructType) -> DataFrame:
    """The difference as rows of the typed model, with the columns of `like`."""
    is_delete = F.col("op_type") == "delete"
    place = F.struct("binlog_file_number", "binlog_position")
    operation, file = F.lit("snapshot"), F.lit(LOAD_FILE)
    for event in state.events:
        at_event = place == place_struct(event.place)
        operation = F.when(at_event, F.lit(event.op)).otherwise(operation)
        file = F.when(at_event, F.lit(event.binlog_file)).otherwise(file)
    values = {
        **{name: F.col("image")[name] for name in (*state.source.columns, "raw_values")},
        "before": F.when(is_delete, F.col("image")),
        "op_type": F.col("op_type"),
        "unique_key": F.concat_ws(
            ":", file, "binlog_position", "row_number", digest(F.col("canon")), "copy"
        ),
        "cut_date": F.col("cut_date"),
        "event_time": F.timestamp_micros("time"),
        "binlog_file": file,
        "binlog_file_number": F.col("binlog_file_number"),
        "binlog_position": F.col("binlog_position"),
        "row_number": F.col("row_number"),
        "schema_version": F.lit(state.source.schema_version),
        "metadata_table": F.lit(f"{state.source.database}.{state.source.table}"),
        "metadata_op_type": operation,
        "metadata_commit_ts": F.timestamp_micros("time"),
    }
    nothing = F.lit(None)
    return difference.select(
        *[values.get(field.name, nothing).cast(field.dataType).alias(field.name) for field in like]
    )


def _emitted(source: TableSource, derived: DataFrame) -> DataFrame:
    """What the table holds of derived rows, those that were taken back subtracted.

    Returns:
        key, part (base or end), place (file number, position), canon, image, cut_date, time;
        n: how often it holds; deletes, inserts: how many such rows there are; row_number: the
        highest.
    """
    base = F.col("row_number") >= 1
    inserted = F.col("op_type") == "insert"
    image = F.when(inserted, image_of(source)).otherwise(F.col("before"))
    return (
        derived.select(
            row_key(source, image).alias("key"),
            F.when(base, F.lit("base")).otherwise(F.lit("end")).alias("part"),
            F.struct("binlog_file_number", "binlog_position").alias("place"),
            canonical(source, image).alias("canon"),
            "cut_date",
            image.alias("image"),
            F.unix_micros("event_time").alias("time"),
            inserted.cast("long").alias("inserted"),
            "row_number",
        )
        .groupBy("key", "part", "place", "canon", "cut_date")
        .agg(
            F.first("image").alias("image"),
            F.max("time").alias("time"),
            F.sum("inserted").alias("inserts"),
            (F.count(F.lit(1)) - F.sum("inserted")).alias("deletes"),
            F.max("row_number").alias("row_number"),
        )
        .withColumn(
            "n",
            F.when(F.col("part") == "base", F.col("inserts") - F.col("deletes")).otherwise(
                F.col("deletes") - F.col("inserts")
            ),
        )
    )


def _held_loads(emitted: DataFrame, events: Sequence[TableEvent]) -> DataFrame:
    """Rows that came by full loads and hold; one that another load brings again is the same.

    What a RENAME filled the table with is held at its place and time, and is none of them.
    """
    came = F.struct(
        F.lit("").alias("topic"),
        F.lit(0).alias("partition_number"),
        F.lit(-1).cast("long").alias("message_offset"),
    )
    from_load = (F.col("part") == "base") & (F.col("n") > 0)
    for event in events:
        if event.filled_from:
            from_fill = (F.col("place") == place_struct(event.place)) & (
                F.col("time") == event.time
            )
            from_load &= ~from_fill
    return emitted.where(from_load).select("key", "image", "time", came.alias("came"))


def _wanted(states: DataFrame, events: Sequence[TableEvent], day: BusinessDay) -> DataFrame:
    """The derived rows that follow: key, part, place, image, time, n, cut_date."""
    start = place_struct(BEFORE_LOG)
    end = F.lit(None).cast("struct<binlog_file_number: bigint, binlog_position: bigint>")
    end_time = F.lit(None).cast("long")
    for number, event in enumerate(events):
        start = F.when(F.col("segment") == number + 1, place_struct(event.place)).otherwise(start)
        end = F.when(F.col("segment") == number, place_struct(event.place)).otherwise(end)
        end_time = F.when(F.col("segment") == number, event.time).otherwise(end_time)
    rows = states.select(
        "key",
        F.explode(
            F.array(
                F.struct(
                    F.lit("base").alias("part"),
                    start.alias("place"),
                    F.col("base.image").alias("image"),
                    F.col("base.time").alias("time"),
                    F.col("base_n").alias("n"),
                    F.lit("insert").alias("op"),
                ),
                F.struct(
                    F.lit("end").alias("part"),
                    end.alias("place"),
                    F.when(end.isNotNull(), F.col("final")).alias("image"),
                    end_time.alias("time"),
                    F.col("n"),
                    F.lit("delete").alias("op"),
                ),
            )
        ).alias("_row"),
    ).select("key", "_row.*")
    rows = rows.where(F.col("image").isNotNull() & (F.col("n") > 0))
    dated = day.cut_date(F.col("image"), F.col("op"), F.timestamp_micros("time"))
    return rows.withColumn("cut_date", dated)


def _difference(source: TableSource, wanted: DataFrame, emitted: DataFrame | None) -> DataFrame:
    """The rows to add to those emitted to come to those wanted.

    Returns:
        One row per row to add: binlog_file_number, binlog_position, row_number, op_type, image,
        canon, cut_date, time, copy.
    """
    group = ["key", "part", "place", "canon", "cut_date"]
    zero = F.lit(0).cast("long")
    rows = wanted.select(
        "key",
        "part",
        "place",
        canonical(source, F.col("image")).alias("canon"),
        "cut_date",
        "image",
        "time",
        "n",
        zero.alias("inserts"),
        zero.alias("deletes"),
        zero.alias("row_number"),
    )
    if emitted is not None:
        rows = rows.unionByName(emitted.withColumn("n", -F.col("n")))
    summed = rows.groupBy(*group).agg(
        F.first("image").alias("image"),
        F.max("time").alias("time"),
        F.sum("n").alias("n"),
        F.sum("inserts").alias("inserts"),
        F.sum("deletes").alias("deletes"),
        F.max("row_number").alias("row_number"),
    )
    slot = Window.partitionBy("key", "part", "place")
    is_base = F.col("part") == "base"
    summed = summed.select(
        "*",
        F.max("row_number").over(slot).alias("highest"),
        F.max((F.col("n") < 0).cast("int")).over(slot).alias("takes_back"),
    ).where("n <> 0")
    inserts = is_base == (F.col("n") > 0)
    highest = F.greatest("highest", zero)
    # even numbers take back, the next odd one holds: see the package's head
    back = highest + 1 + (highest + 1) % 2
    holds = F.when(F.col("takes_back") == 1, back + 1).otherwise(highest + 1 + highest % 2)
    number = F.when(is_base, F.when(inserts, holds).otherwise(back)).otherwise(
        F.when(inserts, -1).otherwise(0)
    )
    so_far = F.when(inserts, F.col("inserts")).otherwise(F.col("deletes"))
    copies = F.sequence(so_far + 1, so_far + F.abs("n"))
    return summed.select(
        "place.*",
        number.cast("long").alias("row_number"),
        F.when(inserts, F.lit("insert")).otherwise(F.lit("delete")).alias("op_type"),
        "image",
        "canon",
        "cut_date",
        "time",
        F.explode(copies).alias("copy"),
    )
