"""The two kinds of ODS model: the log as it came, and one source table typed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import reduce
from typing import TYPE_CHECKING, Any

from python_udfs.deserialize.envelope import FORMATS, ROW_OPS, with_envelope
from python_udfs.deserialize.json_lines import misfit_texts, not_null
from python_udfs.deserialize.table_source import TableSource, table_source
from python_udfs.landing.files import LandedFile, files_to_read, list_files, open_ended
from python_udfs.landing.kafka import (
    OffsetRange,
    beginnings,
    broker_topics,
    first_gaps,
    kafka_source,
    ranges_to_read,
    read_topics,
)
from python_udfs.landing.offsets import Interval, merge
from python_udfs.landing.spark import held_offsets, read_messages
from python_udfs.table_state import (
    BEFORE_LOG,
    COORDINATES,
    KEYLESS_LOAD,
    LOAD_FILE,
    TableState,
    canonical,
    digest,
    has_whole_images,
    image_of,
    of_table,
    positions_are_places,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# offsets that the table held before the commit that says so, and those it asked of Kafka
HELD_PROPERTY = "landing.held"
TOPICS_PROPERTY = "landing.kafka_topics"  # topic -> id that Kafka knew it by
BEGUN_PROPERTY = "landing.kafka_begun"  # where reading of each of Kafka's partitions began
SIZES_PROPERTY = "landing.sizes"  # sizes of files whose end only reading tells
LISTED_PROPERTY = "landing.listed"  # when the newest listed file came, ns
SETTINGS = ("source", "business_zone", "cut_time_max_ahead_hours", "batches")  # of a typed model
LOAD_FORMAT = "maxwell"  # that tools/full_load.py writes in, whatever the log's format is
BATCHES_PROPERTY = "ods.batches"  # the batches that a typed model has read
# changes that a commit brought, by cut_date, where it rewrote others beside them
CHANGES_PROPERTY = "ods.changes_by_day"


def binlog_messages(dbt: Any, session: SparkSession) -> DataFrame | None:
    """Rows of ods_binlog: the landed messages that the table doesn't hold yet.

    Which offsets it holds is known from itself: each commit says what was held before it
    (snapshot property `landing.held`), and what it added is read from its own rows. So data and
    offsets commit together, and no run reads more than the last run's coordinates. A topic's
    files carry Kafka's offsets: what the one delivers isn't taken from the other.

    Args:
        dbt: with config meta `landing` (a folder), `kafka` (see landing.kafka) and `formats`
            (topic, as a shell pattern -> format; the first that fits). With Kafka the folder may
            be left empty.

    Returns:
        None where nothing new has landed.
    """
    from pyspark.sql import functions as F

    kafka = kafka_source(dbt.meta["kafka"])
    landing = os.path.join(dbt.project_root, os.path.expanduser(dbt.meta["landing"]))
    files_too = dbt.meta["landing"] or not kafka
    files = list_files(os.path.abspath(landing)) if files_too else []
    held = _held(dbt, session)
    topic_ids = json.loads(dbt.snapshot_property(TOPICS_PROPERTY, "{}"))
    ranges: list[OffsetRange] = []
    if kafka:
        topics = broker_topics(session, kafka)
        begun = json.loads(dbt.snapshot_property(BEGUN_PROPERTY, "{}"))
        ranges = ranges_to_read(topics, held, topic_ids, kafka.accept_gap, begun)
        if note := first_gaps(topics, held, begun):
            from dbt.adapters.events.logging import AdapterLogger

            AdapterLogger("Kafka").warning(note)
        begun = beginnings(topics, begun, kafka.accept_gap)
        dbt.set_snapshot_property(BEGUN_PROPERTY, json.dumps(begun, separators=(",", ":")))
        topic_ids |= {name: one.topic_id for name, one in topics.items()}
        # Kafka's part is known beforehand, to its end: the table's rows don't tell of offsets
        # that have no message
        for one in ranges:
            held[one.key] = merge([*held.get(one.key, []), (one.first, one.last)])
    seen_sizes = json.loads(dbt.snapshot_property(SIZES_PROPERTY, "{}"))
    seen_until = int(dbt.snapshot_property(LISTED_PROPERTY, "0"))
    chosen = files_to_read(files, held, seen_sizes, seen_until)
    if not chosen and not ranges and dbt.is_incremental:
        return None
    dbt.set_snapshot_property(TOPICS_PROPERTY, json.dumps(topic_ids, separators=(",", ":")))
    dbt.set_snapshot_property(HELD_PROPERTY, json.dumps(held, separators=(",", ":")))
    sizes = open_ended(files, held)
    dbt.set_snapshot_property(SIZES_PROPERTY, json.dumps(sizes, separators=(",", ":")))
    newest = max((file.changed_ns for file in files), default=0)
    dbt.set_snapshot_property(LISTED_PROPERTY, str(newest))
    from_files = _by_format(chosen, dbt.meta["formats"])
    from_kafka = _by_format(ranges, dbt.meta["formats"])
    if not from_files and not from_kafka:
        from_files = {"maxwell": []}
    frames = [
        *(
            with_envelope(read_messages(session, some, held), kind)
            for kind, some in from_files.items()
        ),
        *(
            with_envelope(read_topics(session, kafka, some), kind)
            for kind, some in from_kafka.items()
        ),
    ]
    return reduce(lambda one, two: one.unionByName(two), frames).withColumn(
        "load_id", F.lit(dbt.run_id)
    )


def _by_format(parts: Iterable[LandedFile | OffsetRange], formats: Any) -> dict[str, list[Any]]:
    """Format -> files, or ranges of offsets, of its topics.

    Raises:
        ValueError: a topic that no pattern of `formats` fits.
    """
    found: dict[str, list[Any]] = {}
    homeless = set()
    for part in parts:
        name = next((kind for one, kind in formats.items() if fnmatchcase(part.topic, one)), None)
        if name is None:
            homeless.add(part.topic)
        else:
            found.setdefault(name, []).append(part)
    if homeless:
        raise ValueError(
            f"The format of these topics is not declared: {', '.join(sorted(homeless))}. Name "
            f"them (or a pattern) in the var topic_formats; it has {', '.join(formats) or 'none'}."
        )
    return found


def _held(dbt: Any, session: SparkSession) -> dict[str, list[Interval]]:
    """offsets_key -> offsets that the table holds."""
    if not dbt.is_incremental:
        return {}
    before = dbt.snapshot_property(HELD_PROPERTY)
    if before is None:  # a table that was made or repaired by other means: ask its rows
        return held_offsets(session.table(str(dbt.this)))
    held = {key: [tuple(one) for one in value] for key, value in json.loads(before).items()}
    for key, intervals in held_offsets(dbt.own_rows_since(HELD_PROPERTY)).items():
        held[key] = merge([*held.get(key, []), *intervals])
    return held


def table_changes(dbt: Any, session: SparkSession, binlog: DataFrame) -> DataFrame | None:
    """Rows of a typed ODS model: the new changes of one source table.

    A change that the model has already (a message sent again, or read again) is left out by its
    identity, the binlog position. Only the position columns of data files that hold the same
    binlog files are read for it, never the history; where there are such changes, the other
    columns of these files as well. What says something else of a change than its row takes the
    place of the row, if it came by a batch that is named behind the row's, and is refused if by
    the same.

    Args:
        dbt: with config meta `source`, see deserialize.table_source.
        binlog: dbt.ref("ods_binlog").

    Returns:
        One row a change, and one for each message of the table that has to be refused
        (reject_reason is set, typed columns are null). None where the log has nothing new.
    """
    from pyspark.sql import functions as F

    missing = [name for name in SETTINGS if name not in dbt.meta]
    if missing:
        raise ValueError(
            f"{dbt.this.identifier}: its config meta lacks {', '.join(missing)}; see the block "
            "under `Add a table` in README.md"
        )
    source = table_source(dbt.this.identifier, dbt.meta["source"])
    # what it would infer is said here already, and on wide expressions it takes longer than the
    # rest of the planning
    session.conf.set("spark.sql.constraintPropagation.enabled", "false")
    batches = dbt.meta["batches"]
    new = _new_messages(dbt, binlog, batches)
    if new is None:
        return None
    day = BusinessDay(source, dbt.meta["business_zone"], int(dbt.meta["cut_time_max_ahead_hours"]))
    known = session.table(str(dbt.this)) if dbt.is_incremental else None
    scope = (
        ((F.col("format") == source.format) | (F.col("op") == "snapshot"))
        & of_topics(source.topics)
        & F.col("reject_reason").isNull()
    )
    readable = binlog.where(F.col("batch_id").isin(batches))
    state = TableState(dbt, source, readable, new, scope, day)
    mine = new.where(scope & of_table(source.database, source.table))
    rows, corrected = rows_once(row_changes(mine), known, source, day, batches)
    gone = None
    if state.refusals:
        statements = refused_statements(new, state.refusals, source, day)
        rows = rows.unionByName(_unheld(statements, known))
    if not state.needed and corrected is None:
        return rows
    # a checkpoint: what follows reads them several times, and else would parse them as often
    rows = rows.localCheckpoint(eager=False)
    if corrected is not None:
        gone = known.join(corrected, "unique_key", "left_semi")
        known = known.join(corrected, "unique_key", "left_anti")
        _replace_rows(dbt, rows, corrected)
    if not state.needed:
        return rows
    loads = rows.where(F.lit(False))
    if state.has_load:
        loads = load_rows(mine, source, day).localCheckpoint(eager=False)
    if not has_whole_images(source.format):
        rows = rows.unionByName(_unheld(_before_the_log(loads), known))
        if not state.events:
            return rows
        loads = rows.where(F.lit(False))
    good, refused = F.col("reject_reason").isNull(), F.col("reject_reason").isNotNull()
    derived = state.derived_rows(rows.where(good), loads.where(good), known, gone)
    derived = derived.withColumn("load_id", F.lit(dbt.run_id))
    return rows.unionByName(_unheld(loads.where(refused), known)).unionByName(derived)


def _unheld(rows: DataFrame, known: DataFrame | None) -> DataFrame:
    """Those of `rows` that the table doesn't have: it has them where the log is read anew."""
    return rows if known is None else rows.join(known, "unique_key", "left_anti")


