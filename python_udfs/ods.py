"""The two kinds of ODS model: the log as it came, and one source table typed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from python_udfs.declaration import (
    MADE_BY_PROPERTY,
    READING_PROPERTY,
    check_batches,
    check_made_by,
    made_by,
    reading_of,
)
from python_udfs.deserialize.envelope import FORMATS, ROW_OPS, TABLE_OPS, with_envelope
from python_udfs.deserialize.json_lines import misfit_texts, not_null
from python_udfs.deserialize.table_source import TableSource, table_source
from python_udfs.deserialize.topic_formats import topics_by_format
from python_udfs.landing.files import (
    LIVE,
    LONG_LINE,
    LandedFile,
    files_to_read,
    list_files,
    longest_line,
    offsets_key,
    open_ended,
)
from python_udfs.landing.kafka import (
    OffsetRange,
    beginnings,
    broker_topics,
    first_gaps,
    kafka_source,
    ranges_to_read,
    read_topics,
)
from python_udfs.landing.offsets import Interval, merge, without
from python_udfs.landing.spark import held_offsets, read_messages
from python_udfs.log_names import (
    absent_columns,
    all_names,
    columns_without_message,
    differ_by_case,
    has_all_columns,
    names_in,
    text_of_absent,
    unread_by_case,
    with_names_of,
)
from python_udfs.log_order import UNDECLARED, LogOrder
from python_udfs.log_resets import placed
from python_udfs.redeclared import check_held, refused_before, without_refused
from python_udfs.reread import lines_to_read_again, messages_read_again
from python_udfs.table_settings import settings_problem, table_settings
from python_udfs.table_state import (
    BEFORE_LOG,
    COORDINATES,
    KEYLESS_LOAD,
    LOAD_FILE,
    STATEMENT,
    TableState,
    canonical,
    digest,
    has_whole_images,
    image_of,
    of_table,
    positions_are_places,
    statements_of,
    touches,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# offsets that the table held before the commit that says so, and those it asked of Kafka
HELD_PROPERTY = "landing.held"
TOPICS_PROPERTY = "landing.kafka_topics"  # topic -> id that Kafka knew it by
BEGUN_PROPERTY = "landing.kafka_begun"  # where reading of each of Kafka's partitions began
SIZES_PROPERTY = "landing.sizes"  # sizes of files whose end only reading tells
LISTED_PROPERTY = "landing.listed"  # when the newest listed file came, ns
SAMPLED_DOCUMENTS = 200  # whose names are looked at before all documents are
LOAD_FORMAT = "maxwell"  # that tools/full_load.py writes in, whatever the log's format is
BATCHES_PROPERTY = "ods.batches"  # the batches that a typed model has read
BATCH_ORDER_PROPERTY = "ods.batch_order"  # the same, in the order that counts
# changes that a commit brought, by cut_date, where it rewrote others beside them
CHANGES_PROPERTY = "ods.changes_by_day"


def binlog_messages(dbt: Any, session: SparkSession) -> DataFrame | None:
    """Rows of ods_binlog: the landed messages that the table doesn't hold yet.

    Which offsets it holds is known from itself: each commit says what was held before it
    (snapshot property `landing.held`), and what it added is read from its own rows. So data and
    offsets commit together, and no run reads more than the last run's coordinates. A topic's
    files carry Kafka's offsets: what the one delivers isn't taken from the other. Messages that
    were refused come once more when they can be read, see reread.

    Args:
        dbt: with config meta `landing` (a folder), `kafka` (see landing.kafka), `formats`
            (topic, as a shell pattern -> format; the first that fits) and `max_line_mb` (of a
            landed line that is taken whole). With Kafka the folder may be left empty.

    Returns:
        None where nothing new has landed.
    """
    from pyspark.sql import functions as F

    kafka = kafka_source(dbt.meta["kafka"])
    landing = os.path.join(dbt.project_root, os.path.expanduser(dbt.meta["landing"]))
    files_too = dbt.meta["landing"] or not kafka
    files = list_files(os.path.abspath(landing)) if files_too else []
    longest = longest_line(dbt.meta)
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
    # such a line stays held: where its file is gone, or it is too long still, nothing comes
    released = lines_to_read_again(dbt, session, longest)
    of_key = {offsets_key(*place): offsets for place, offsets in released.items()}
    unread = held | {key: without(held.get(key, []), some) for key, some in of_key.items()}
    of_released = {file.name for file in files if file.key in of_key}
    as_seen = {name: one for name, one in seen_sizes.items() if name not in of_released}
    chosen = files_to_read(files, unread, as_seen, seen_until)
    again = messages_read_again(dbt, session)
    if not chosen and not ranges and again is None and dbt.is_incremental:
        return None
    dbt.set_snapshot_property(TOPICS_PROPERTY, json.dumps(topic_ids, separators=(",", ":")))
    dbt.set_snapshot_property(HELD_PROPERTY, json.dumps(held, separators=(",", ":")))
    sizes = open_ended(files, held)
    dbt.set_snapshot_property(SIZES_PROPERTY, json.dumps(sizes, separators=(",", ":")))
    newest = max((file.changed_ns for file in files), default=0)
    dbt.set_snapshot_property(LISTED_PROPERTY, str(newest))
    from_files = _by_format(chosen, dbt.meta["formats"])
    from_kafka = _by_format(ranges, dbt.meta["formats"])
    if not from_files and not from_kafka and again is None:
        from_files = {"maxwell": []}
    frames = [
        *(
            _not_too_long_still(
                with_envelope(read_messages(session, some, unread, longest), kind), released
            )
            for kind, some in from_files.items()
        ),
        *(
            with_envelope(read_topics(session, kafka, some), kind)
            for kind, some in from_kafka.items()
        ),
        *([] if again is None else [again]),
    ]
    return reduce(lambda one, two: one.unionByName(two), frames).withColumn(
        "load_id", F.lit(dbt.run_id)
    )


def _not_too_long_still(rows: DataFrame, released: Mapping[Any, list[int]]) -> DataFrame:
    """Rows of ods_binlog without those that the table has: lines that are read again, and are too
    long still.

    Args:
        released: see lines_to_read_again.
    """
    from pyspark.sql import functions as F

    is_long = F.coalesce(F.col("reject_reason").startswith(LONG_LINE), F.lit(False))
    for (batch, topic, partition), offsets in released.items():
        of_topic = (F.col("batch_id") == batch) & (F.col("topic") == topic)
        of_partition = of_topic & (F.col("partition_number") == partition)
        rows = rows.where(~(is_long & of_partition & F.col("message_offset").isin(offsets)))
    return rows


def _by_format(parts: Iterable[LandedFile | OffsetRange], formats: Any) -> dict[str, list[Any]]:
    """Format -> files, or ranges of offsets, of its topics."""
    parts = list(parts)
    topics = topics_by_format(dict.fromkeys(part.topic for part in parts), formats)
    return {kind: [part for part in parts if part.topic in some] for kind, some in topics.items()}


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
        dbt: with config meta `source`, see deserialize.table_source, and what table_settings
            knows, in it or in the log's.
        binlog: dbt.ref("ods_binlog").

    Returns:
        One row a change, and one for each message of the table that has to be refused
        (reject_reason is set, typed columns are null). None where the log has nothing new.
    """
    from pyspark.sql import functions as F

    source = table_source(dbt.this.identifier, dbt.meta.get("source"))
    settings = table_settings(dbt.meta, dbt.meta_of(binlog))
    problem = settings_problem(dbt.this.identifier, settings)
    if problem:
        raise ValueError(problem)
    # what it would infer is said here already, and on wide expressions it takes longer than the
    # rest of the planning
    session.conf.set("spark.sql.constraintPropagation.enabled", "false")
    dbt.meta = {**dbt.meta, **settings}  # as if the block said all of it
    batches, zone = dbt.meta["batches"], dbt.meta["business_zone"]
    day = BusinessDay(source, zone, int(dbt.meta["cut_time_max_ahead_hours"]))
    declared = made_by(source, zone, day.max_ahead_hours)
    recorded = json.loads(dbt.snapshot_property(MADE_BY_PROPERTY, "null"))
    check_made_by(dbt.this.identifier, recorded, declared)
    dbt.set_snapshot_property(MADE_BY_PROPERTY, json.dumps(declared, separators=(",", ":")))
    module = FORMATS[source.format]
    known = session.table(str(dbt.this)) if dbt.is_incremental else None
    scope = (
        ((F.col("format") == source.format) | (F.col("op") == "snapshot"))
        & of_topics(source.topics)
        & F.col("reject_reason").isNull()
    )
    new = _new_messages(dbt, binlog, source, scope, known)
    readable = binlog.where(F.col("batch_id").isin(batches))
    order, leaving = LogOrder(dbt, source), None
    if known is not None and order.is_redeclared:
        check_held(readable, known, source, order.declared)
        leaving = refused_before(known)
        undeclared = readable.join(leaving, COORDINATES, "left_semi")
        if new is not None:
            undeclared = new.unionByName(undeclared.join(new, COORDINATES, "left_anti"))
        known, new = known.join(leaving, "unique_key", "left_anti"), undeclared
    again = _messages_to_read_again(dbt, readable, source, known)
    if again is not None:
        # a correction may have come just now
        unread = again if new is None else again.join(new, COORDINATES, "left_anti")
        new = unread if new is None else new.unionByName(unread)
    elif new is not None and known is not None and positions_are_places(source.format):
        new = _with_corrections(new, readable, batches)
    if new is None:
        return None
    new, readable = (placed(one, source.log_resets, module, LIVE) for one in (new, readable))
    with _case_sensitive(session, differ_by_case(source)):
        state = TableState(dbt, source, readable, new, scope, day, order)
    order.note(dbt)
    mine = new.where(scope & of_table(source.database, source.table))
    source = _named_as_in_log(dbt, source, state, mine, known)
    state.source, day = replace(state.source, aliases=source.aliases), replace(day, source=source)
    with _case_sensitive(session, differ_by_case(source)):
        parts = _Messages(mine, new, again is not None)
        rows, corrected = _table_rows(dbt, source, day, state, order, parts, known)
        giving_way = [one for one in (corrected, leaving) if one is not None]
        if giving_way:
            rows = _in_place(dbt, rows, giving_way)
        return rows


