"""The events, full loads and statements of one table that a run has to consider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import COORDINATES, ROW_OPS, TABLE_OPS, of_table
from python_udfs.ingestion.formats.registry import (
    FORMATS,
    has_partial_changes,
    has_whole_images,
    positions_are_places,
)
from python_udfs.ingestion.tables.types import source_type
from python_udfs.ingestion.typed.loads import BEFORE_LOG
from python_udfs.ingestion.whole_table.origins import OriginRows
from python_udfs.ingestion.whole_table.partial_images import IS_WHOLE
from python_udfs.ingestion.whole_table.segments import LOAD_MARGIN
from python_udfs.ingestion.whole_table.statements import (
    Statement,
    events_of,
    statement_struct,
    statements_of,
    touches,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from python_udfs.ingestion.formats.ddl import Table
    from python_udfs.ingestion.log.order import LogOrder
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay
    from python_udfs.ingestion.whole_table.segments import Fill

MOVES_PROPERTY = "ods.table_moves"  # statements on the table that its rows were derived from
ORIGINS_PROPERTY = "ods.table_origins"  # tables whose rows came into this table by RENAME
PLACES_PROPERTY = "ods.log_places"  # partitions that rows came by; whether one was changed
LOADED_PROPERTY = "ods.loaded_until"  # time of the newest row of a full load, epoch microseconds


def _is_doubted(statement: Statement, order: LogOrder) -> bool:
    return order.doubts(statement.coordinates, statement.time, statement.file_number)


def _lower(name: Table) -> Table:
    return name[0].lower(), name[1].lower()


class TableLog(NamedTuple):
    """Messages that a typed model may read.

    Attributes:
        all: rows of ods_binlog.
        new: those that the model hasn't read yet.
        scope: condition on the messages of the table's format and topics.
    """

    all: DataFrame
    new: DataFrame
    scope: Column


class TableState:
    """What a run knows of one table beside the changes of its rows.

    Attributes:
        events: the table's events, in the log's order.
        loaded: time of the newest row of a full load in epoch microseconds, None without a load.
        needed: whether derived rows may have to be added.
        fills: position of each event that filled the table with another's rows -> these rows.
        samples: format and payload of the table's first and last new change, and of the first and
            last row of its full loads.
        is_altered: whether there is an ALTER among the new statements that may be of the table.
        refusals: COORDINATES of new statements that have to be refused -> reason.
    """

    def __init__(
        self,
        dbt: Any,
        source: TableSource,
        log: TableLog,
        day: BusinessDay,
        order: LogOrder,
    ) -> None:
        """Scan the envelopes of the new messages once, and set the properties of the commit.

        Args:
            dbt: the model's handle.
            source: the table's declaration.
            log: the messages that the model may read.
            day: how its changes are dated.
            order: judges whether the messages are of one log.

        Raises:
            ValueError: see _check_order.
        """

        def recorded(name: str) -> Any:
            return json.loads(dbt.snapshot_property(name, "null"))

        self.whole_images = has_whole_images(source)
        if not self.whole_images:
            marked = {IS_WHOLE: source_type("bit(1)"), **source.columns}
            source = replace(source, columns=marked)
        binlog, new, scope = log
        self.source, self.binlog, self.scope, self.day = source, binlog, scope, day
        self.table, self.batches = (source.database, source.table), dbt.meta["batches"]
        known = [Statement.from_json(text) for text in recorded(MOVES_PROPERTY) or []]
        self.origins = {tuple(origin) for origin in recorded(ORIGINS_PROPERTY) or []}
        self.loaded_before: int | None = recorded(LOADED_PROPERTY)
        found = self._scan(new, order)
        statements = statements_of(found.statements, source.format)
        undeclared = [statement for statement in statements if _is_doubted(statement, order)]
        statements = [statement for statement in statements if not _is_doubted(statement, order)]
        tables = {self.table, *self.origins}
        fresh = [
            statement
            for statement in statements
            if statement not in known and touches(statement, tables)
        ]
        self.refusals = {
            statement.coordinates: reason
            for statement in statements
            if (reason := self._unfit(statement)) is not None
        }
        places_before = recorded(PLACES_PROPERTY) or [[], False]
        if positions_are_places(source.format):
            rows_by = {*places_before[0], *found.files}
            strayed = [
                statement
                for statement in fresh
                if rows_by - {statement.binlog_file} and events_of([statement], self.table)
            ]
            for foreign in strayed:
                self.refusals[foreign.coordinates] = (
                    f"a {foreign.op} that came by {foreign.binlog_file}, the table's rows by "
                    f"{', '.join(sorted(rows_by))}: {source.format} has no binlog position, so "
                    "what came first can't be determined across partitions"
                )
            fresh = [statement for statement in fresh if statement not in strayed]
        for statement in undeclared:
            unread = statement.reason is not None and statement.names(self.table)
            if order.doubt and (unread or touches(statement, tables)):
                self.refusals[statement.coordinates] = order.doubt.reason
        self.events = events_of([*known, *fresh], self.table)
        times = [load for load in (self.loaded_before, found.loaded) if load is not None]
        self.loaded = max(times, default=None) if self.whole_images else None
        self.has_load = found.loaded is not None
        self.samples, self.is_altered = self._samples(new, found), found.altered
        known_events = events_of(known, self.table)
        late_fill = found.origin_first is not None and any(
            event.filled_from and tuple(found.origin_first) < event.place for event in known_events
        )
        # whether derived rows may change for keys without new changes
        self.all_keys = bool(
            self.events != known_events
            or late_fill
            or found.origins_loaded
            or (fresh and self.origins)
            or (self.has_load and self.loaded_before is None)
        )
        last = self.events[-1].place if self.events else BEFORE_LOG
        behind = found.first is not None and tuple(found.first) < last
        early = (
            self.loaded is not None
            and found.earliest is not None
            and found.earliest <= self.loaded + LOAD_MARGIN
        )
        self.needed = self.all_keys or behind or early or self.has_load
        places = self._check_order(found, places_before)
        self.fills: dict[tuple[int, int], Fill] = {}
        is_partial = has_partial_changes(source.format)
        if self.needed and not is_partial:
            filled = OriginRows(source, binlog, scope, day, self.batches)
            self.fills = filled.fills_of(self.events)
            self.origins |= filled.origins
        for statement in dict.fromkeys(fresh):  # equal: the messages of one statement
            fill = self.fills.get(statement.place)
            origin = next((old for old, to in statement.moves if to == self.table), None)
            if origin and is_partial:
                self.refusals[statement.coordinates] = (
                    f"the rows that {'.'.join(self.table)} got from {'.'.join(origin)} aren't "
                    "known, for the log may have changes in part; those that it had before are gone"
                )
            elif origin and fill and fill.gap:
                self.refusals[statement.coordinates] = fill.gap
        kept = [
            statement
            for statement in [*known, *fresh]
            if touches(statement, {self.table, *self.origins})
        ]
        for name, value in (
            (MOVES_PROPERTY, [statement.to_json() for statement in dict.fromkeys(kept)]),
            (ORIGINS_PROPERTY, sorted(self.origins)),
            (LOADED_PROPERTY, self.loaded),
            (PLACES_PROPERTY, places),
        ):
            dbt.set_snapshot_property(name, json.dumps(value, separators=(",", ":")))

    def _scan(self, new: DataFrame, order: LogOrder) -> SimpleNamespace:
        """One pass over the envelopes. Only the few statements are read as text.

        Returns:
            statements: rows of STATEMENT; first, last: lowest and highest place of a change of
            this table; origin_first: lowest of those whose rows came into it; altered: whether
            there is an ALTER that may be of the table; earliest: time of a change; loaded: of
            the newest row of a full load; origins_loaded: whether there are rows of full loads of
            those whose rows came into it; files: binlog_file of changes, where positions are
            places; changed: whether there is an update or a delete.
        """
        change = F.col("op").isin(*ROW_OPS)
        mine, of_origin = of_table(*self.table), F.lit(False)
        for origin in self.origins:
            of_origin = of_origin | of_table(*origin)
        micros, position = F.unix_micros("event_time"), F.col("binlog_position")
        of_file = [F.col("binlog_file_number").alias("file_number"), F.col("binlog_file")]
        # each group has numbers alone, so it is hashed and nothing is sorted
        groups = (
            new.where(self.scope)
            .groupBy(*(order.groups() if order.is_watched else of_file))
            .agg(
                F.count_if(F.col("op").isin(*TABLE_OPS)).alias("statements"),
                F.min(F.when(mine & change, position)).alias("first"),
                F.min(F.when(mine & change, micros)).alias("earliest"),
                F.max(F.when(mine & (F.col("op") == "snapshot"), micros)).alias("loaded"),
                F.min(F.when(of_origin & change, position)).alias("origin_first"),
                F.count_if(of_origin & (F.col("op") == "snapshot")).alias("origins_loaded"),
                F.count_if(mine & change & (F.col("op") != "insert")).alias("changed"),
                F.max(F.when(mine & change, position)).alias("last"),
                F.count_if(F.col("op") == "ddl").alias("ddl"),
                *(order.summary() if order.is_watched else []),
            )
            .collect()
        )
        statements: list[Row] = []
        if any(group.statements for group in groups):
            found = new.where(self.scope & F.col("op").isin(*TABLE_OPS))
            statements = [
                row.one for row in found.select(statement_struct().alias("one")).collect()
            ]
        altered = False
        if any(group.ddl for group in groups):
            text = F.lower("payload")
            of_table_name = text.contains(self.table[1].lower()) & text.contains("alter")
            ddl = new.where(self.scope & (F.col("op") == "ddl"))
            altered = not ddl.where(of_table_name).isEmpty()
        order.look(groups, new.where(self.scope), self.binlog.where(self.scope))
        by_topic = positions_are_places(self.source.format)

        def known(values: Iterable[Any]) -> list[Any]:
            return [value for value in values if value is not None]

        def outermost(name: str, choose: Callable[..., Any]) -> tuple[int, int] | None:
            places = [
                (group.file_number, group[name]) for group in groups if group[name] is not None
            ]
            return choose(places, default=None)

        return SimpleNamespace(
            statements=statements,
            first=outermost("first", min),
            last=outermost("last", max),
            altered=altered,
            origin_first=outermost("origin_first", min),
            earliest=min(known(group.earliest for group in groups), default=None),
            loaded=max(known(group.loaded for group in groups), default=None),
            origins_loaded=any(group.origins_loaded for group in groups),
            files={group.binlog_file for group in groups if by_topic and group.first is not None},
            changed=any(group.changed for group in groups),
        )

    def _samples(self, new: DataFrame, found: SimpleNamespace) -> list[tuple[str, str | None]]:
        """Format and payload of the table's first and last new change, and of the first and last
        row of full loads that each partition has. Only the rows of these places are read."""
        mine = new.where(self.scope & of_table(*self.table))
        partition = ["format", *COORDINATES[:-1]]
        places = []
        if found.first is not None:
            for number, position in sorted({found.first, found.last}):
                of_file = F.col("binlog_file_number") == number
                at_place = of_file & (F.col("binlog_position") == position)
                places.append(F.col("op").isin(*ROW_OPS) & at_place)
        if found.loaded is not None:
            offset = F.col("message_offset")
            loads = mine.where(F.col("op") == "snapshot").groupBy(*partition)
            ends = loads.agg(F.min(offset).alias("low"), F.max(offset).alias("high"))
            for load in ends.collect():
                of_partition = reduce(and_, (F.col(name) == load[name] for name in partition))
                at_ends = (F.col("op") == "snapshot") & offset.isin(load.low, load.high)
                places.append(of_partition & at_ends)
        if not places:
            return []
        # a transaction's rows share a place, and batches share it too: each place once is enough
        of_load = F.when(F.col("op") == "snapshot", F.col("message_offset"))
        place = map(F.col, [*partition, "op", "binlog_file_number", "binlog_position"])
        rows = mine.where(reduce(or_, places)).groupBy(*place, of_load.alias("of_load"))
        some = rows.agg(F.max("payload").alias("payload"))
        return [(row.format, row.payload) for row in some.collect()]

    def _check_order(self, found: SimpleNamespace, before: list[Any]) -> list[Any]:
        """Check that the positions of a table's changes and events can be compared.

        Args:
            found: of _scan.
            before: what this returned in the run before.

        Returns:
            The partitions that changes of rows came by, and whether one was an update or a
            delete; nothing where the format has binlog positions.

        Raises:
            ValueError: the format has none, and rows with a key, or an event of a run before and
                rows, came by different partitions. Without a key rows are counted, in any order.
        """
        files, changed = sorted({*before[0], *found.files}), before[1] or found.changed
        ways = f"rows by {', '.join(files)}"
        apart = bool(self.source.primary_key) and changed and len(files) > 1
        for event in self.events if positions_are_places(self.source.format) else ():
            if set(files) - {event.binlog_file}:
                ways, apart = f"a {event.op} came by {event.binlog_file}, {ways}", True
        if apart:
            raise ValueError(
                f"{self.source.database}.{self.source.table}: {ways}. {self.source.format} "
                "has no binlog position, so what came first can't be determined across "
                "partitions. Let it send the table's rows and statements to one partition, "
                "and land the log again, or name the one topic of the table in `topic`. Of a "
                "statement: --full-refresh refuses it alone."
            )
        return [files, changed]

    def _unfit(self, statement: Statement) -> str | None:
        """Error text for a statement on the table that can't be applied, else None."""
        if statement.reason is not None:
            return statement.reason if statement.names(self.table) else None
        if getattr(FORMATS[self.source.format], "EXACT_NAMES", False):
            return None
        alike = [
            name
            for move in statement.moves
            for name in move
            if name and name not in (self.table, (self.table[0], "*"))
            if _lower(name) in (_lower(self.table), _lower((self.table[0], "*")))
        ]
        if not alike:
            return None
        return (
            f"a statement on {'.'.join(alike[0])}, while {'.'.join(self.table)} is declared: it "
            "depends on the server whether upper and lower case are the same, so nothing is done"
        )