def _replace_rows(dbt: Any, rows: DataFrame, corrected: DataFrame) -> None:
    """Let the model's commit write `rows` in the place of those of the keys in `corrected`.

    Args:
        corrected: see rows_once.
    """
    from pyspark.sql import functions as F

    # bounds that files of the table are pruned by
    bounds = corrected.agg(
        F.collect_set("binlog_file_number").alias("files"),
        F.min("binlog_position").alias("low"),
        F.max("binlog_position").alias("high"),
    ).first()
    files = ", ".join(map(str, sorted(bounds.files)))
    dbt.merge_rows(
        ["unique_key"],
        [
            f"dbt_internal_dest.binlog_file_number in ({files})",
            f"dbt_internal_dest.binlog_position between {bounds.low} and {bounds.high}",
        ],
    )
    by_day = rows.where(F.col("reject_reason").isNull()).groupBy("cut_date").count().collect()
    changes = {str(row.cut_date): row["count"] for row in by_day}
    dbt.set_snapshot_property(CHANGES_PROPERTY, json.dumps(changes, separators=(",", ":")))


def _before_the_log(loads: DataFrame) -> DataFrame:
    """Rows of full loads as inserts before all changes, the newest load's last."""
    from pyspark.sql import functions as F

    place = {
        "op_type": F.lit("insert"),
        "unique_key": F.concat_ws(":", F.lit(LOAD_FILE), *COORDINATES),
        "binlog_file": F.lit(LOAD_FILE),
        "binlog_file_number": F.lit(BEFORE_LOG[0]).cast("long"),
        "binlog_position": F.lit(BEFORE_LOG[1]).cast("long"),
        "row_number": F.unix_micros("event_time"),
    }
    good = F.col("reject_reason").isNull()
    kept = {name: F.when(good, one).otherwise(F.col(name)) for name, one in place.items()}
    return loads.withColumns(kept)


