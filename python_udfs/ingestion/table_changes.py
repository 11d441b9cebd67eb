"""Rows of a typed ODS model: one source table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from dbt.adapters.sparksession.session import checkpointed
from pyspark.sql import functions as F

from python_udfs.ingestion.declared.made_by import (
    MADE_BY_PROPERTY,
    READER_PROPERTY,
    check_batches,
    check_made_by,
    hash_of_reader,
    made_by,
)
from python_udfs.ingestion.declared.table_settings import settings_problem, table_settings
from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.fast.row_files import RowFiles
from python_udfs.ingestion.fast.settings import worker_settings
from python_udfs.ingestion.formats.envelope import (
    COORDINATES,
    IDENTITY,
    ROW_OPS,
    TABLE_OPS,
    of_table,
    row_changes,
)
from python_udfs.ingestion.formats.registry import (
    FORMATS,
    as_written,
    has_partial_changes,
    has_whole_images,
    positions_are_places,
)
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.log.arrived import is_quiet
from python_udfs.ingestion.log.doubt import UNDECLARED
from python_udfs.ingestion.log.names import (
    absent_columns,
    all_names,
    columns_without_message,
    differ_by_case,
    has_all_columns,
    names_in,
    text_of_absent,
    with_names_of,
)
from python_udfs.ingestion.log.order import LogOrder
from python_udfs.ingestion.log.redeclared import check_held, refused_before, without_refused
from python_udfs.ingestion.tables.log_resets import placed
from python_udfs.ingestion.tables.topics import of_topics
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.duplicates import deduplicate
from python_udfs.ingestion.typed.loads import before_the_log, with_rest
from python_udfs.ingestion.typed.proven import InWorkers
from python_udfs.ingestion.typed.rows import refused_rows, refused_statements
from python_udfs.ingestion.whole_table.derived import derived_rows, rows_of_loads
from python_udfs.ingestion.whole_table.state import ORIGINS_PROPERTY, TableLog, TableState
from python_udfs.ingestion.whole_table.statements import STATEMENT, statements_of, touches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from python_udfs.ingestion.tables.source import TableSource

SAMPLED_DOCUMENTS = 200  # whose names are looked at before all documents are
BATCHES_PROPERTY = "ods.batches"  # the batches that a typed model has read
BATCH_ORDER_PROPERTY = "ods.batch_order"  # the same, in the order that counts
# changes that a commit brought, by cut_date, where it rewrote others beside them
CHANGES_PROPERTY = "ods.changes_by_day"
GONE = ["unique_key", "binlog_file_number", "binlog_position"]


def table_changes(dbt: Any, session: SparkSession, binlog: DataFrame) -> DataFrame | None:
    """Rows of a typed ODS model: the new changes of one source table.

    A change that the model holds already (its message was sent or read again) is recognized by its
    binlog position and left out. For this the position columns of those data files are read that
    hold the same binlog files, never the history; where such changes are found, the other columns
    of these files as well. A message with other content at a held position replaces the row if it
    came by a later batch, and is refused if it came by the same batch.

    Args:
        dbt: the model's handle, with config meta `source` (see tables.source). The settings of
            declared.table_settings stand in its meta or in that of the log's model.
        binlog: dbt.ref("ods_binlog").

    Returns:
        One row a change, and one for each message of the table that has to be refused
        (reject_reason is set, typed columns are null). None where the log has nothing new.

    Raises:
        ValueError: the declaration is wrong, or the table's rows were made by another declaration.
    """
    source = table_source(dbt.this.identifier, dbt.meta.get("source"))
    settings = table_settings(dbt.meta, dbt.meta_of(binlog))
    problem = settings_problem(dbt.this.identifier, settings)
    if problem:
        raise ValueError(problem)
    # the conditions that it would infer are written out here, and on wide expressions it takes
    # longer than the rest of the planning
    session.conf.set("spark.sql.constraintPropagation.enabled", "false")
    dbt.meta = {**dbt.meta, **settings}  # as if its own meta set all of them
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
    nothing_else = recorded == declared and not order.is_redeclared and again is None
    if dbt.is_incremental and nothing_else and _reads_same_batches(dbt):
        origins = json.loads(dbt.snapshot_property(ORIGINS_PROPERTY, "[]"))
        tables = [(source.database, source.table), *map(tuple, origins)]
        if is_quiet(dbt, binlog, source.topics, tables):
            return None
    if again is not None:
        # a correction may have come just now
        unread = again if new is None else again.join(new, COORDINATES, "left_anti")
        new = unread if new is None else new.unionByName(unread)
    elif new is not None and known is not None and positions_are_places(source.format):
        new = _with_corrections(new, readable, batches)
    if new is None:
        return None
    new, readable = (
        placed(messages, source.log_resets, module, LIVE) for messages in (new, readable)
    )
    with _case_sensitive(session, differ_by_case(source)):
        state = TableState(dbt, source, TableLog(readable, new, scope), day, order)
    order.note(dbt)
    is_mine = scope & of_table(source.database, source.table)
    mine = new.where(is_mine)
    if known is not None and not positions_are_places(source.format):
        mine = _with_later_batches(mine, readable.where(is_mine), batches)
    source = _named_as_in_log(dbt, source, state, mine, known)
    state.source, day = replace(state.source, aliases=source.aliases), replace(day, source=source)
    with _case_sensitive(session, differ_by_case(source)):
        inputs = _Inputs(mine, new, again is not None, known)
        rows, corrected = _table_rows(dbt, source, day, state, order, inputs)
        replaced = [keys for keys in (corrected, leaving) if keys is not None]
        if replaced:
            rows = _merged(dbt, rows, replaced)
        return rows


class _Inputs(NamedTuple):
    """What a typed model reads in a run.

    Attributes:
        mine: new messages of its table.
        all: new messages of its log.
        some_again: whether some of them were refused before, and are read again.
        known: rows of the model's table, or None before its first run.
    """

    mine: DataFrame
    all: DataFrame
    some_again: bool
    known: DataFrame | None


def _table_rows(
    dbt: Any,
    source: TableSource,
    day: BusinessDay,
    state: TableState,
    order: LogOrder,
    inputs: _Inputs,
) -> tuple[DataFrame, DataFrame | None]:
    """The rows to add to `known`, and the rows of it that they replace, see deduplicate."""
    mine, known, unread = inputs.mine, inputs.known, []
    source, reason = as_written(mine, source, state.samples)
    if reason is not None:
        unread.append(refused_rows(mine.where(reason.isNotNull()), reason, source, day))
        mine = mine.where(reason.isNull())
    changes = row_changes(mine)
    if order.doubt:
        undeclared = changes.where(order.doubt.condition)
        unread.append(refused_rows(undeclared, F.lit(order.doubt.reason), source, day))
        changes = changes.where(~order.doubt.condition)
    # rows that are read again here, or merged, Spark has to have
    is_added = not state.needed and not inputs.some_again and not order.is_redeclared
    files = RowFiles(dbt) if is_added and dbt.may_write_files else None
    workers = InWorkers(worker_settings(dbt), files)
    rows, gone = deduplicate(changes, known, source, day, dbt.meta["batches"], workers)
    for refused in unread:
        rows = rows.unionByName(_unheld(refused, known))
    if state.refusals:
        statements = refused_statements(inputs.all, state.refusals, source, day)
        rows = rows.unionByName(_unheld(statements, known))
    if not state.needed and gone is None and not inputs.some_again:
        if files is not None:
            rows = files.without_rows(rows, has_others=bool(unread or state.refusals))
        return rows, None
    # a checkpoint: the steps below read them several times, and would parse them as often
    rows = checkpointed(rows, eager=False)
    if inputs.some_again and known is not None:
        gone = _with_settled(rows, known, gone)
    replaced = None
    if gone is not None and known is not None:
        replaced = known.where(F.col("reject_reason").isNull())
        replaced = replaced.join(gone, "unique_key", "left_semi")
        known = known.join(gone, "unique_key", "left_anti")
    if not state.needed:
        return rows, gone
    loads = rows.where(F.lit(False))
    if state.has_load:
        loads = checkpointed(rows_of_loads(state, mine, source, day), eager=False)
    if not has_whole_images(source):
        rows = rows.unionByName(_unheld(before_the_log(loads), known))
        if not state.events:
            return rows, gone
        loads = rows.where(F.lit(False))
    good, is_refused = F.col("reject_reason").isNull(), F.col("reject_reason").isNotNull()
    derived = derived_rows(state, rows.where(good), loads.where(good), known, replaced)
    if state.has_load and has_partial_changes(source.format):
        derived = with_rest(derived, loads.where(good), source)
    derived = derived.withColumn("load_id", F.lit(dbt.run_id))
    return rows.unionByName(_unheld(loads.where(is_refused), known)).unionByName(derived), gone


def _named_as_in_log(
    dbt: Any,
    source: TableSource,
    state: TableState,
    mine: DataFrame,
    known: DataFrame | None,
) -> TableSource:
    """The declaration with aliases for column names that the log writes in another case.

    Only an ALTER changes the names of a table: without one the first and the last message have
    them all. Rows with further names are refused, see unread_by_case.

    Raises:
        ValueError: more than `absent_columns_allowed` columns are absent in all messages, have no
            value in the table, and resemble an undeclared name in the log.
    """
    if not state.samples:
        return source
    rows = mine.where(F.col("op").isin(*ROW_OPS, "snapshot"))
    names = all_names(rows) if state.is_altered else names_in(state.samples)
    source = with_names_of(source, names)
    absent = absent_columns(source, names)

    def is_held(name: str) -> bool:
        return known is not None and not known.where(F.col(f"`{name}`").isNotNull()).isEmpty()

    if absent and not has_all_columns(source.format):
        # a field may be missing in any document: look at more of them. A column with values in
        # the table is declared by its right name
        some = rows.select("format", "payload").limit(SAMPLED_DOCUMENTS).collect()
        names |= names_in(map(tuple, some))
        absent = absent_columns(source, names)
        absent = {name: near for name, near in absent.items() if not is_held(name)}
    doubtful = [name for name, near in absent.items() if near and not is_held(name)]
    # a run must not fail of two messages that lack a column; to warn they are enough
    sampled = has_all_columns(source.format) and not state.is_altered and not doubtful
    if not sampled:
        gone, unnamed = columns_without_message(rows, source, absent)
        source = replace(source, unnamed=frozenset(unnamed))
        absent = {name: near for name, near in absent.items() if name in gone}
    if not absent:
        return source
    text = text_of_absent(dbt.this.identifier, source, absent, sampled)
    never = [name for name in doubtful if name in absent]
    allowed = int(dbt.project_var("absent_columns_allowed", len(never)))
    if len(never) > allowed:
        raise ValueError(
            f"{text} The var absent_columns_allowed ({allowed}) is how many such columns a table "
            "may have."
        )
    from dbt.adapters.events.logging import AdapterLogger

    AdapterLogger("Log").warning(text)
    return source


@contextmanager
def _case_sensitive(session: SparkSession, is_needed: bool) -> Iterator[None]:
    """Distinguish column names by case while expressions are made."""
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
    """The messages that the model refused, if the code that reads them has changed since.

    Where a message is corrected as a whole, the messages of other batches at its place come too:
    the table has no row of a correction that holds the same in fewer rows.

    None if it hasn't, or if the model refused none.
    """
    reading = hash_of_reader(source)
    before = dbt.snapshot_property(READER_PROPERTY)
    dbt.set_snapshot_property(READER_PROPERTY, reading)
    if known is None or before == reading:
        return None
    # changes of a log that nobody declared wait for its declaration
    undeclared = F.col("reject_reason").startswith(UNDECLARED)
    refused = known.where(F.col("reject_reason").isNotNull() & ~undeclared)
    place = COORDINATES[1:] if positions_are_places(source.format) else COORDINATES
    refused = checkpointed(refused.select(*place).distinct())
    if refused.isEmpty():
        return None
    return binlog.join(F.broadcast(refused), place, "left_semi")


def _with_corrections(new: DataFrame, binlog: DataFrame, batches: list[str]) -> DataFrame:
    """New messages, with the earlier read messages that correct them.

    Where a message is corrected as a whole, a correction that holds the same as an earlier batch
    in fewer rows has no row in the table.
    """
    between = batches[1:-1]
    if not between:
        return new
    place = COORDINATES[1:]
    places = new.where(F.col("batch_id").isin(between)).select(*place).distinct()
    there = row_changes(binlog).join(F.broadcast(places), place, "left_semi")
    return new.unionByName(there.join(new, COORDINATES, "left_anti"))


def _with_later_batches(mine: DataFrame, readable: DataFrame, batches: list[str]) -> DataFrame:
    """New messages of a table, with those that later batches brought of the same changes before.

    A message that holds what the table held anyway has no row there: a batch that is named before
    its batch, and comes behind it, would win.
    """
    between, later = batches[1:-1], batches[2:]
    if not between:
        return mine
    place = IDENTITY[:-1]
    places = row_changes(mine).where(F.col("batch_id").isin(between)).select(*place).distinct()
    there = row_changes(readable).where(F.col("batch_id").isin(later))
    there = there.join(F.broadcast(places), place, "left_semi")
    return mine.unionByName(there.join(mine, COORDINATES, "left_anti"))


def _with_settled(rows: DataFrame, known: DataFrame, gone: DataFrame | None) -> DataFrame | None:
    """`gone`, and the refused rows of `known` whose message has a good row among `rows`.

    Args:
        gone: see deduplicate.
    """
    row = [*COORDINATES, "row_number"]
    good = rows.where(F.col("reject_reason").isNull()).select(*row).distinct()
    refused = known.where("reject_reason is not null and binlog_file_number is not null")
    settled = checkpointed(refused.join(good, row, "left_semi").select(*GONE))
    if settled.isEmpty():
        return gone
    return settled if gone is None else gone.unionByName(settled)


def _unheld(rows: DataFrame, known: DataFrame | None) -> DataFrame:
    """Those of `rows` that the table doesn't hold yet. It holds them if the log is read again."""
    return rows if known is None else rows.join(known, "unique_key", "left_anti")


