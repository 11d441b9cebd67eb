"""Several messages of the same change: which one counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dbt.adapters.sparksession.session import checkpointed
from pyspark.sql import Window
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import COORDINATES, IDENTITY, row_changes
from python_udfs.ingestion.formats.registry import (
    has_whole_images,
    key_identifies,
    positions_are_places,
)
from python_udfs.ingestion.typed.images import canonical, digest, image_of
from python_udfs.ingestion.typed.proven import IN_SPARK
from python_udfs.ingestion.typed.rows import CORRECTION, REFUSED, REPEATED, decoded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay
    from python_udfs.ingestion.typed.proven import InWorkers


MANY = 1_000_000  # messages
# what identifies a change: its place, and which of the rows of that place it is, see _own_row
OWN_ROW = "own_row"
CHANGE = [*IDENTITY[:-1], OWN_ROW]


def deduplicate(
    new: DataFrame,
    known: DataFrame | None,
    source: TableSource,
    day: BusinessDay,
    batches: list[str],
    workers: InWorkers = IN_SPARK,
) -> tuple[DataFrame, DataFrame | None]:
    """The changes in `new` as rows of a typed model, each once, without those that `known` has.

    Several messages may describe the same change. The message counts whose batch is named last,
    and within a batch the first message. A row that the table holds is replaced by a message of a
    later batch with other content. Within one batch nobody can know which message is right: a
    message that differs from the first is refused.

    Only good rows are identified by their position. A message that has to be refused is refused
    each time it is sent, and never hides the same change in a whole message. A message may have
    rows of both kinds.

    Where a message has several rows (its position is a place in a topic), a correction replaces
    all of them: rows that the correcting message lacks are removed.

    The narrow columns are compared first. Only messages whose position occurs twice are decoded
    for the comparison. Usually there are none, and then this is one small job.

    Args:
        new: messages of the table's format, each with changes of single rows.
        known: the typed model's table, or None before its first run.
        batches: names of the batches that `new` and `known` are of, in the order that counts.
        workers: whether Python workers decode.

    Returns:
        The rows, and the rows of `known` that they replace (unique_key, binlog_file_number,
        binlog_position), or None where they replace none.
    """
    # the rows of one message share its position until it is decoded; some rows' keys aren't known
    is_shared = positions_are_places(source.format) or key_identifies(source) is not None
    place = IDENTITY[:-1] if is_shared else IDENTITY
    narrow = new.select(*COORDINATES, *IDENTITY)
    at_place = narrow.groupBy(*place).agg(F.count(F.lit(1)).alias("times"))
    suspects, held = narrow.join(at_place.where("times > 1"), place, "left_semi"), None
    if known is None:
        count, has_suspects = _has_repeats(narrow, place)
    else:
        # bounds that files of the table are pruned by: a log without files of its own has one
        # number for all, and positions that grow
        (bounds,) = narrow.agg(
            F.collect_set("binlog_file_number").alias("files"),
            F.min("binlog_position").alias("low"),
            F.max("binlog_position").alias("high"),
            F.count(F.lit(1)).alias("messages"),
        ).collect()
        held = known.where(
            F.col("binlog_file_number").isin(bounds.files)
            & F.col("binlog_position").between(bounds.low, bounds.high)
        )
        count, of_held = bounds.messages, narrow.join(held.select(*place), place, "left_semi")
        # of many messages the hashes alone are moved around, of few it takes a job more
        has_repeats = count < MANY or _has_repeats(narrow, place)[1]
        suspects = suspects.unionByName(of_held) if has_repeats else of_held
        has_suspects = not suspects.isEmpty()
    if not has_suspects:
        return workers.decoded(count, new, source, day), None
    messages = new.join(suspects.select(*COORDINATES), COORDINATES, "left_semi")
    classified = classify_duplicates(decoded(messages, source, day), held, source, batches)
    # else the rows' plan has all of this in it, and is planned with it several times
    classified = checkpointed(classified)
    leaves = F.col("verdict").eqNullSafe(REPEATED)
    whole = classified.groupBy(*COORDINATES).agg(F.bool_and(leaves).alias("leaves")).where("leaves")
    new = new.join(whole.select(*COORDINATES), COORDINATES, "left_anti")
    corrected = None
    if held is not None and len(batches) > 1:
        keys = classified.where(F.col("verdict") == CORRECTION).select(*IDENTITY, OWN_ROW)
        # known before the table is written
        good = held.where(F.col("reject_reason").isNull()).withColumn(OWN_ROW, _own_row(source))
        corrected = good.join(keys, CHANGE, "left_semi").drop(OWN_ROW)
        if positions_are_places(source.format):
            corrected = corrected.unionByName(_lacking(held, classified, batches, keys))
        corrected = corrected.select("unique_key", "binlog_file_number", "binlog_position")
        corrected = checkpointed(corrected)
        if corrected.isEmpty():
            corrected = None
    others = classified.where((F.col("verdict") == REFUSED) | leaves)
    others = others.join(whole, COORDINATES, "left_anti")
    if corrected is not None:
        workers = replace(workers, files=None)  # the rows are merged
    if others.isEmpty():
        rows = workers.decoded(count, new, source, day)
    else:
        judged = F.broadcast(others.select(*COORDINATES).distinct())
        rows = decoded(new.join(judged, COORDINATES, "left_semi"), source, day, others)
        new = new.join(judged, COORDINATES, "left_anti")
        rows = rows.unionByName(workers.decoded(count, new, source, day))
    return rows, corrected


def _has_repeats(narrow: DataFrame, place: list[str]) -> tuple[int, bool]:
    """Number of messages, and whether several may be at one place: by hashes, of which none is
    there twice where no place is."""
    hashed = narrow.groupBy(F.xxhash64(*place)).agg(F.count(F.lit(1)).alias("times"))
    [(count, most)] = hashed.agg(F.sum("times"), F.max("times")).collect()
    return count or 0, count is not None and most > 1


def change_rows(
    messages: DataFrame, source: TableSource, day: BusinessDay, batches: list[str]
) -> DataFrame:
    """The changes among a table's messages, each once, as rows of a typed model.

    Args:
        batches: those that count, see deduplicate.
    """
    rows, _ = deduplicate(row_changes(messages), None, source, day, batches)
    return rows


def classify_duplicates(
    rows: DataFrame, held: DataFrame | None, source: TableSource, batches: list[str]
) -> DataFrame:
    """Verdicts on rows whose change may have come more than once, see deduplicate.

    Args:
        rows: of a typed model.
        held: rows of its table, or None before its first run.

    Returns:
        COORDINATES, IDENTITY, OWN_ROW, is_bad and verdict: REPEATED, the row is left out; REFUSED;
        CORRECTION, it takes the place of one in `held`; null: it counts.
    """
    rank = F.array_position(F.array(*map(F.lit, batches)), F.col("batch_id"))
    is_bad = F.col("reject_reason").isNotNull()
    rows = rows.select(
        *COORDINATES,
        *IDENTITY,
        _own_row(source).alias(OWN_ROW),
        is_bad.alias("is_bad"),
        rank.alias("rank"),
        _content_hash(source).alias("content"),
        _known_part(source).alias("part"),
    )
    rows = checkpointed(rows, eager=False)
    if positions_are_places(source.format):
        # a message counts as a whole: rows that a message of a later batch lacks are not taken
        ranks = rows.select(*IDENTITY, "is_bad", "rank")
        if held is not None:
            ranks = ranks.unionByName(_ranks_at(held, rows, rank))
        rows = rows.join(_lacking_ranks(ranks), IDENTITY, "left")
        is_outdated = F.coalesce(F.col("lacking_rank") > F.col("rank"), F.lit(False))
        rows = rows.withColumn("is_outdated", is_outdated)
    else:
        rows = rows.withColumn("is_outdated", F.lit(False))
    by_rank = Window.partitionBy(*CHANGE).orderBy("is_bad", F.desc("rank"), *COORDINATES)
    rows = rows.select(
        "*",
        F.row_number().over(by_rank).alias("turn"),
        F.first("rank").over(by_rank).alias("first_rank"),
        F.first("content").over(by_rank).alias("first_content"),
        F.first("part").over(by_rank).alias("first_part"),
    )
    if held is None:
        rows = rows.selectExpr(
            "*",
            "cast(null as bigint) held_rank",
            "cast(null as string) held_content",
            "cast(null as string) held_part",
            "false was_bad",
        )
    else:
        asked = rows.select(*CHANGE).distinct()
        good = held.where(~is_bad).withColumn(OWN_ROW, _own_row(source))
        held_contents = good.join(asked, CHANGE, "left_semi").select(
            *CHANGE,
            rank.alias("held_rank"),
            _content_hash(source).alias("held_content"),
            _known_part(source).alias("held_part"),
        )
        if key_identifies(source) is not None:  # a table may hold two by their row_number
            held_contents = held_contents.dropDuplicates(CHANGE)
        bad = held.where(is_bad).select(*COORDINATES, "row_number", F.lit(True).alias("was_bad"))
        rows = rows.join(held_contents, CHANGE, "left")
        rows = rows.join(bad.distinct(), [*COORDINATES, "row_number"], "left")
    as_held, as_first = (
        F.col("content") == F.col(f"{other}_content") for other in ("held", "first")
    )
    # a format with partial changes may send more or less of a change the second time
    repeats_held, repeats_first = (
        same | (F.col("part") != F.col(f"{other}_part"))
        for other, same in (("held", as_held), ("first", as_first))
    )
    verdict = (
        F.when(F.col("is_bad"), REFUSED)
        .when((F.col("held_rank") > F.col("rank")) | F.col("is_outdated"), REPEATED)
        .when(
            F.col("held_rank") == F.col("rank"),
            F.when(repeats_held, REPEATED).otherwise(REFUSED),
        )
        .when((F.col("turn") > 1) & (F.col("first_rank") > F.col("rank")), REPEATED)
        .when(F.col("turn") > 1, F.when(repeats_first, REPEATED).otherwise(REFUSED))
        .when(F.col("held_rank").isNotNull(), F.when(as_held, REPEATED).otherwise(CORRECTION))
    )
    # refused before: the log is read again
    again = F.coalesce(F.col("was_bad"), F.lit(False)) & (verdict == REFUSED)
    verdict = F.when(again, REPEATED).when(~F.col("is_bad"), verdict)
    return rows.select(*COORDINATES, *IDENTITY, OWN_ROW, "is_bad", verdict.alias("verdict"))


def _own_row(source: TableSource) -> Column:
    """Which of the rows that change at one place a row of a typed model is of, as a text: its
    number, or of a format that numbers rows by what they hold the row's key. A row that changes its
    key is a delete and an insert there."""
    number = F.col("row_number").cast("string")
    by_key = key_identifies(source)
    if by_key is None:
        return number
    is_insert = F.col("op_type") == "insert"
    key, before = (
        F.struct(*[F.col(f"{image}{name}").alias(name) for name in source.primary_key])
        for image in ("", "before.")
    )
    own_key = digest(F.struct(is_insert, F.when(is_insert, key).otherwise(before)))
    return F.when(by_key & F.col("reject_reason").isNull(), own_key).otherwise(number)


def _content_hash(source: TableSource) -> Column:
    """Hash of the change that a row of a typed model holds, whatever message brought it."""
    before = canonical(source, F.col("before")).alias("before")
    image = canonical(source, image_of(source)).alias("image")
    return digest(F.struct("op_type", "event_time", "cut_date", before, image))


def _known_part(source: TableSource) -> Column:
    """The part of its change that a row of a typed model holds, as a text that is never null."""
    if has_whole_images(source):
        return F.lit("")
    known = F.coalesce(F.array_sort("known_columns"), F.array(F.lit("*")))
    return F.concat_ws("`", F.col("before").isNull().cast("string"), known)


def _lacking(
    held: DataFrame, classified: DataFrame, batches: list[str], corrected: DataFrame
) -> DataFrame:
    """Held rows of messages of several rows that a message of a later batch no longer has.

    Args:
        held: rows of the table.
        classified: see classify_duplicates.
        corrected: IDENTITY of the rows that are corrected anyway.
    """
    rank = F.array_position(F.array(*map(F.lit, batches)), F.col("batch_id"))
    new_ranks = classified.select(*IDENTITY, "is_bad", rank.alias("rank"))
    ranks = _lacking_ranks(new_ranks.unionByName(_ranks_at(held, classified, rank)))
    surplus = held.where(F.col("reject_reason").isNull()).join(F.broadcast(ranks), IDENTITY)
    surplus = surplus.where(rank < F.col("lacking_rank"))
    return surplus.join(corrected, IDENTITY, "left_anti").select(*held.columns)


def _ranks_at(held: DataFrame, rows: DataFrame, rank: Column) -> DataFrame:
    """IDENTITY, is_bad and rank of the rows of `held` that stand at places of `rows`."""
    at_places = held.join(rows.select(*IDENTITY[:-1]).distinct(), IDENTITY[:-1], "left_semi")
    is_bad = F.col("reject_reason").isNotNull()
    return at_places.select(*IDENTITY, is_bad.alias("is_bad"), rank.alias("rank"))


def _lacking_ranks(rows: DataFrame) -> DataFrame:
    """IDENTITY -> lacking_rank: of the newest message at the row's place that has no such row.

    A message without any good row doesn't count. A message whose row of this number is bad has
    that row: the row of an older message stays.

    Args:
        rows: IDENTITY, is_bad and rank (of the message's batch) of all rows at some places.
    """
    place = IDENTITY[:-1]
    messages = rows.where("not is_bad").groupBy(*place).agg(F.collect_set("rank").alias("all"))
    having = rows.groupBy(*IDENTITY).agg(F.collect_set("rank").alias("having"))
    lacking = F.array_max(F.array_except("all", "having"))
    return having.join(messages, place).select(*IDENTITY, lacking.alias("lacking_rank"))