def load_rows(messages: DataFrame, source: TableSource, day: BusinessDay) -> DataFrame:
    """The rows of full loads among a table's messages, as rows of a typed model.

    The log's own loads are in its format, others in LOAD_FORMAT.
    """
    from pyspark.sql import functions as F

    snapshots, parts = messages.where(F.col("op") == "snapshot"), []
    formats = (source.format, LOAD_FORMAT) if has_whole_images(source.format) else (source.format,)
    for name in dict.fromkeys(formats):
        images = FORMATS[name].images(snapshots.where(F.col("format") == name), source)
        if not source.primary_key:
            reason = F.coalesce("image_reason", F.lit(KEYLESS_LOAD))
            images = images.withColumn("image_reason", reason)
        parts.append(typed_rows(images, source, day))
    return reduce(lambda one, two: one.unionByName(two), parts)


def change_rows(
    messages: DataFrame, source: TableSource, day: BusinessDay, batches: list[str]
) -> DataFrame:
    """The changes among a table's messages, each once, as rows of a typed model.

    Args:
        batches: those that count, see rows_once.
    """
    rows, _ = rows_once(row_changes(messages), None, source, day, batches)
    return rows


def row_changes(messages: DataFrame) -> DataFrame:
    """The messages that tell of a single row's change."""
    from pyspark.sql import functions as F

    return messages.where(F.col("op").isin(*ROW_OPS))


