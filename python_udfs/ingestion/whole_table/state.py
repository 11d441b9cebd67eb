"""What a log says of a whole table, as changes of its rows: full loads, TRUNCATE, DROP, RENAME.

A typed ODS model holds the changes of single rows. What empties or fills a table at once, it holds
as rows too (op_type delete or insert, metadata_op_type what it was), so that nothing downstream
has to know:

- A table event (TRUNCATE, DROP, a RENAME away) deletes at its position every row that the table
  had then. A RENAME of another table to this name inserts the rows that the other one had.
- A full load has no position, and nobody has to align one: the row that a key had before the log
  is the row before its first change, and none if that is an insert. Only for a key without such a
  change does the load's own row count. So it doesn't matter when the load ran.

Both depend on changes that may come late. So these rows are not written once: `derived_rows`
works out what follows from all that is known of the keys that a run touches, compares it with
what the table holds, and appends the difference. A row that no longer holds is taken back by its
opposite at the same position, with the same cut_date.

A RENAME may bring rows that the log doesn't tell of: its table is older than the log, or came by
topics that the model doesn't read. Such a statement, and one whose effect on the table can't be
read, becomes a refused row with its reason. What is sure of it holds nevertheless: the rows that
the table had before are gone.

Where a change may be told in part (MongoDB's), the deletes at an event have the rows that are
known whole, and of the others the keys. Full loads stand before all changes there, as they are.
What a table got by a RENAME can't be worked out from changes in part, and is refused.

Positions: the rows before the log are in file number -1. At an event the deletes have row_number
0 (taken back: -1), and what fills the table 1 and up, of which the highest is right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_, or_
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from python_udfs.ingestion.formats.registry import FORMATS, ROW_OPS, TABLE_OPS
from python_udfs.ingestion.tables.types import source_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import StructType

    from python_udfs.ingestion.declared.table_source import TableSource
    from python_udfs.ingestion.formats.ddl import Move, Table
    from python_udfs.ingestion.log.order import LogOrder
    from python_udfs.ingestion.table_changes import BusinessDay

MOVES_PROPERTY = "ods.table_moves"  # statements on the table that its rows were derived from
ORIGINS_PROPERTY = "ods.table_origins"  # tables whose rows came into this one by RENAME
PLACES_PROPERTY = "ods.log_places"  # partitions that rows came by; whether one was changed
LOADED_PROPERTY = "ods.loaded_until"  # time of the newest row of a full load, epoch microseconds
# A change this much younger than a load's last row was certainly not in it: the clocks of server
# and loader may differ, and the log tells the time of a statement's begin
LOAD_MARGIN = 3600 * 1_000_000
LOAD_FILE = "before the log"
BEFORE_LOG = (-1, 0)
DERIVED_OPS = (*TABLE_OPS, "snapshot")
COORDINATES = ["batch_id", "topic", "partition_number", "message_offset"]
STATEMENT = [
    "batch_id",
    "binlog_file_number",
    "binlog_position",
    "binlog_file",
    "event_time",
    "op",
    "database_name",
    "table_name",
    "payload",
    "topic",
    "partition_number",
    "message_offset",
]
IS_WHOLE = "_is_whole"  # of an image: all of its columns are known, not the key alone
KEYLESS_LOAD = (
    "a row of a full load of a table without key: it can't be told whether the log has it too"
)


@dataclass(frozen=True)
class Statement:
    """One statement on tables, as the log tells it.

    Attributes:
        file_number, position, binlog_file: where it stands.
        time: epoch microseconds.
        op: truncate, drop or rename.
        moves: which table's rows went where, see formats.ddl.
        reason: why that can't be told; None: it can.
        coordinates: of its message, as COORDINATES.
        payload: its message.
    """

    file_number: int
    position: int
    binlog_file: str
    time: int
    op: str
    moves: tuple[Move, ...]
    reason: str | None = None
    coordinates: tuple[Any, ...] = field(default=(), compare=False)
    payload: str = field(default="", compare=False)

    @property
    def place(self) -> tuple[int, int]:
        return self.file_number, self.position

    def names(self, table: Table) -> bool:
        """Whether the message has the table's name in it somewhere, in upper or lower case."""
        name = rf"(?<![\w$]){re.escape(table[1])}(?![\w$])"
        return re.search(name, self.payload, re.IGNORECASE) is not None

    def to_json(self) -> list[Any]:
        return [self.file_number, self.position, self.binlog_file, self.time, self.op, self.moves]

    @classmethod
    def from_json(cls, value: list[Any]) -> Statement:
        moves = tuple((tuple(old), tuple(new) if new else None) for old, new in value[5])
        return cls(*value[:5], moves)