class _Messages(NamedTuple):
    """Messages that a typed model reads in a run.

    Attributes:
        mine: those of its table.
        all: those of its log.
        some_again: whether some were refused before, and are read again.
    """

    mine: DataFrame
    all: DataFrame
    some_again: bool


def _table_rows(
    dbt: Any,
    source: TableSource,
    day: BusinessDay,
    state: TableState,
    order: LogOrder,
    messages: _Messages,
    known: DataFrame | None,
) -> tuple[DataFrame, DataFrame | None]:
    """The rows to add to `known`, and which rows of it give way to some of them, see rows_once."""
    from pyspark.sql import functions as F

    mine = messages.mine
    changes, undeclared = row_changes(mine), None
    if order.doubt:
        undeclared = refused_rows(
            changes.where(order.doubt.condition), F.lit(order.doubt.reason), source, day
        )
        changes = changes.where(~order.doubt.condition)
    rows, gone = rows_once(changes, known, source, day, dbt.meta["batches"])
    if undeclared is not None:
        rows = rows.unionByName(_unheld(undeclared, known))
    if state.refusals:
        statements = refused_statements(messages.all, state.refusals, source, day)
        rows = rows.unionByName(_unheld(statements, known))
    if not state.needed and gone is None and not messages.some_again:
        return rows, None
    # a checkpoint: what follows reads them several times, and else would parse them as often
    rows = rows.localCheckpoint(eager=False)
    if messages.some_again:
        gone = _with_settled(rows, known, gone)
    replaced = None
    if gone is not None:
        replaced = known.where(F.col("reject_reason").isNull())
        replaced = replaced.join(gone, "unique_key", "left_semi")
        known = known.join(gone, "unique_key", "left_anti")
    if not state.needed:
        return rows, gone
    loads = rows.where(F.lit(False))
    if state.has_load:
        loads = load_rows(mine, source, day).localCheckpoint(eager=False)
    if not has_whole_images(source.format):
        rows = rows.unionByName(_unheld(_before_the_log(loads), known))
        if not state.events:
            return rows, gone
        loads = rows.where(F.lit(False))
    good, refused = F.col("reject_reason").isNull(), F.col("reject_reason").isNotNull()
    derived = state.derived_rows(rows.where(good), loads.where(good), known, replaced)
    derived = derived.withColumn("load_id", F.lit(dbt.run_id))
    return rows.unionByName(_unheld(loads.where(refused), known)).unionByName(derived), gone


