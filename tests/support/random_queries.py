"""Random queries over new rows, over all rows that new rows choose, and over a table that stays.

Each query and each part of a query has the columns COLUMNS, so that any part may stand in another.
All of it is SQL that Spark and SQLite read alike; `max_by` and `min_by` are given to SQLite.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

COLUMNS = ("id", "day", "k", "v", "at")
# as the adapter writes new rows
NEW = "(select * from dw.x with (`start-snapshot-id` = '1', `end-snapshot-id` = '2'))"
ALL, STAYING = "dw.x", "dw.y"
KEYS = ("id", "day", "k")


class RandomQuery:
    """One query.

    Args:
        rng: what is random.
        chooses: whether new rows may choose rows of their table.
        kept: columns that are only handed on and grouped by: a key, or a partition.
    """

    def __init__(self, rng: random.Random, chooses: bool, kept: Collection[str]) -> None:
        self._rng, self._chooses, self._kept = rng, chooses, kept
        self._aliases = 0
        self._ctes: list[str] = []

    def text(self) -> str:
        """The whole query."""
        rng = self._rng
        ctes: list[str] = []
        while rng.random() < 0.35 and len(ctes) < 2:
            ctes.append(f"c{len(ctes)} as ({self._query(rng.randint(0, 1))})")
            self._ctes.append(f"c{len(ctes) - 1}")
        query = self._query(rng.randint(0, 2))
        return ("with " + ", ".join(ctes) + " " if ctes else "") + query

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _source(self, depth: int) -> str:
        if depth > 0 and self._rng.random() < 0.55:
            return f"({self._query(depth - 1)})"
        return self._rng.choice([NEW] * 5 + [STAYING] * 2 + self._ctes * 2)

    def _query(self, depth: int) -> str:
        if depth > 0 and self._rng.random() < 0.12:
            kinds = ("union all", "union all", "union all", "union", "except", "intersect")
            kind = self._rng.choice(kinds)
            return f"{self._select(depth - 1)} {kind} {self._select(depth - 1)}"
        return self._select(depth)

    def _select(self, depth: int) -> str:
        rng, alias = self._rng, self._alias()
        aliases, read = [alias], f"from {self._source(depth)} as {alias}"
        if depth > 0 and rng.random() < 0.3:
            other, by = self._alias(), rng.choice(KEYS)
            kind = rng.choice(("join", "join", "left join", "left join", "right join", "full join"))
            on = f"{alias}.{by} = {other}.{by}"
            on += rng.choice(("", "", f" and {alias}.day = {other}.day"))
            read += f" {kind} {self._source(depth - 1)} as {other} on {on}"
            aliases.append(other)
        where = f" where {self._condition(aliases, depth)}" if rng.random() < 0.35 else ""
        if self._chooses and rng.random() < 0.3:
            aliases, read, where = self._chosen()
        if rng.random() < 0.35:
            return self._grouped(aliases, f"{read}{where}")
        if len(aliases) == 1 and rng.random() < 0.15:
            return f"select {rng.choice(('', 'distinct '))}* {read}{where}"
        items = ", ".join(f"{self._item(aliases, name, depth)} as {name}" for name in COLUMNS)
        distinct = "distinct " if rng.random() < 0.07 else ""
        limit = f" order by {alias}.at limit 2" if alias in aliases and rng.random() < 0.03 else ""
        return f"select {distinct}{items} {read}{where}{limit}"

    def _chosen(self) -> tuple[list[str], str, str]:
        """All rows that new rows choose: their name, what reads them, the condition."""
        rng, alias, other, by = self._rng, self._alias(), self._alias(), self._rng.choice(KEYS)
        chooser = rng.choice((NEW, NEW, f"(select distinct {by} from {NEW})", *self._ctes))
        equal = f"{alias}.{by} = {other}.{by}"
        read = f"from {ALL} as {alias}"
        kind = rng.choice(("in", "in", "exists", "join", "join distinct"))
        if kind == "join":
            return [alias], f"{read} join {chooser} as {other} on {equal}", ""
        if kind == "join distinct":
            keys = f"(select distinct {by} from {chooser})"
            return [alias], f"{read} join {keys} as {other} on {equal}", ""
        where = f" where exists (select 1 from {chooser} as {other} where {equal})"
        if kind == "in":
            where = f" where {alias}.{by} in (select {other}.{by} from {chooser} as {other})"
        return [alias], read, where + rng.choice(("", "", f" and {alias}.v > 0"))

    def _condition(self, aliases: Sequence[str], depth: int) -> str:
        rng, alias, name = self._rng, self._rng.choice(aliases), self._rng.choice(COLUMNS[:4])
        if depth == 0 or rng.random() < 0.5:
            compared = f"{alias}.{name} {rng.choice(('>', '<', '=', '<>'))} {rng.randint(0, 2)}"
            return rng.choice((compared, f"{alias}.{name} is not null", f"{alias}.{name} % 2 = 0"))
        source, other, by = self._source(depth - 1), self._alias(), rng.choice(KEYS)
        if rng.random() < 0.5:
            found = f"select {other}.{by} from {source} as {other} where {other}.{by} is not null"
            return f"{alias}.{by} {rng.choice(('in', 'in', 'not in'))} ({found})"
        found = f"select 1 from {source} as {other} where {other}.{by} = {alias}.{by}"
        return f"{rng.choice(('exists', 'exists', 'not exists'))} ({found})"

    def _item(self, aliases: Sequence[str], name: str, depth: int) -> str:
        rng, alias = self._rng, self._rng.choice(aliases)
        kind = 0.0 if name in self._kept else rng.random()
        if kind < 0.7:
            return f"{alias}.{name}"
        if kind < 0.8:
            changed = (f"{alias}.{rng.choice(COLUMNS)}", f"{alias}.{name} + 1")
            return rng.choice((*changed, f"coalesce({alias}.{name}, 0)", "0", "1", "null"))
        if kind < 0.85 and depth > 0:
            other, source = self._alias(), rng.choice((STAYING, STAYING, STAYING, NEW))
            tied = rng.choice(("", f" where {other}.id = {alias}.id"))
            value = f"{rng.choice(('max', 'sum', 'min'))}({other}.v)"
            return f"(select {value} from {source} as {other}{tied})"
        if kind < 0.9:
            return self._window(alias)
        return f"{alias}.{name}"

    def _window(self, alias: str) -> str:
        rng = self._rng
        by = [f"{alias}.{name}" for name in ("id", "day") if rng.random() < 0.5]
        function = rng.choice(
            ("row_number()", "rank()", f"sum({alias}.v)", "count(*)", f"lag({alias}.v)")
        )
        is_ordered = function in ("row_number()", "rank()") or function.startswith("lag")
        order = f" order by {alias}.{rng.choice(('at', 'v'))} {rng.choice(('', 'desc'))}"
        partition = f"partition by {', '.join(by)}" if by else ""
        return f"{function} over ({partition}{order if is_ordered or rng.random() < 0.5 else ''})"

    def _grouped(self, aliases: Sequence[str], read: str) -> str:
        rng, chances = self._rng, {"id": 0.7, "day": 0.4}
        by = [
            name for name in COLUMNS if name in self._kept or rng.random() < chances.get(name, 0.25)
        ]
        columns = {name: f"{rng.choice(aliases)}.{name}" for name in COLUMNS}
        items = ", ".join(
            f"{columns[name] if name in by else self._aggregate(aliases, name)} as {name}"
            for name in COLUMNS
        )
        group = f" group by {', '.join(columns[name] for name in by)}" if by else ""
        having = " having count(*) > 1" if by and rng.random() < 0.05 else ""
        return f"select {items} {read}{group}{having}"

    def _aggregate(self, aliases: Sequence[str], name: str) -> str:
        rng, alias = self._rng, self._rng.choice(aliases)
        column = f"{alias}.{name if rng.random() < 0.8 else rng.choice(COLUMNS)}"
        last = f"{rng.choice(('max_by', 'min_by'))}({column}, {alias}.at)"
        others = (f"count({column})", f"count(distinct {column})", last, f"2 * sum({column})")
        often = (f"sum({column})", f"max({column})", f"min({column})", "count(*)")
        return rng.choice((*often, *often, *others, rng.choice(("0", "1", "null"))))