@dataclass(frozen=True)
class TableEvent:
    """A point of the log at which a table lost all its rows, and maybe got those of another.

    Attributes:
        file_number, position, binlog_file, time, op: of the statement.
        filled_from: the table whose rows it got; None: none.
    """

    file_number: int
    position: int
    binlog_file: str
    time: int
    op: str
    filled_from: Table | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.file_number, self.position


def statements_of(rows: Iterable[Row], format_name: str) -> list[Statement]:
    """Messages of an op of TABLE_OPS (columns STATEMENT) as statements, in the log's order."""
    module = FORMATS[format_name]
    if not hasattr(module, "table_moves"):
        return []
    ordered = sorted(
        rows,
        key=lambda row: (
            row.binlog_file_number,
            row.binlog_position,
            row.topic,
            row.partition_number,
            row.message_offset,
        ),
    )
    found = []
    for row in ordered:
        told, reason = (), None
        try:
            told = module.table_moves(row.payload, row.database_name, row.table_name, row.op)
        except ValueError as exc:
            reason = f"a statement that can't be taken: {exc}"
        except Exception as exc:  # whatever a message holds: it is refused, and the run goes on
            reason = f"a statement that can't be taken: it isn't understood ({exc!r:.80})"
        found.append(
            Statement(
                row.binlog_file_number,
                row.binlog_position,
                row.binlog_file,
                row.event_micros,
                row.op,
                tuple(told),
                reason,
                tuple(row[name] for name in COORDINATES),
                row.payload,
            )
        )
    return found


def events_of(statements: Iterable[Statement], table: Table) -> list[TableEvent]:
    """What the statements did to one table, in the log's order; in any order, any number of times.

    The renames of one statement take effect one after the other. A log may tell them in one
    message or in one for each table, so those of one position go together.
    """
    places: dict[tuple[int, int], list[Statement]] = {}
    for one in statements:
        places.setdefault(one.place, []).append(one)
    found = []
    for place in sorted(places):
        here = places[place]
        content: dict[Table, Table | None] = {table: table}
        for old, new in dict.fromkeys(move for one in here for move in one.moves):
            if new is None:
                # only a whole database is looked for among all: a statement may name many tables
                gone = [one for one in content if one[0] == old[0]] if old[1] == "*" else []
                content.update(dict.fromkeys([*gone, old]))
            else:
                content[new] = content.get(old, old)
                content[old] = None
        if content[table] != table:
            op = next((one.op for one in here if one.op == "rename"), here[0].op)
            first = here[0]
            found.append(TableEvent(*place, first.binlog_file, first.time, op, content[table]))
    return found


def _is_doubted(statement: Statement, order: LogOrder) -> bool:
    return order.doubts(statement.coordinates, statement.time, statement.file_number)


def touches(statement: Statement, tables: Iterable[Table]) -> bool:
    """Whether the statement moves rows of one of the tables."""
    names = {name for move in statement.moves for name in move if name}
    return any(one in names or (one[0], "*") in names for one in tables)


@dataclass(frozen=True)
class Fill:
    """The rows that a table got from another one.

    Attributes:
        rows: columns key, image and n.
        gap: why these may not be all; None: they are.
    """

    rows: DataFrame
    gap: str | None


def positions_are_places(format_name: str) -> bool:
    """Whether the format's positions are places in a topic, not in a binlog."""
    return getattr(FORMATS[format_name], "POSITION_IS_PLACE", False)


def has_whole_images(format_name: str) -> bool:
    """Whether each change of the format has its row whole, before and after it."""
    return getattr(FORMATS[format_name], "WHOLE_IMAGES", True)


def _lower(name: Table) -> Table:
    return name[0].lower(), name[1].lower()