def _named_as_in_log(
    dbt: Any,
    source: TableSource,
    state: TableState,
    mine: DataFrame,
    known: DataFrame | None,
) -> TableSource:
    """The declaration with the names that the log has for its columns in another case.

    A table's names change by an ALTER only: without one the first and the last message have all.
    What they miss nevertheless is refused, see unread_by_case.

    Raises:
        ValueError: more columns than `absent_columns_allowed` stand in no message, never did, and
            the log has a name near theirs that nobody declares.
    """
    from pyspark.sql import functions as F

    if not state.samples:
        return source
    rows = mine.where(F.col("op").isin(*ROW_OPS, "snapshot"))
    names = all_names(rows) if state.is_altered else names_in(state.samples)
    source = with_names_of(source, names)
    absent = absent_columns(source, names)

    def is_held(name: str) -> bool:
        return known is not None and not known.where(F.col(f"`{name}`").isNotNull()).isEmpty()

    if absent and not has_all_columns(source.format):
        # a field may be missing in any document: more of them are looked at, and what the table
        # holds values of is declared by its right name
        some = rows.select("format", "payload").limit(SAMPLED_DOCUMENTS).collect()
        names |= names_in(map(tuple, some))
        absent = absent_columns(source, names)
        absent = {name: near for name, near in absent.items() if not is_held(name)}
    gone = columns_without_message(rows, source, absent)
    absent = {name: near for name, near in absent.items() if name in gone}
    if not absent:
        return source
    text = text_of_absent(dbt.this.identifier, source, absent)
    never = [name for name, near in absent.items() if near and not is_held(name)]
    allowed = int(dbt.project_var("absent_columns_allowed", len(never)))
    if len(never) > allowed:
        raise ValueError(
            f"{text} The var absent_columns_allowed ({allowed}) says how many such columns a table "
            "may have."
        )
    from dbt.adapters.events.logging import AdapterLogger

    AdapterLogger("Log").warning(text)
    return source