def _merged(dbt: Any, rows: DataFrame, replaced: list[DataFrame]) -> DataFrame:
    """Let the model's commit merge `rows` into the table instead of appending them.

    Args:
        replaced: unique_key, binlog_file_number and binlog_position of the table's rows to replace.

    Returns:
        The rows, and for each key without a new row one without op_type, which deletes.
    """
    rows = checkpointed(rows, eager=False)
    keys = reduce(
        lambda left, right: left.union(right), (frame.select(*GONE) for frame in replaced)
    )
    # bounds that files of the table are pruned by
    (bounds,) = keys.agg(
        F.collect_set("binlog_file_number").alias("files"),
        F.min("binlog_position").alias("low"),
        F.max("binlog_position").alias("high"),
    ).collect()
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


def _new_messages(
    dbt: Any, binlog: DataFrame, source: TableSource, scope: Column, known: DataFrame | None
) -> DataFrame | None:
    """Rows of ods_binlog that the model hasn't read yet, of the batches in its setting `batches`.

    These are all rows of a batch that was added to the setting, and the rows of the other batches
    that came since the model's last commit. None where there is nothing new.

    Raises:
        ValueError: the table holds rows of a batch that was removed from the setting, or the order
            of the batches has changed.
    """
    batches = list(dbt.meta["batches"])
    read = json.loads(dbt.snapshot_property(BATCHES_PROPERTY, "[]")) if dbt.is_incremental else []
    order = json.loads(dbt.snapshot_property(BATCH_ORDER_PROPERTY, "[]")) if read else []
    check_batches(dbt.this.identifier, order, batches)
    dropped = sorted(set(read) - set(batches))
    kept = []
    for batch in dropped:
        of_batch = F.col("batch_id") == batch
        is_held = known is not None and not known.where(of_batch).isEmpty()
        if is_held or _counts(binlog.where(of_batch), source, scope):
            kept.append(batch)
    if kept:
        raise ValueError(
            f"{dbt.this.identifier} holds rows of the batches {', '.join(kept)}, which the "
            f"var `batches` ({', '.join(batches)}) no longer names. Name them, or run the model "
            "with --full-refresh to remove their rows."
        )
    added = sorted(set(batches) - set(read))
    dbt.set_snapshot_property(BATCHES_PROPERTY, json.dumps(sorted(batches)))
    dbt.set_snapshot_property(BATCH_ORDER_PROPERTY, json.dumps(batches))
    new = dbt.new_rows(binlog).where(F.col("batch_id").isin(batches))
    if dbt.is_incremental and added:
        new = new.where(F.col("batch_id").isin(read))
        return new.unionByName(binlog.where(F.col("batch_id").isin(added)))
    return None if dbt.is_incremental and dbt.inputs_unchanged() else new


def _reads_same_batches(dbt: Any) -> bool:
    """Whether the model reads the batches that its last commit did."""
    read = json.loads(dbt.snapshot_property(BATCHES_PROPERTY, "null"))
    return read == sorted(dbt.meta["batches"])


def _counts(batch: DataFrame, source: TableSource, scope: Column) -> bool:
    """Whether a batch has statements on the table or rows of its full loads.

    Rows that are derived from these don't name their batch.
    """
    table = (source.database, source.table)
    in_scope = batch.where(scope)
    loads = in_scope.where(of_table(*table) & (F.col("op") == "snapshot"))
    if not loads.isEmpty():
        return True
    rows = in_scope.where(F.col("op").isin(*TABLE_OPS)).select(
        *STATEMENT, F.unix_micros("event_time").alias("event_micros")
    )
    statements = statements_of(rows.collect(), source.format)
    return any(
        touches(statement, {table}) or (statement.reason and statement.names(table))
        for statement in statements
    )