def decoded(
    messages: DataFrame,
    source: TableSource,
    day: BusinessDay,
    verdicts: DataFrame | None = None,
) -> DataFrame:
    """A table's messages of changes, in the format of its log, as rows of a typed model.

    Args:
        verdicts: rows that are left out or refused, see _judged; none of them is a repeat alone.
    """
    from pyspark.sql import functions as F

    images = FORMATS[source.format].images(messages, source)
    if verdicts is not None:
        row = [*COORDINATES, "row_number"]
        images = images.join(verdicts.select(*row, "verdict"), row, "left")
        images = images.where(~F.col("verdict").eqNullSafe(REPEATED))
        other = F.when(F.col("verdict") == REFUSED, OTHER_CHANGE)
        images = images.withColumn("image_reason", F.coalesce("image_reason", other))
    return typed_rows(images, source, day)


def refused_statements(
    messages: DataFrame,
    reasons: Mapping[tuple[Any, ...], str],
    source: TableSource,
    day: BusinessDay,
) -> DataFrame:
    """Messages of statements on whole tables as refused rows of a typed model.

    Args:
        messages: rows of ods_binlog, those among them.
        reasons: COORDINATES of each -> why.
    """
    from pyspark.sql import functions as F

    schema = "batch_id string, topic string, partition_number int, message_offset bigint"
    told = [(*coordinates, reason) for coordinates, reason in reasons.items()]
    refused = messages.sparkSession.createDataFrame(told, f"{schema}, image_reason string")
    row = ", ".join(f"`{name}` {kind.parsed}" for name, kind in source.columns.items())
    extra = getattr(FORMATS[source.format], "EXTRA", {})
    nothing = {"data": f"struct<{row}>", "before": f"struct<{row}>", **extra}
    images = messages.join(F.broadcast(refused), COORDINATES).select(
        "*", *[F.lit(None).cast(kind).alias(name) for name, kind in nothing.items()]
    )
    return typed_rows(images, source, day)


def of_topics(patterns: Iterable[str]) -> Column:
    """Condition on `topic`: it fits one of the shell patterns; true where there are none."""
    from pyspark.sql import functions as F

    regex = "|".join(translate(one) for one in patterns)
    return F.col("topic").rlike(f"^(?:{regex})") if regex else F.lit(True)


def _new_messages(dbt: Any, binlog: DataFrame, batches: list[str]) -> DataFrame | None:
    """Rows of ods_binlog that the model hasn't read yet, of the batches that it is told to read.

    Of a batch that it is told to read from now on these are all rows, and otherwise what came
    since the model's last commit. None where there is nothing new.

    Raises:
        ValueError: the model has rows of a batch that it isn't told to read any more.
    """
    from pyspark.sql import functions as F

    read = json.loads(dbt.snapshot_property(BATCHES_PROPERTY, "[]")) if dbt.is_incremental else []
    dropped = sorted(set(read) - set(batches))
    if dropped:
        raise ValueError(
            f"{dbt.this.identifier} holds rows of the batches {', '.join(dropped)}, which the var "
            f"`batches` ({', '.join(batches)}) no longer names. Name them, or run the model with "
            "--full-refresh to be rid of their rows."
        )
    added = sorted(set(batches) - set(read))
    dbt.set_snapshot_property(BATCHES_PROPERTY, json.dumps(sorted(batches)))
    new = dbt.new_rows(binlog).where(F.col("batch_id").isin(read or batches))
    if dbt.is_incremental and added:
        return new.unionByName(binlog.where(F.col("batch_id").isin(added)))
    return None if dbt.is_incremental and dbt.inputs_unchanged() else new


IDENTITY = ["binlog_file", "binlog_file_number", "binlog_position", "row_number"]
REPEATED, REFUSED, CORRECTION = "repeated", "refused", "correction"  # verdicts of _judged
OTHER_CHANGE = (
    "another change was taken before that has the same place in the log and says something else "
    "(did the server begin its binlog anew, by RESET MASTER or a failover?)"
)