@contextmanager
def _case_sensitive(session: SparkSession, is_needed: bool) -> Iterator[None]:
    """Let names of columns be told apart by case while expressions are made."""
    if not is_needed:
        yield
        return
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        yield
    finally:
        session.conf.unset("spark.sql.caseSensitive")


def _messages_to_read_again(
    dbt: Any, binlog: DataFrame, source: TableSource, known: DataFrame | None
) -> DataFrame | None:
    """The messages that the model refused, where they are read otherwise than by its last commit.

    With them those of other batches at their places, where a message is corrected as a whole: of
    one that said the same in fewer rows the table has no row that tells of it.

    None where there is none, or the reading is the same.
    """
    from pyspark.sql import functions as F

    reading = reading_of(source)
    before = dbt.snapshot_property(READING_PROPERTY)
    dbt.set_snapshot_property(READING_PROPERTY, reading)
    if known is None or before == reading:
        return None
    # what is of a log that nobody declared waits for its declaration
    undeclared = F.col("reject_reason").startswith(UNDECLARED)
    refused = known.where(F.col("reject_reason").isNotNull() & ~undeclared)
    place = COORDINATES[1:] if positions_are_places(source.format) else COORDINATES
    refused = refused.select(*place).distinct().localCheckpoint()
    if refused.isEmpty():
        return None
    return binlog.join(F.broadcast(refused), place, "left_semi")


def _with_corrections(new: DataFrame, binlog: DataFrame, batches: list[str]) -> DataFrame:
    """New messages, with those that were read before and correct them.

    Where a message is corrected as a whole, and the correction said the same in fewer rows as one
    of a batch before both, the table has no row that tells of it.
    """
    from pyspark.sql import functions as F

    between = batches[1:-1]
    if not between:
        return new
    place = COORDINATES[1:]
    places = new.where(F.col("batch_id").isin(between)).select(*place).distinct()
    there = row_changes(binlog).join(F.broadcast(places), place, "left_semi")
    return new.unionByName(there.join(new, COORDINATES, "left_anti"))


