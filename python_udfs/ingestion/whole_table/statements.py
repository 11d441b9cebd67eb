"""Statements on whole tables, and what they did to one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import COORDINATES
from python_udfs.ingestion.formats.registry import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import Column, Row

    from python_udfs.ingestion.formats.ddl import Move, Table

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


@dataclass(frozen=True)
class Statement:
    """One statement on whole tables in the log.

    Attributes:
        file_number, position, binlog_file: where it stands.
        time: epoch microseconds.
        op: truncate, drop or rename.
        moves: which table's rows went where, see formats.ddl.
        reason: why the moves can't be read, else None.
        coordinates: values of COORDINATES of its message.
        payload: text of its message.
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
        number, position, binlog_file, time, op, listed = value
        moves = tuple((tuple(old), tuple(new) if new else None) for old, new in listed)
        return cls(number, position, binlog_file, time, op, moves)


@dataclass(frozen=True)
class TableEvent:
    """A position in the log at which a table lost all its rows, and may have got those of another.

    Attributes:
        file_number, position, binlog_file, time, op: of the statement.
        filled_from: the table whose rows it got, else None.
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


def statement_struct() -> Column:
    """The columns STATEMENT and event_micros (epoch microseconds) of a message, as one struct."""
    return F.struct(*STATEMENT, F.unix_micros("event_time").alias("event_micros"))


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
        moves, reason = (), None
        try:
            moves = module.table_moves(row.payload, row.database_name, row.table_name, row.op)
        except ValueError as exc:
            reason = f"a statement that can't be taken: {exc}"
        except Exception as exc:  # a message may hold anything: refuse it, and go on
            reason = f"a statement that can't be taken: it isn't understood ({exc!r:.80})"
        found.append(
            Statement(
                row.binlog_file_number,
                row.binlog_position,
                row.binlog_file,
                row.event_micros,
                row.op,
                tuple(moves),
                reason,
                tuple(row[name] for name in COORDINATES),
                row.payload,
            )
        )
    return found


def events_of(statements: Iterable[Statement], table: Table) -> list[TableEvent]:
    """The events of one table in the log's order.

    The renames of one statement take effect one after the other. A log may hold them in one
    message or in one for each table, so all statements of one position are taken together; each
    list of moves once, and none that is a part of another.

    Args:
        statements: in any order, also repeated.
    """
    places: dict[tuple[int, int], list[Statement]] = {}
    for statement in statements:
        places.setdefault(statement.place, []).append(statement)
    found = []
    for place in sorted(places):
        here = places[place]
        content: dict[Table, Table | None] = {table: table}
        for old, new in _moves_of(here):
            if new is None:
                # only for a whole database all names are searched: a statement may have many
                gone = [name for name in content if name[0] == old[0]] if old[1] == "*" else []
                content.update(dict.fromkeys([*gone, old]))
            else:
                content[new] = content.get(old, old)
                content[old] = None
        if content[table] != table:
            ops = [statement.op for statement in here]
            op = "rename" if "rename" in ops else ops[0]
            first = here[0]
            found.append(TableEvent(*place, first.binlog_file, first.time, op, content[table]))
    return found


def _moves_of(statements: list[Statement]) -> list[Move]:
    """The moves of all messages at one position, in their order."""
    lists = list(dict.fromkeys(statement.moves for statement in statements))
    if len(lists) == 1:
        return list(lists[0])
    whole = [part for part in lists if not any(set(part) < set(other) for other in lists)]
    return list(dict.fromkeys(move for part in whole for move in part))


def touches(statement: Statement, tables: Iterable[Table]) -> bool:
    """Whether the statement moves rows of one of the tables."""
    names = {name for move in statement.moves for name in move if name}
    return any(table in names or (table[0], "*") in names for table in tables)