def rows_once(
    new: DataFrame,
    known: DataFrame | None,
    source: TableSource,
    day: BusinessDay,
    batches: list[str],
) -> tuple[DataFrame, DataFrame | None]:
    """The changes in `new` as rows of a typed model, each once, without those that `known` has.

    Of messages that tell of one change the one counts whose batch is named last, and of those of
    one batch the first. What is held gives way to a batch named behind its own that says something
    else. Within one batch nobody can say which is right: what differs from the first is refused.

    Only good rows are told by their identity: one that has to be refused is refused each time it
    is sent, and never stands in the way of the same change in a whole message. A message may have
    rows of both kinds.

    Works on the narrow columns first. Only the messages whose place is told twice are decoded for
    it; mostly there are none, and then this is one small job.

    Args:
        new: messages of the table's format that tell of single rows' changes.
        known: the typed model's table; None: there is none yet.
        batches: names of the batches that `new` and `known` are of, in the order that counts.

    Returns:
        The rows, and which rows of `known` give way to them: unique_key, binlog_file_number and
        binlog_position; None where none does.
    """
    from pyspark.sql import functions as F

    # the rows of one message have one place, and are told apart when it is decoded
    place = IDENTITY[:-1] if positions_are_places(source.format) else IDENTITY
    narrow = new.select(*COORDINATES, *IDENTITY)
    repeated = narrow.groupBy(*place).agg(F.count(F.lit(1)).alias("times")).where("times > 1")
    suspects, held = narrow.join(repeated, place, "left_semi"), None
    if known is not None:
        # bounds that files of the table are pruned by: a log without files of its own has one
        # number for all, and positions that grow
        bounds = narrow.agg(
            F.collect_set("binlog_file_number").alias("files"),
            F.min("binlog_position").alias("low"),
            F.max("binlog_position").alias("high"),
        ).first()
        held = known.where(
            F.col("binlog_file_number").isin(bounds.files)
            & F.col("binlog_position").between(bounds.low, bounds.high)
        )
        suspects = suspects.unionByName(narrow.join(held.select(*place), place, "left_semi"))
    if suspects.isEmpty():
        return decoded(new, source, day), None
    messages = new.join(suspects.select(*COORDINATES), COORDINATES, "left_semi")
    judged = _judged(decoded(messages, source, day), held, source, batches)
    # else the rows' plan has all of this in it, and is planned with it several times
    judged = judged.localCheckpoint()
    leaves = F.col("verdict").eqNullSafe(REPEATED)
    whole = judged.groupBy(*COORDINATES).agg(F.bool_and(leaves).alias("leaves")).where("leaves")
    new = new.join(whole.select(*COORDINATES), COORDINATES, "left_anti")
    others = judged.where((F.col("verdict") == REFUSED) | leaves)
    others = others.join(whole, COORDINATES, "left_anti")
    rows = decoded(new, source, day, None if others.isEmpty() else others)
    corrected = None
    if held is not None and len(batches) > 1:
        keys = judged.where(F.col("verdict") == CORRECTION).select(*IDENTITY)
        # known before the table is written
        corrected = held.where(F.col("reject_reason").isNull()).join(keys, IDENTITY, "left_semi")
        corrected = corrected.select("unique_key", "binlog_file_number", "binlog_position")
        corrected = corrected.localCheckpoint()
    return rows, None if corrected is None or corrected.isEmpty() else corrected