def _with_settled(rows: DataFrame, known: DataFrame, gone: DataFrame | None) -> DataFrame | None:
    """`gone` and the refused rows of `known` whose message has a good row among `rows`.

    Args:
        gone: see rows_once.
    """
    from pyspark.sql import functions as F

    row = [*COORDINATES, "row_number"]
    good = rows.where(F.col("reject_reason").isNull()).select(*row).distinct()
    refused = known.where("reject_reason is not null and binlog_file_number is not null")
    settled = refused.join(good, row, "left_semi").select(*GONE).localCheckpoint()
    if settled.isEmpty():
        return gone
    return settled if gone is None else gone.unionByName(settled)


def _unheld(rows: DataFrame, known: DataFrame | None) -> DataFrame:
    """Those of `rows` that the table doesn't have: it has them where the log is read anew."""
    return rows if known is None else rows.join(known, "unique_key", "left_anti")


GONE = ["unique_key", "binlog_file_number", "binlog_position"]


def _in_place(dbt: Any, rows: DataFrame, giving_way: list[DataFrame]) -> DataFrame:
    """Let the model's commit write `rows` in the place of those of the keys in `giving_way`.

    Args:
        giving_way: unique_key, binlog_file_number and binlog_position of rows of the table.

    Returns:
        The rows, and one without an op for each key that nothing takes the place of.
    """
    from pyspark.sql import functions as F

    rows = rows.localCheckpoint(eager=False)
    keys = reduce(lambda one, two: one.union(two), (one.select(*GONE) for one in giving_way))
    # bounds that files of the table are pruned by
    bounds = keys.agg(
        F.collect_set("binlog_file_number").alias("files"),
        F.min("binlog_position").alias("low"),
        F.max("binlog_position").alias("high"),
    ).first()
    if bounds.low is None:
        return rows
    files = ", ".join(map(str, sorted(bounds.files)))
    dbt.merge_rows(
        ["unique_key"],
        [
            f"dbt_internal_dest.binlog_file_number in ({files})",
            f"dbt_internal_dest.binlog_position between {bounds.low} and {bounds.high}",
        ],
        gone_when="dbt_internal_source.op_type is null",
    )
    by_day = rows.where(F.col("reject_reason").isNull()).groupBy("cut_date").count().collect()
    changes = {str(row.cut_date): row["count"] for row in by_day}
    dbt.set_snapshot_property(CHANGES_PROPERTY, json.dumps(changes, separators=(",", ":")))
    return without_refused(rows, keys)


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
    refused = messages.sparkSession.createDataFrame(told, f"{schema}, reason string")
    named = messages.join(F.broadcast(refused), COORDINATES)
    return refused_rows(named, F.col("reason"), source, day)


def refused_rows(
    messages: DataFrame, reason: Column, source: TableSource, day: BusinessDay
) -> DataFrame:
    """Messages as refused rows of a typed model, unread.

    Args:
        reason: of each.
    """
    from pyspark.sql import functions as F

    row = ", ".join(f"`{name}` {kind.parsed}" for name, kind in source.columns.items())
    extra = getattr(FORMATS[source.format], "EXTRA", {})
    nothing = {"data": f"struct<{row}>", "before": f"struct<{row}>", **extra}
    images = messages.select(
        "*",
        reason.alias("image_reason"),
        *[F.lit(None).cast(kind).alias(name) for name, kind in nothing.items()],
    )
    return typed_rows(images, source, day)


def of_topics(patterns: Iterable[str]) -> Column:
    """Condition on `topic`: it fits one of the shell patterns; true where there are none."""
    from pyspark.sql import functions as F

    regex = "|".join(translate(one) for one in patterns)
    return F.col("topic").rlike(f"^(?:{regex})") if regex else F.lit(True)


