"""The rows that a table got from another table by a RENAME."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dbt.adapters.sparksession.session import checkpointed
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import COORDINATES, ROW_OPS, TABLE_OPS, of_table
from python_udfs.ingestion.formats.registry import FORMATS, as_written
from python_udfs.ingestion.typed.duplicates import change_rows
from python_udfs.ingestion.typed.loads import BEFORE_LOG, load_rows
from python_udfs.ingestion.whole_table.segments import (
    Fill,
    is_before,
    key_moves,
    load_images,
    segments,
)
from python_udfs.ingestion.whole_table.statements import events_of, statement_struct, statements_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.formats.ddl import Table
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay
    from python_udfs.ingestion.whole_table.statements import Statement, TableEvent


class OriginRows:
    """Rows that other tables had before a RENAME, worked out from the raw log.

    They are read by the declaration of the table that got them.

    Attributes:
        origins: the tables whose rows were asked for.
    """

    def __init__(
        self,
        source: TableSource,
        binlog: DataFrame,
        scope: Column,
        day: BusinessDay,
        batches: list[str],
    ) -> None:
        """
        Args:
            source: declaration of the table that got the rows.
            binlog: all messages that the model may read.
            scope: condition on the messages of the table's format and topics.
            day: how the table's changes are dated.
            batches: names of the batches that are read, in the order that counts.
        """
        self.source, self.binlog, self.scope, self.day = source, binlog, scope, day
        self.table, self.batches = (source.database, source.table), batches
        self.origins: set[Table] = set()
        self._statements: list[Statement] | None = None

    def fills_of(self, events: Iterable[TableEvent]) -> dict[tuple[int, int], Fill]:
        """Position of each event that fills the table with another's rows -> these rows."""
        return {
            event.place: self._rows_at(event.filled_from, event)
            for event in events
            if event.filled_from
        }

    def _rows_at(self, table: Table, event: TableEvent) -> Fill:
        """Rows that another table had just before an event.

        They are worked out from all raw messages of the other table, by this table's declaration.
        """
        place = event.place
        self.origins.add(table)
        if self._statements is None:
            rows = self.binlog.where(self.scope & F.col("op").isin(*TABLE_OPS)).select(
                statement_struct().alias("one")
            )
            found = [row.one for row in rows.collect()]
            self._statements = statements_of(found, self.source.format)
        other = replace(self.source, database=table[0], table=table[1])
        events = [before for before in events_of(self._statements, table) if before.place < place]
        fills = self.fills_of(events)
        messages = self.binlog.where(self.scope & of_table(*table))
        messages = self._without_later_loads(messages, event)
        day = replace(self.day, source=other)
        good = F.col("reject_reason").isNull()
        messages, other, unread = self._as_written(messages, place, other)
        # a checkpoint: else the plan holds the decoding once for each of its uses below
        changes = change_rows(messages.where(is_before("", place)), other, day, self.batches)
        changes = checkpointed(changes, eager=False)
        begin = events[-1].place if events else BEFORE_LOG
        refused = changes.where(~good & ~is_before("", begin)).select("reject_reason")
        loads, loaded = load_images(other, changes.where(F.lit(False))), None
        # asked first: the answer is fast, and decoding takes long to plan
        if not messages.where(F.col("op") == "snapshot").isEmpty():
            read = load_rows(messages, other, day)
            refused = refused.union(read.where(~good).select("reject_reason"))
            loads = load_images(other, read.where(good))
            ((loaded,),) = loads.agg(F.max("time")).collect()
        moves = key_moves(other, changes.where(good))
        states = segments(other, moves, loads, events, fills, loaded)
        last = (F.col("segment") == len(events)) & F.col("final").isNotNull()
        rows = states.where(last).select("key", F.col("final").alias("image"), "n")
        bad = refused.first()
        gap = self._gap(table, place, events, fills, loaded is not None) or unread
        if bad is not None:
            gap = f"a row of it is refused, {bad.reject_reason}"
        if gap is not None:
            mine, other_name = ".".join(self.table), ".".join(table)
            gap = (
                f"the rows that {mine} got from {other_name} aren't all known: {gap}. "
                f"Those that are missing come with a full load of {mine}"
            )
        return Fill(checkpointed(rows, eager=False), gap)

    @staticmethod
    def _without_later_loads(messages: DataFrame, event: TableEvent) -> DataFrame:
        """A table's messages without the full loads that were made behind an event: what has its
        name then is another table. Clocks may differ, so that one right behind the event may be of
        either table: it isn't taken for the rows before."""
        is_load = F.col("op") == "snapshot"
        return messages.where(~is_load | (F.unix_micros("event_time") <= event.time))

    @staticmethod
    def _as_written(
        messages: DataFrame, place: tuple[int, int], source: TableSource
    ) -> tuple[DataFrame, TableSource, str | None]:
        """A table's messages that can be read, its declaration as they are written, and why others
        can't be read among the changes and loads before a position; else None."""
        is_early = is_before("", place) | (F.col("op") == "snapshot")
        rows = messages.where(F.col("op").isin(*ROW_OPS, "snapshot") & is_early)
        came = F.struct("binlog_file_number", "binlog_position", *COORDINATES)
        ends = rows.agg(F.min_by("payload", came), F.max_by("payload", came)).first() or ()
        samples = [(source.format, payload) for payload in ends]
        source, reason = as_written(messages, source, samples)
        if reason is None:
            return messages, source, None
        found = rows.where(reason.isNotNull()).select(reason.alias("reason")).first()
        why = None if found is None else f"a row of it can't be read, {found.reason}"
        return messages.where(reason.isNull()), source, why

    def _gap(
        self,
        table: Table,
        place: tuple[int, int],
        events: Sequence[TableEvent],
        fills: dict[tuple[int, int], Fill],
        is_loaded: bool,
    ) -> str | None:
        """Why rows that a table had just before a position may be missing in the log, else None.

        Args:
            events, fills: of the table before it.
            is_loaded: whether there is a full load of the table.
        """
        begin = events[-1].place if events else BEFORE_LOG
        for statement in self._statements or ():
            if (
                statement.reason is not None
                and begin < statement.place < place
                and statement.names(table)
            ):
                return statement.reason
        if events:
            fill = fills.get(events[-1].place)
            return None if fill is None else fill.gap
        if is_loaded or table == self.table or self._is_made(table, place):
            return None
        topics = f" by the topics {', '.join(self.source.topics)}" if self.source.topics else ""
        return f"the log{topics} has neither its CREATE TABLE nor a full load of before"

    def _is_made(self, table: Table | None, place: tuple[int, int]) -> bool:
        """Whether the log has the CREATE TABLE of a table before a position."""
        if table is None:
            return False
        made = self.binlog.where(
            self.scope & of_table(*table) & (F.col("op") == "ddl") & is_before("", place)
        )
        new_table = FORMATS[self.source.format].new_table
        for row in made.select("payload", "database_name").collect():
            try:
                made_table = new_table(row.payload, row.database_name)
            except Exception:  # a message may hold anything: it isn't known to make this table
                continue
            if made_table == table:
                return True
        return False