def _judged(
    rows: DataFrame, held: DataFrame | None, source: TableSource, batches: list[str]
) -> DataFrame:
    """What becomes of rows whose change may be told more than once, see rows_once.

    Args:
        rows: of a typed model.
        held: rows of its table; None: there are none.

    Returns:
        COORDINATES, IDENTITY and verdict: REPEATED, the row is left out; REFUSED; CORRECTION, it
        takes the place of one in `held`; null: it counts.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rank = F.array_position(F.array(*map(F.lit, batches)), F.col("batch_id"))
    is_bad = F.col("reject_reason").isNotNull()
    rows = rows.select(
        *COORDINATES,
        *IDENTITY,
        is_bad.alias("is_bad"),
        rank.alias("rank"),
        _said(source).alias("said"),
    ).localCheckpoint(eager=False)
    by_rank = Window.partitionBy(*IDENTITY).orderBy("is_bad", F.desc("rank"), *COORDINATES)
    rows = rows.select(
        "*",
        F.row_number().over(by_rank).alias("turn"),
        F.first("rank").over(by_rank).alias("first_rank"),
        F.first("said").over(by_rank).alias("first_said"),
    )
    if held is None:
        rows = rows.selectExpr(
            "*", "cast(null as bigint) held_rank", "cast(null as string) held_said", "false was_bad"
        )
    else:
        asked = rows.select(*IDENTITY).distinct()
        good = held.where(~is_bad).join(asked, IDENTITY, "left_semi")
        told = good.select(*IDENTITY, rank.alias("held_rank"), _said(source).alias("held_said"))
        bad = held.where(is_bad).select(*COORDINATES, "row_number", F.lit(True).alias("was_bad"))
        rows = rows.join(told, IDENTITY, "left")
        rows = rows.join(bad.distinct(), [*COORDINATES, "row_number"], "left")
    # a format that tells a change in part may tell less of it the second time
    other = F.lit(REFUSED if has_whole_images(source.format) else REPEATED)
    as_held = F.when(F.col("said") == F.col("held_said"), REPEATED)
    as_first = F.when(F.col("said") == F.col("first_said"), REPEATED)
    verdict = (
        F.when(F.col("is_bad"), REFUSED)
        .when(F.col("held_rank") > F.col("rank"), REPEATED)
        .when(F.col("held_rank") == F.col("rank"), as_held.otherwise(other))
        .when((F.col("turn") > 1) & (F.col("first_rank") > F.col("rank")), REPEATED)
        .when(F.col("turn") > 1, as_first.otherwise(other))
        .when(F.col("held_rank").isNotNull(), as_held.otherwise(CORRECTION))
    )
    # refused before: the log is read anew
    again = F.coalesce(F.col("was_bad"), F.lit(False)) & (verdict == REFUSED)
    verdict = F.when(again, REPEATED).when(~F.col("is_bad"), verdict)
    return rows.select(*COORDINATES, *IDENTITY, verdict.alias("verdict"))


def _said(source: TableSource) -> Column:
    """Digest of what a row of a typed model says of its change."""
    from pyspark.sql import functions as F

    before = canonical(source, F.col("before")).alias("before")
    image = canonical(source, image_of(source)).alias("image")
    return digest(F.struct("op_type", "event_time", "cut_date", before, image))


def typed_rows(images: DataFrame, source: TableSource, day: BusinessDay) -> DataFrame:
    """Rows with images (see deserialize.maxwell.images) as rows of a typed ODS model.

    The EXTRA columns of the table's format stand behind `before`. Where `before` isn't known,
    which only some formats let pass, it is null and so is metadata_changes.
    """
    from pyspark.sql import functions as F

    typed = images.select(
        "*",
        _typed_image("data", source, day.zone).alias("_after"),
        _typed_image("before", source, day.zone).alias("_before"),
    )
    reason = F.coalesce(F.col("image_reason"), _value_misfits(source), _no_key(source))
    judged = typed.withColumn("reject_reason", reason)
    good = F.col("reject_reason").isNull()
    changes = F.when(
        good & (F.col("op") == "update") & F.col("before").isNotNull(),
        not_null(
            F.when(~F.col("_after")[name].eqNullSafe(F.col("_before")[name]), F.lit(name))
            for name in source.columns
        ),
    )
    changed = (F.col("op") != "insert") & F.col("before").isNotNull()
    extra = getattr(FORMATS[source.format], "EXTRA", {})
    # a refused message is none of the change's own: it may come again whole
    message = F.concat_ws(":", F.lit("refused"), *COORDINATES, "row_number")
    change = F.concat_ws(":", "binlog_file", "binlog_position", "row_number")
    unique_key = F.when(good, change).otherwise(message)
    return judged.select(
        *[F.when(good, F.col("_after")[name]).alias(name) for name in source.columns],
        F.when(good, F.col("_after")["raw_values"]).alias("raw_values"),
        F.when(good & changed, F.col("_before")).alias("before"),
        *[F.when(good, F.col(name)).cast(kind).alias(name) for name, kind in extra.items()],
        F.col("op").alias("op_type"),
        unique_key.alias("unique_key"),
        F.when(good, day.cut_date(F.col("_after"), F.col("op"), F.col("event_time"))).alias(
            "cut_date"
        ),
        "event_time",
        *IDENTITY,
        "xid",
        F.lit(source.schema_version).alias("schema_version"),
        "batch_id",
        F.concat_ws(".", "database_name", "table_name").alias("metadata_table"),
        changes.alias("metadata_changes"),
        F.col("op").alias("metadata_op_type"),
        F.col("event_time").alias("metadata_commit_ts"),
        *COORDINATES[1:],
        "load_id",
        "reject_reason",
        F.when(~good, F.col("payload")).alias("reject_payload"),
    )


def _value_misfits(source: TableSource) -> Column:
    """Text naming the values that are read but are none of their column's type; else null."""
    from pyspark.sql import functions as F

    wrong_names, told = [], []
    for part in ("data", "before"):
        wrong, texts = [], []
        for name, kind in source.columns.items():
            value = F.col(part)[name]
            misfit = kind.misfit(value)
            if misfit is None:
                continue
            if part == "before":  # mostly it is the value of `data`, which has been looked at
                misfit = ~value.eqNullSafe(F.col("data")[name]) & misfit
            wrong.append(F.when(misfit, F.lit(name)))
            texts += [F.lit(name), value.cast("string")]
        if wrong:
            # as a text: cheaper than an array, of which each row would need one
            names = F.concat_ws("`", *wrong)
            listed = F.when(names != "", F.split(names, "`"))
            wrong_names.append(names)
            told.append(misfit_texts(source.columns, part, F.create_map(*texts), listed))
    if not told:
        return F.lit(None).cast("string")
    return F.when(F.concat(*wrong_names) != "", F.concat_ws("; ", *told))