class TableState:
    """What a run knows of one table beside the changes of its rows.

    Attributes:
        events: the table's events, in the log's order.
        loaded: time of the newest row of a full load, epoch microseconds; None: there was none.
        needed: whether derived rows may have to be added at all.
        samples: format and payload of the table's first and last new change, and of the first and
            last row of its full loads.
        is_altered: whether there is an ALTER among the new statements that may be of the table.
        refusals: COORDINATES of new statements that have to be refused -> why.
    """

    def __init__(
        self,
        dbt: Any,
        source: TableSource,
        binlog: DataFrame,
        new: DataFrame,
        scope: Column,
        day: BusinessDay,
        order: LogOrder,
    ) -> None:
        """Look at the new messages' envelopes, once, and note what they say for the commit.

        Args:
            dbt: the model's handle.
            source: the table's declaration.
            binlog: all messages that the model may read.
            new: those that it hasn't read yet.
            scope: condition on the messages of the table's format and topics.
            day: how its changes are dated.
            order: judges whether the messages are of one log.

        Raises:
            ValueError: see _check_order.
        """

        def noted(name: str) -> Any:
            return json.loads(dbt.snapshot_property(name, "null"))

        self.whole_images = has_whole_images(source.format)
        if not self.whole_images:
            marked = {IS_WHOLE: source_type("bit(1)"), **source.columns}
            source = replace(source, columns=marked)
        self.source, self.binlog, self.scope, self.day = source, binlog, scope, day
        self.table, self.batches = (source.database, source.table), dbt.meta["batches"]
        known = [Statement.from_json(one) for one in noted(MOVES_PROPERTY) or []]
        self.origins = {tuple(one) for one in noted(ORIGINS_PROPERTY) or []}
        self.loaded_before: int | None = noted(LOADED_PROPERTY)
        found = self._scan(new, order)
        told = statements_of(found.statements, source.format)
        undeclared = [one for one in told if _is_doubted(one, order)]
        told = [one for one in told if not _is_doubted(one, order)]
        fresh = [
            one for one in told if one not in known and touches(one, {self.table, *self.origins})
        ]
        self.refusals = {
            one.coordinates: reason for one in told if (reason := self._unfit(one)) is not None
        }
        places_before = noted(PLACES_PROPERTY) or [[], False]
        if positions_are_places(source.format):
            rows_by = {*places_before[0], *found.files}
            strayed = [
                one for one in fresh if rows_by - {one.binlog_file} and events_of([one], self.table)
            ]
            for one in strayed:
                self.refusals[one.coordinates] = (
                    f"a {one.op} that came by {one.binlog_file}, the table's rows by "
                    f"{', '.join(sorted(rows_by))}: {source.format} tells no binlog position, so "
                    "what came first can't be told across partitions"
                )
            fresh = [one for one in fresh if one not in strayed]
        for one in undeclared:
            unread = one.reason is not None and one.names(self.table)
            if order.doubt and (unread or touches(one, {self.table, *self.origins})):
                self.refusals[one.coordinates] = order.doubt.reason
        self.events = events_of([*known, *fresh], self.table)
        times = [one for one in (self.loaded_before, found.loaded) if one is not None]
        self.loaded = max(times, default=None) if self.whole_images else None
        self.has_load = found.loaded is not None
        self.samples, self.is_altered = self._samples(new, found), found.altered
        known_events = events_of(known, self.table)
        late_fill = found.origin_first is not None and any(
            one.filled_from and tuple(found.origin_first) < one.place for one in known_events
        )
        # whether something may follow for keys that have nothing new
        self.all_keys = bool(
            self.events != known_events
            or late_fill
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
        self._all_statements: list[Statement] | None = None
        self._fills = self._fills_of(self.events) if self.needed and self.whole_images else {}
        for one in fresh:
            fill = self._fills.get(one.place)
            origin = next((old for old, new in one.moves if new == self.table), None)
            if origin and not self.whole_images:
                self.refusals[one.coordinates] = (
                    f"the rows that {'.'.join(self.table)} got from {'.'.join(origin)} aren't "
                    "known, for changes may be told in part; those that it had before are gone"
                )
            elif origin and fill and fill.gap:
                self.refusals[one.coordinates] = fill.gap
        kept = [one for one in [*known, *fresh] if touches(one, {self.table, *self.origins})]
        for name, value in (
            (MOVES_PROPERTY, [one.to_json() for one in dict.fromkeys(kept)]),
            (ORIGINS_PROPERTY, sorted(self.origins)),
            (LOADED_PROPERTY, self.loaded),
            (PLACES_PROPERTY, places),
        ):
            dbt.set_snapshot_property(name, json.dumps(value, separators=(",", ":")))

    def _scan(self, new: DataFrame, order: LogOrder) -> SimpleNamespace:
        """One pass over the envelopes: no row's text is read, statements are few.

        Returns:
            statements: rows of STATEMENT; first, last: lowest and highest place of a change of
            this table; origin_first: lowest of those whose rows came into it; altered: whether
            there is an ALTER that may be of the table; earliest: time of a change; loaded: of
            the newest row of a full load; files: binlog_file of changes, where positions are
            places; changed: whether there is an update or a delete.
        """
        from pyspark.sql import functions as F

        change = F.col("op").isin(*ROW_OPS)
        mine, of_origin = of_table(*self.table), F.lit(False)
        for one in self.origins:
            of_origin = of_origin | of_table(*one)
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
                F.count_if(mine & change & (F.col("op") != "insert")).alias("changed"),
                F.max(F.when(mine & change, position)).alias("last"),
                F.count_if(F.col("op") == "ddl").alias("ddl"),
                *(order.summary() if order.is_watched else []),
            )
            .collect()
        )
        statements: list[Row] = []
        if any(one.statements for one in groups):
            found = new.where(self.scope & F.col("op").isin(*TABLE_OPS))
            statements = [row.one for row in found.select(_statement().alias("one")).collect()]
        altered = False
        if any(one.ddl for one in groups):
            text = F.lower("payload")
            of_table_name = text.contains(self.table[1].lower()) & text.contains("alter")
            ddl = new.where(self.scope & (F.col("op") == "ddl"))
            altered = not ddl.where(of_table_name).isEmpty()
        order.look(groups, new.where(self.scope), self.binlog.where(self.scope))
        by_topic = positions_are_places(self.source.format)

        def known(values: Iterable[Any]) -> list[Any]:
            return [one for one in values if one is not None]

        def outermost(name: str, choose: Callable[..., Any]) -> tuple[int, int] | None:
            places = [(one.file_number, one[name]) for one in groups if one[name] is not None]
            return choose(places, default=None)

        return SimpleNamespace(
            statements=statements,
            first=outermost("first", min),
            last=outermost("last", max),
            altered=altered,
            origin_first=outermost("origin_first", min),
            earliest=min(known(one.earliest for one in groups), default=None),
            loaded=max(known(one.loaded for one in groups), default=None),
            files={one.binlog_file for one in groups if by_topic and one.first is not None},
            changed=any(one.changed for one in groups),
        )

    def _samples(self, new: DataFrame, found: SimpleNamespace) -> list[tuple[str, str | None]]:
        """Format and payload of the table's first and last new change, and of the first and last
        row of full loads that each partition has. Only the rows of these places are read."""
        from pyspark.sql import functions as F

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
        # a transaction's rows share a place, of which one is enough; batches share it too
        of_load = F.when(F.col("op") == "snapshot", F.col("message_offset"))
        place = ["op", "binlog_file_number", "binlog_position", of_load.alias("of_load")]
        rows = mine.where(reduce(or_, places)).groupBy(*partition, *place)
        some = rows.agg(F.max("payload").alias("payload"))
        return [(row.format, row.payload) for row in some.collect()]

    def _check_order(self, found: SimpleNamespace, before: list[Any]) -> list[Any]:
        """The places of a table's changes, and of events, must be comparable.

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
        told = f"rows by {', '.join(files)}"
        apart = bool(self.source.primary_key) and changed and len(files) > 1
        for event in self.events if positions_are_places(self.source.format) else ():
            if set(files) - {event.binlog_file}:
                told, apart = f"a {event.op} came by {event.binlog_file}, {told}", True
        if apart:
            raise ValueError(
                f"{self.source.database}.{self.source.table}: {told}. {self.source.format} "
                "tells no binlog position, so what came first can't be told across "
                "partitions. Let it send the table's rows and statements to one partition, "
                "and land the log anew, or name the one topic of the table in `topic`. Of a "
                "statement: --full-refresh refuses it alone."
            )
        return [files, changed]

    def _unfit(self, statement: Statement) -> str | None:
        """Why a statement that may be about the table can't be taken; None where it can."""
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

    def _fills_of(self, events: Iterable[TableEvent]) -> dict[tuple[int, int], Fill]:
        """Place of each event that fills the table by the rows of another -> those."""
        return {
            event.place: self._rows_at(event.filled_from, event.place)
            for event in events
            if event.filled_from
        }

    def _rows_at(self, table: Table, place: tuple[int, int]) -> Fill:
        """Rows that another table had just before a position.

        It is worked out from the raw log by this table's declaration. That reads the other
        table's messages, all of them.
        """
        from pyspark.sql import functions as F

        from python_udfs.ingestion.table_changes import change_rows, load_rows

        self.origins.add(table)
        if self._all_statements is None:
            rows = self.binlog.where(self.scope & F.col("op").isin(*TABLE_OPS)).select(
                _statement().alias("one")
            )
            found = [row.one for row in rows.collect()]
            self._all_statements = statements_of(found, self.source.format)
        other = replace(self.source, database=table[0], table=table[1])
        events = [one for one in events_of(self._all_statements, table) if one.place < place]
        fills = self._fills_of(events)
        messages = self.binlog.where(self.scope & of_table(*table))
        day = replace(self.day, source=other)
        good = F.col("reject_reason").isNull()
        # a checkpoint: else the plan holds the decoding once for each of its uses below
        changes = change_rows(messages.where(_is_before("", place)), other, day, self.batches)
        changes = changes.localCheckpoint(eager=False)
        begin = events[-1].place if events else BEFORE_LOG
        refused = changes.where(~good & ~_is_before("", begin)).select("reject_reason")
        loads, loaded = _loads(other, changes.where(F.lit(False))), None
        # asked first: it is known fast, and what decodes them takes long to plan
        if not messages.where(F.col("op") == "snapshot").isEmpty():
            read = load_rows(messages, other, day)
            refused = refused.union(read.where(~good).select("reject_reason"))
            loads = _loads(other, read.where(good))
            loaded = loads.agg(F.max("time")).first()[0]
        moves = _moves(other, changes.where(good))
        states = _segments(other, moves, loads, events, fills, loaded)
        last = (F.col("segment") == len(events)) & F.col("final").isNotNull()
        rows = states.where(last).select("key", F.col("final").alias("image"), "n")
        bad = refused.first()
        gap = self._gap(table, place, events, fills, loaded is not None)
        if bad is not None:
            gap = f"a row of it is refused, {bad.reject_reason}"
        if gap is not None:
            mine, other_name = ".".join(self.table), ".".join(table)
            gap = (
                f"the rows that {mine} got from {other_name} aren't all known: {gap}. "
                f"Those that are missing come with a full load of {mine}"
            )
        return Fill(rows.localCheckpoint(eager=False), gap)

    def _gap(
        self,
        table: Table,
        place: tuple[int, int],
        events: Sequence[TableEvent],
        fills: dict[tuple[int, int], Fill],
        is_loaded: bool,
    ) -> str | None:
        """Why the log may not tell all rows that a table had just before a position; None: it does.

        Args:
            events, fills: of the table before it.
            is_loaded: whether there is a full load of the table.
        """
        from pyspark.sql import functions as F

        begin = events[-1].place if events else BEFORE_LOG
        for one in self._all_statements or ():
            if one.reason is not None and begin < one.place < place and one.names(table):
                return one.reason
        if events:
            fill = fills.get(events[-1].place)
            return fill and fill.gap
        if is_loaded or table == self.table:
            return None
        made = self.binlog.where(
            self.scope & of_table(*table) & (F.col("op") == "ddl") & _is_before("", place)
        )
        new_table = FORMATS[self.source.format].new_table
        for row in made.select("payload", "database_name").collect():
            try:
                made_table = new_table(row.payload, row.database_name)
            except Exception:  # whatever a message holds: that table isn't known to be this one
                continue
            if made_table == table:
                return None
        topics = f" by the topics {', '.join(self.source.topics)}" if self.source.topics else ""
        return f"the log{topics} tells neither of its CREATE TABLE nor of a full load of it"

    def derived_rows(
        self,
        changes: DataFrame,
        loads: DataFrame,
        known: DataFrame | None,
        gone: DataFrame | None = None,
    ) -> DataFrame:
        """The rows to add, so that the model holds what follows from all that it knows.

        Args:
            changes: new good rows of the typed model, of ops insert, update, delete.
            loads: good rows of full loads, as the typed model's.
            known: the model's rows; None: there are none yet.
            gone: rows that were among them, and that some of `changes` took the place of.

        Returns:
            Rows of the typed model.
        """
        from pyspark.sql import functions as F

        source = self.source
        if not self.whole_images:
            changes, loads = _marked(source, changes), _marked(source, loads)
            known, gone = (None if one is None else _marked(source, one) for one in (known, gone))
        moves, new_loads = _moves(source, changes), _loads(source, loads)
        emitted, fills = None, self._fills
        if known is not None:
            good = known.where(F.col("reject_reason").isNull())
            derived = F.col("metadata_op_type").isin(*DERIVED_OPS)
            old_moves = _moves(source, good.where(~derived))
            emitted = _emitted(source, good.where(derived))
            if not self.all_keys:
                keys = self._touched(moves, new_loads, old_moves)
                if gone is not None:
                    keys = keys.union(_moves(source, gone).select("key")).distinct()
                old_moves = old_moves.join(keys, "key", "left_semi")
                emitted = emitted.join(keys, "key", "left_semi")
                fills = {
                    place: replace(fill, rows=fill.rows.join(keys, "key", "left_semi"))
                    for place, fill in fills.items()
                }
            moves = moves.unionByName(old_moves)
            new_loads = new_loads.unionByName(_held_loads(emitted, self.events))
        moves = moves.localCheckpoint(eager=False)
        states = _segments(source, moves, new_loads, self.events, fills, self.loaded)
        difference = _difference(source, _wanted(states, self.events, self.day), emitted)
        rows = self._rows_of(difference, changes.schema)
        return rows if self.whole_images else _unmarked(source, rows)

    def _touched(self, moves: DataFrame, loads: DataFrame, old_moves: DataFrame) -> DataFrame:
        """Keys for which something else may follow than what the table holds."""
        from pyspark.sql import functions as F

        keys = moves.select("key").union(loads.select("key"))
        if self.has_load and self.loaded_before is not None:
            # changes that were too young for the load before, but not for this one
            keys = keys.union(old_moves.where(F.col("time") >= self.loaded_before).select("key"))
        return keys.distinct()

    def _rows_of(self, difference: DataFrame, like: StructType) -> DataFrame:
        """The difference as rows of the typed model, with the columns of `like`."""
        from pyspark.sql import functions as F

        is_delete = F.col("op_type") == "delete"
        place = F.struct("binlog_file_number", "binlog_position")
        operation, file = F.lit("snapshot"), F.lit(LOAD_FILE)
        for event in self.events:
            at_event = place == _place(event.place)
            operation = F.when(at_event, F.lit(event.op)).otherwise(operation)
            file = F.when(at_event, F.lit(event.binlog_file)).otherwise(file)
        values = {
            **{name: F.col("image")[name] for name in (*self.source.columns, "raw_values")},
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
            "schema_version": F.lit(self.source.schema_version),
            "metadata_table": F.lit(f"{self.source.database}.{self.source.table}"),
            "metadata_op_type": operation,
            "metadata_commit_ts": F.timestamp_micros("time"),
        }
        nothing = F.lit(None)
        return difference.select(
            *[values.get(one.name, nothing).cast(one.dataType).alias(one.name) for one in like]
        )