def _new_messages(
    dbt: Any, binlog: DataFrame, source: TableSource, scope: Column, known: DataFrame | None
) -> DataFrame | None:
    """Rows of ods_binlog that the model hasn't read yet, of the batches that it is told to read.

    Of a batch that it is told to read from now on these are all rows, and otherwise what came
    since the model's last commit. None where there is nothing new.

    Raises:
        ValueError: the model has rows of a batch that it isn't told to read any more, or the
            batches have changed places.
    """
    from pyspark.sql import functions as F

    batches = list(dbt.meta["batches"])
    read = json.loads(dbt.snapshot_property(BATCHES_PROPERTY, "[]")) if dbt.is_incremental else []
    order = json.loads(dbt.snapshot_property(BATCH_ORDER_PROPERTY, "[]")) if read else []
    check_batches(dbt.this.identifier, order, batches)
    dropped = sorted(set(read) - set(batches))
    kept = []
    for one in dropped:
        of_batch = F.col("batch_id") == one
        if _counts(binlog.where(of_batch), source, scope) or not known.where(of_batch).isEmpty():
            kept.append(one)
    if kept:
        raise ValueError(
            f"{dbt.this.identifier} holds rows of the batches {', '.join(kept)}, which the "
            f"var `batches` ({', '.join(batches)}) no longer names. Name them, or run the model "
            "with --full-refresh to be rid of their rows."
        )
    added = sorted(set(batches) - set(read))
    dbt.set_snapshot_property(BATCHES_PROPERTY, json.dumps(sorted(batches)))
    dbt.set_snapshot_property(BATCH_ORDER_PROPERTY, json.dumps(batches))
    new = dbt.new_rows(binlog).where(F.col("batch_id").isin(batches))
    if dbt.is_incremental and added:
        new = new.where(F.col("batch_id").isin(read))
        return new.unionByName(binlog.where(F.col("batch_id").isin(added)))
    return None if dbt.is_incremental and dbt.inputs_unchanged() else new


def _counts(batch: DataFrame, source: TableSource, scope: Column) -> bool:
    """Whether statements of a batch act on the table, or rows of full loads are of it: these leave
    rows that don't say by which batch they came."""
    from pyspark.sql import functions as F

    table = (source.database, source.table)
    in_scope = batch.where(scope)
    loads = in_scope.where(of_table(*table) & (F.col("op") == "snapshot"))
    if not loads.isEmpty():
        return True
    rows = in_scope.where(F.col("op").isin(*TABLE_OPS)).select(
        *STATEMENT, F.unix_micros("event_time").alias("event_micros")
    )
    told = statements_of(rows.collect(), source.format)
    return any(touches(one, {table}) or (one.reason and one.names(table)) for one in told)


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

    Where a message has several rows (their positions are places in a topic), one that is corrected
    is so as a whole: rows that the correcting message lacks go.

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
        good = held.where(F.col("reject_reason").isNull())
        corrected = good.join(keys, IDENTITY, "left_semi")
        if place != IDENTITY:
            corrected = corrected.unionByName(_lacking(held, judged, batches, keys))
        corrected = corrected.select("unique_key", "binlog_file_number", "binlog_position")
        corrected = corrected.localCheckpoint()
    return rows, None if corrected is None or corrected.isEmpty() else corrected


def _lacking(
    held: DataFrame, judged: DataFrame, batches: list[str], corrected: DataFrame
) -> DataFrame:
    """Rows of messages of several rows that a message of a batch named behind has no row for.

    Args:
        held: rows of the table.
        judged: see _judged.
        corrected: IDENTITY of the rows that are corrected anyway.
    """
    from pyspark.sql import functions as F

    rank = F.array_position(F.array(*map(F.lit, batches)), F.col("batch_id"))
    told = judged.select(*IDENTITY, "is_bad", rank.alias("rank"))
    ranks = _lacking_ranks(told.unionByName(_ranks_at(held, judged, rank)))
    surplus = held.where(F.col("reject_reason").isNull()).join(F.broadcast(ranks), IDENTITY)
    surplus = surplus.where(rank < F.col("lacking_rank"))
    return surplus.join(corrected, IDENTITY, "left_anti").select(*held.columns)


def _ranks_at(held: DataFrame, rows: DataFrame, rank: Column) -> DataFrame:
    """IDENTITY, is_bad and rank of the rows of `held` that stand at places of `rows`."""
    from pyspark.sql import functions as F

    at_places = held.join(rows.select(*IDENTITY[:-1]).distinct(), IDENTITY[:-1], "left_semi")
    is_bad = F.col("reject_reason").isNotNull()
    return at_places.select(*IDENTITY, is_bad.alias("is_bad"), rank.alias("rank"))


