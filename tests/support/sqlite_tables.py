"""SQLite, which answers random queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from tests.support.random_queries import COLUMNS, in_sqlite

Row = tuple[Any, ...]


class _By:
    """`max_by` and `min_by` of SQLite."""

    sign = 1

    def __init__(self) -> None:
        self._best: tuple[int, Any] | None = None

    def step(self, value: Any, order: int | None) -> None:
        if order is not None and (self._best is None or self.sign * order > self._best[0]):
            self._best = self.sign * order, value

    def finalize(self) -> Any:
        return self._best[1] if self._best else None


class _ByLowest(_By):
    sign = -1


class Database:
    """Three tables of integers: what is new, all rows, and a table that stays.

    Args:
        of_changes: further columns of what is new.
    """

    def __init__(self, of_changes: Sequence[str] = ()) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.create_aggregate("arg_max", 2, _By)
        self._connection.create_aggregate("arg_min", 2, _ByLowest)
        self._columns = {"news": (*COLUMNS, *of_changes), "x": COLUMNS, "y": COLUMNS}
        for name, columns in self._columns.items():
            self._connection.execute(f"create table {name} ({', '.join(columns)})")

    def fill(self, name: str, rows: Sequence[Row]) -> None:
        self._connection.execute(f"delete from {name}")
        places = ", ".join("?" for _ in self._columns[name])
        self._connection.executemany(f"insert into {name} values ({places})", rows)

    def ask(self, sql: str, news: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
        self.fill("news", news)
        self.fill("x", rows)
        return self._connection.execute(in_sqlite(sql)).fetchall()