def _statement() -> Column:
    from pyspark.sql import functions as F

    return F.struct(*STATEMENT, F.unix_micros("event_time").alias("event_micros"))


def of_table(database: str, table: str) -> Column:
    """Condition on the messages of one table."""
    from pyspark.sql import functions as F

    return (F.col("database_name") == database) & (F.col("table_name") == table)


def _is_before(prefix: str, place: tuple[int, int]) -> Column:
    """Condition on the columns <prefix>binlog_file_number and <prefix>binlog_position."""
    from pyspark.sql import functions as F

    file_number, position = F.col(f"{prefix}binlog_file_number"), F.col(f"{prefix}binlog_position")
    return (file_number < place[0]) | ((file_number == place[0]) & (position < place[1]))


def _place(place: tuple[int, int]) -> Column:
    from pyspark.sql import functions as F

    return F.struct(
        F.lit(place[0]).cast("long").alias("binlog_file_number"),
        F.lit(place[1]).cast("long").alias("binlog_position"),
    )


def image_of(source: TableSource) -> Column:
    """The row after a change, as one struct like `before`."""
    from pyspark.sql import functions as F

    return F.struct(*source.columns, "raw_values")


def _marked(source: TableSource, rows: DataFrame) -> DataFrame:
    """Rows of a format that may tell a change in part, as if each told its row: IS_WHOLE says
    whether it is all of the row, else it is the key. A row of a full load is an insert.

    Args:
        source: with IS_WHOLE among its columns.
    """
    from pyspark.sql import functions as F

    names = [*(name for name in source.columns if name != IS_WHOLE), "raw_values"]
    whole, before = F.col("known_columns").isNull(), F.col("before")

    def known_if(condition: Column) -> dict[str, Column]:
        return {
            name: F.col(name) if name in source.primary_key else F.when(condition, F.col(name))
            for name in names
        }

    told = F.struct(F.lit(True).alias(IS_WHOLE), *[before[name].alias(name) for name in names])
    nothing = known_if(F.lit(False)).items()
    bare = F.struct(F.lit(False).alias(IS_WHOLE), *[one.alias(name) for name, one in nothing])
    had = F.when(before.isNotNull(), told).otherwise(bare)
    of_load = F.col("metadata_op_type") == "snapshot"
    return rows.withColumns(
        {
            **known_if(whole),
            IS_WHOLE: whole,
            "before": F.when(F.col("op_type") != "insert", had),
            "metadata_op_type": F.when(of_load, "insert").otherwise(F.col("metadata_op_type")),
        }
    )