def _lacking_ranks(rows: DataFrame) -> DataFrame:
    """IDENTITY -> lacking_rank: of the newest message at the row's place that has no such row.

    A message without any good row says nothing. One whose row of this number is bad has the row:
    what an older message says of it stays.

    Args:
        rows: IDENTITY, is_bad and rank (of the message's batch) of all rows at some places.
    """
    from pyspark.sql import functions as F

    place = IDENTITY[:-1]
    messages = rows.where("not is_bad").groupBy(*place).agg(F.collect_set("rank").alias("all"))
    having = rows.groupBy(*IDENTITY).agg(F.collect_set("rank").alias("having"))
    lacking = F.array_max(F.array_except("all", "having"))
    return having.join(messages, place).select(*IDENTITY, lacking.alias("lacking_rank"))


def _judged(
    rows: DataFrame, held: DataFrame | None, source: TableSource, batches: list[str]
) -> DataFrame:
    """What becomes of rows whose change may be told more than once, see rows_once.

    Args:
        rows: of a typed model.
        held: rows of its table; None: there are none.

    Returns:
        COORDINATES, IDENTITY, is_bad and verdict: REPEATED, the row is left out; REFUSED;
        CORRECTION, it takes the place of one in `held`; null: it counts.
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
        _told_part(source).alias("part"),
    ).localCheckpoint(eager=False)
    if positions_are_places(source.format):
        # a message counts as a whole: rows that one of a later batch lacks are not taken
        ranks = rows.select(*IDENTITY, "is_bad", "rank")
        if held is not None:
            ranks = ranks.unionByName(_ranks_at(held, rows, rank))
        rows = rows.join(_lacking_ranks(ranks), IDENTITY, "left")
        is_outdated = F.coalesce(F.col("lacking_rank") > F.col("rank"), F.lit(False))
        rows = rows.withColumn("is_outdated", is_outdated)
    else:
        rows = rows.withColumn("is_outdated", F.lit(False))
    by_rank = Window.partitionBy(*IDENTITY).orderBy("is_bad", F.desc("rank"), *COORDINATES)
    rows = rows.select(
        "*",
        F.row_number().over(by_rank).alias("turn"),
        F.first("rank").over(by_rank).alias("first_rank"),
        F.first("said").over(by_rank).alias("first_said"),
        F.first("part").over(by_rank).alias("first_part"),
    )
    if held is None:
        rows = rows.selectExpr(
            "*",
            "cast(null as bigint) held_rank",
            "cast(null as string) held_said",
            "cast(null as string) held_part",
            "false was_bad",
        )
    else:
        asked = rows.select(*IDENTITY).distinct()
        good = held.where(~is_bad).join(asked, IDENTITY, "left_semi")
        told = good.select(
            *IDENTITY,
            rank.alias("held_rank"),
            _said(source).alias("held_said"),
            _told_part(source).alias("held_part"),
        )
        bad = held.where(is_bad).select(*COORDINATES, "row_number", F.lit(True).alias("was_bad"))
        rows = rows.join(told, IDENTITY, "left")
        rows = rows.join(bad.distinct(), [*COORDINATES, "row_number"], "left")
    as_held, as_first = (F.col("said") == F.col(f"{one}_said") for one in ("held", "first"))
    # a format that tells a change in part may tell more or less of it the second time
    repeats_held, repeats_first = (
        same | (F.col("part") != F.col(f"{one}_part"))
        for one, same in (("held", as_held), ("first", as_first))
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
    # refused before: the log is read anew
    again = F.coalesce(F.col("was_bad"), F.lit(False)) & (verdict == REFUSED)
    verdict = F.when(again, REPEATED).when(~F.col("is_bad"), verdict)
    return rows.select(*COORDINATES, *IDENTITY, "is_bad", verdict.alias("verdict"))


def _said(source: TableSource) -> Column:
    """Digest of what a row of a typed model says of its change."""
    from pyspark.sql import functions as F

    before = canonical(source, F.col("before")).alias("before")
    image = canonical(source, image_of(source)).alias("image")
    return digest(F.struct("op_type", "event_time", "cut_date", before, image))


def _told_part(source: TableSource) -> Column:
    """Which part of its change a row of a typed model tells, as a text that is never null."""
    from pyspark.sql import functions as F

    if has_whole_images(source.format):
        return F.lit("")
    known = F.coalesce(F.array_sort("known_columns"), F.array(F.lit("*")))
    return F.concat_ws("`", F.col("before").isNull().cast("string"), known)


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
    reason = F.coalesce(
        F.col("image_reason"),
        _value_misfits(source),
        unread_by_case(source, "data"),
        _no_key(source),
    )
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