def _no_key(source: TableSource) -> Column:
    from pyspark.sql import functions as F

    reason = F.lit(None).cast("string")
    # a format that needs a before image has refused the row by now where there is none
    changed = (F.col("op") != "insert") & F.col("before").isNotNull()
    for name in source.primary_key:
        gone = F.col("data")[name].isNull() | (changed & F.col("before")[name].isNull())
        reason = F.coalesce(reason, F.when(gone, F.lit(f"the key column {name} is null")))
    return reason


def _typed_image(image: str, source: TableSource, zone: str) -> Column:
    """A row image's values in their types; what a type can't hold stands in `raw_values`."""
    from pyspark.sql import functions as F

    values, raw_values, unread = [], [], F.lit(False)
    for name, kind in source.columns.items():
        raw = F.col(image)[name]
        value = kind.value(raw, zone)
        values.append(value.alias(name))
        if kind.kind in ("date", "datetime", "timestamp"):
            lost = raw.isNotNull() & value.isNull()
            entry = F.struct(F.lit(name).alias("key"), raw.alias("value"))
            raw_values.append(F.when(lost, entry))
            unread = unread | lost
    texts = F.lit(None)
    if raw_values:
        # array_compact is interpreted: only where there is an entry
        texts = F.when(unread, F.map_from_entries(F.array_compact(F.array(*raw_values))))
    return F.struct(*values, texts.cast("map<string, string>").alias("raw_values"))


@dataclass(frozen=True)
class BusinessDay:
    """How changes of a table are dated.

    Attributes:
        source: the table's declaration.
        zone: the business zone, a name or an offset.
        max_ahead_hours: a cut value later than the binlog time by more can't be true.
    """

    source: TableSource
    zone: str
    max_ahead_hours: int

    def cut_date(self, image: Column, op: Column, event_time: Column) -> Column:
        """The business day that a change counts for.

        An insert or update: the date of the cut column after it, for its before image too. A
        delete, whose row's cut value is stale, or a cut value that is null, no date, older than
        the epoch or too far ahead of the log: the date of its binlog time.

        Args:
            image: struct of the columns after the change.
            op: delete, or anything else.
            event_time: timestamp, UTC.
        """
        from pyspark.sql import functions as F

        zone, column = F.lit(self.zone), self.source.cut_column
        local_event = F.from_utc_timestamp(event_time, zone)
        binlog_date = F.to_date(local_event)
        if column is None:
            return binlog_date
        cut = image[column]
        if self.source.columns[column].kind == "date":
            local_cut = cut.cast("timestamp")
        else:
            local_cut = F.from_utc_timestamp(cut, zone)
        latest = local_event + F.expr(f"interval {int(self.max_ahead_hours)} hours")
        possible = (local_cut >= F.lit("1970-01-02").cast("timestamp")) & (local_cut <= latest)
        return F.when((op != "delete") & possible, F.to_date(local_cut)).otherwise(binlog_date)