def _unmarked(source: TableSource, rows: DataFrame) -> DataFrame:
    """What _marked made of rows, as the format tells it."""
    from pyspark.sql import functions as F

    names = [*(name for name in source.columns if name != IS_WHOLE), "raw_values"]
    whole, before = F.col(IS_WHOLE), F.col("before")
    image = F.struct(*[before[name].alias(name) for name in names])
    return rows.withColumns(
        {
            "before": F.when(whole & before.isNotNull(), image),
            "known_columns": F.when(~whole, F.array().cast("array<string>")),
        }
    ).drop(IS_WHOLE)


def canonical(source: TableSource, image: Column) -> Column:
    """An image in a form that can be grouped by: its map as a list in a fixed order."""
    from pyspark.sql import functions as F

    entries = F.array_sort(F.map_entries(image["raw_values"]))
    fields = [image[name].alias(name) for name in source.columns]
    return F.when(image.isNotNull(), F.struct(*fields, entries.alias("raw_values")))


def digest(canon: Column) -> Column:
    from pyspark.sql import functions as F

    exact = {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS", "ignoreNullFields": "false"}
    return F.md5(F.to_json(canon, exact))


def _key(source: TableSource, image: Column) -> Column:
    """What rows are told apart by: the key, or the whole row where there is none."""
    from pyspark.sql import functions as F

    if not source.primary_key:
        return canonical(source, image)
    fields = [image[name].alias(name) for name in source.primary_key]
    return F.when(image.isNotNull(), F.struct(*fields))


def _moves(source: TableSource, changes: DataFrame) -> DataFrame:
    """What changes did to keys: one row a key that a change ended, began or went through.

    Returns:
        key; had, has: the images before and after, null where there was no row of the key;
        place: struct of file number, position, row number and phase, which orders; time.
    """
    from pyspark.sql import functions as F

    def step(key: str, had: Column, has: Column, phase: int) -> Column:
        return F.struct(
            F.col(key).alias("key"), had.alias("had"), has.alias("has"), F.lit(phase).alias("phase")
        )

    frame = changes.withColumn("_image", image_of(source))
    none = F.lit(None).cast(frame.schema["_image"].dataType)
    image, before = F.col("_image"), F.col("before")
    frame = frame.withColumn("_key", _key(source, image)).withColumn(
        "_old_key", _key(source, before)
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


def _loads(source: TableSource, rows: DataFrame) -> DataFrame:
    """Rows of full loads: key, image, time; of those with equal times the last of a topic."""
    from pyspark.sql import functions as F

    image = image_of(source)
    return rows.select(
        _key(source, image).alias("key"),
        image.alias("image"),
        F.unix_micros("event_time").alias("time"),
        F.struct("topic", "partition_number", "message_offset").alias("came"),
    )


def _emitted(source: TableSource, derived: DataFrame) -> DataFrame:
    """What the table holds of derived rows, those that were taken back subtracted.

    Returns:
        key, part (base or end), place (file number, position), canon, image, cut_date, time;
        n: how often it holds; deletes, inserts: how many such rows there are; row_number: the
        highest.
    """
    from pyspark.sql import functions as F

    base = F.col("row_number") >= 1
    inserted = F.col("op_type") == "insert"
    image = F.when(inserted, image_of(source)).otherwise(F.col("before"))
    return (
        derived.select(
            _key(source, image).alias("key"),
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
    from pyspark.sql import functions as F

    came = F.struct(
        F.lit("").alias("topic"),
        F.lit(0).alias("partition_number"),
        F.lit(-1).cast("long").alias("message_offset"),
    )
    from_load = (F.col("part") == "base") & (F.col("n") > 0)
    for event in events:
        if event.filled_from:
            from_fill = (F.col("place") == _place(event.place)) & (F.col("time") == event.time)
            from_load &= ~from_fill
    return emitted.where(from_load).select("key", "image", "time", came.alias("came"))


def _segments(
    source: TableSource,
    moves: DataFrame,
    loads: DataFrame,
    events: Sequence[TableEvent],
    fills: dict[tuple[int, int], Fill],
    loaded: int | None,
) -> DataFrame:
    """The rows that keys had at the beginning and at the end of each stretch between events.

    Args:
        moves: see _moves, of all changes of the keys.
        loads: see _loads.
        fills: place of an event -> rows that the table got there.
        loaded: time of the newest row of a full load.

    Returns:
        One row per key and segment (0 before the first event): key, segment; base: the image at
        its beginning, as far as no event or change tells it, with `time`; final: the image at
        its end; base_n, n: how many rows of base and of final, 1 for a table with a key.
    """
    from pyspark.sql import functions as F

    segment = F.lit(0)
    for event in events:
        segment = segment + (~_is_before("place.", event.place)).cast("int")
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
    limit = F.lit(None if loaded is None else loaded + LOAD_MARGIN).cast("long")
    early = F.coalesce(F.col("time") <= limit, F.lit(False))
    by_segment = moves.groupBy("key", "segment").agg(
        F.min_by(F.struct("had", "time"), "place").alias("first"),
        F.max_by(F.struct("has"), "place").alias("last"),
        F.coalesce(F.max(early), F.lit(False)).alias("early"),
    )
    # a load's row belongs behind the events that were well over when it was read
    loaded_in = F.lit(0)
    for event in events:
        loaded_in = loaded_in + (F.col("time") > event.time + LOAD_MARGIN).cast("int")
    newest = loads.groupBy("key").agg(
        F.max_by(F.struct("image", "time"), F.struct("time", "came")).alias("load")
    )
    newest = newest.select("key", "load", F.expr("load.time").alias("time")).withColumn(
        "segment", loaded_in
    )
    # it counts only where no change tells the same
    told = by_segment.where("early").groupBy("key").agg(F.max("segment").alias("told"))
    newest = (
        newest.join(told, "key", "left")
        .where(F.col("told").isNull() | (F.col("told") < F.col("segment")))
        .select("key", "segment", "load")
    )
    parts = [by_segment, newest, *filled]
    together = reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), parts)
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
    # rows that nothing tells of were there at the log's begin, and behind a fill with a gap
    unknown = [
        0,
        *(n + 1 for n, one in enumerate(events) if one.place in fills and fills[one.place].gap),
    ]
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
    """As _segments, of a table without key: equal rows are counted."""
    from pyspark.sql import functions as F

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
        one.select(
            "key", "segment", F.col("fill.image").alias("image"), "n", F.col("fill").alias("base")
        )
        for one in filled
    ]
    together = reduce(lambda one, two: one.unionByName(two), parts)
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


def _wanted(states: DataFrame, events: Sequence[TableEvent], day: BusinessDay) -> DataFrame:
    """The derived rows that follow: key, part, place, image, time, n, cut_date."""
    from pyspark.sql import functions as F

    start = _place(BEFORE_LOG)
    end = F.lit(None).cast("struct<binlog_file_number: bigint, binlog_position: bigint>")
    end_time = F.lit(None).cast("long")
    for number, event in enumerate(events):
        start = F.when(F.col("segment") == number + 1, _place(event.place)).otherwise(start)
        end = F.when(F.col("segment") == number, _place(event.place)).otherwise(end)
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
    from pyspark.sql import Window
    from pyspark.sql import functions as F

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
    # even numbers take back, the next odd one holds: see the module's head
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
