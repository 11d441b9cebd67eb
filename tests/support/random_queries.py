"""Random queries over new rows, over all rows that new rows choose, and over a table that stays.

Each query and each part of a query has the columns COLUMNS, so that any part may stand in another.
All of it is Spark's SQL that sqlglot turns into SQLite's, see `in_sqlite`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp, transforms

COLUMNS = ("id", "day", "k", "v", "at")
# as the adapter writes new rows
NEW = "(select * from dw.x with (`start-snapshot-id` = '1', `end-snapshot-id` = '2'))"
ALL, STAYING = "dw.x", "dw.y"
KIND = "row_kind"
KEYS = ("id", "day", "k")
JOINS = ("join", "join", "left join", "left join", "right join", "full join", "left semi join")
FRAMES = (
    "",
    "",
    " rows between 1 preceding and current row",
    " rows between 1 following and 2 following",
)


@lru_cache(maxsize=64)
def in_sqlite(sql: str) -> str:
    """A query in SQLite's words; its tables are `news`, `x` and `y`, and it lacks `max_by`,
    `min_by`, which are given to it as `arg_max`, `arg_min`."""
    for name, own in ((NEW, "news"), (ALL, "x"), (STAYING, "y")):
        sql = sql.replace(name, own)

    def known(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Select):
            return node
        return transforms.eliminate_semi_and_anti_joins(transforms.eliminate_qualify(node))

    return sqlglot.parse_one(sql, read="spark").transform(known).sql("sqlite")


class RandomQuery:
    """One query.

    Args:
        rng: what is random.
        chooses: whether new rows may choose rows of their table.
        kept: columns that are only handed on and grouped by: a key, or a partition.
    """

    columns: tuple[str, ...] = COLUMNS

    def __init__(self, rng: random.Random, chooses: bool, kept: Collection[str]) -> None:
        self._rng, self._chooses, self._kept = rng, chooses, kept
        self._aliases = 0
        self._ctes: list[str] = []
        self._of_news = {NEW}  # names by which new rows are read

    def text(self) -> str:
        """The whole query."""
        rng = self._rng
        ctes: list[str] = []
        while rng.random() < 0.35 and len(ctes) < 2:
            name, inner = f"c{len(ctes)}", self._query(rng.randint(0, 1))
            ctes.append(f"{name} as ({inner})")
            self._add(name, inner)
        query = self._query(rng.randint(0, 2))
        if rng.random() < 0.1:  # what is kept gets the values of another column
            kept, other = rng.choice((*self._kept, "v")), rng.choice(self.columns)
            given = {kept: other, other: kept}
            items = ", ".join(f"{given.get(name, name)} as {name}" for name in self.columns)
            query = f"select {items} from ({query}) as {self._alias()}"
        return ("with " + ", ".join(ctes) + " " if ctes else "") + query

    def _alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def _add(self, name: str, inner: str) -> None:
        """Let the rows of a CTE be read by its name."""
        reads_news = any(
            f"from {news} " in f"{inner} " or f"join {news} " in inner for news in self._of_news
        )
        self._ctes = [*self._ctes, name]
        self._of_news = self._of_news | {name} if reads_news else self._of_news - {name}

    def _source(self, depth: int) -> str:
        if depth > 0 and self._rng.random() < 0.55:
            return f"({self._nested(depth - 1)})"
        return self._rng.choice([NEW] * 5 + [STAYING] * 2 + self._ctes * 2)

    def _nested(self, depth: int) -> str:
        """A query that may have a `with` of its own, whose name may hide another's."""
        if self._rng.random() < 0.1:
            return self._last(depth)
        if self._rng.random() < 0.9:
            return self._query(depth)
        name, inner = self._rng.choice(("c0", "d0")), self._query(depth)
        before = self._ctes, self._of_news
        self._add(name, inner)
        query = f"with {name} as ({inner}) {self._query(depth)}"
        self._ctes, self._of_news = before
        return query

    def _last(self, depth: int) -> str:
        """The last rows, mostly of an id."""
        rng, alias, inner = self._rng, self._alias(), self._alias()
        source = f"({self._query(depth - 1)})" if depth > 0 else self._source(0)
        by = rng.choice(("id", "id", "id", "id, day", "day"))
        number = (
            f"row_number() over (partition by {by} order by at {rng.choice(('desc', 'desc', ''))})"
        )
        condition = rng.choice(("rn = 1", "rn = 1", "rn = 1", "rn <= 1", "rn = 2", "rn > 1"))
        condition += rng.choice(("", "", "", " and v > 0", " and id > 1"))
        columns = ", ".join(self.columns)
        if rng.random() < 0.3:
            ranked = (
                f"select {columns}, {number} as rn from {source} as {inner} qualify {condition}"
            )
            return f"select {columns} from ({ranked}) as {alias}"
        ranked = f"select {columns}, {number} as rn from {source} as {inner}"
        return f"select {columns} from ({ranked}) as {alias} where {condition}"

    def _query(self, depth: int) -> str:
        if depth > 0 and self._rng.random() < 0.12:
            kinds = ("union all", "union all", "union all", "union", "except", "intersect")
            kind = self._rng.choice(kinds)
            second = self._select(depth - 1)
            if self._rng.random() < 0.3:  # by its place, not by its name
                names = self._rng.sample(self.columns, len(self.columns))
                renamed = (
                    f"{was} as {name}" for was, name in zip(self.columns, names, strict=True)
                )
                second = f"select {', '.join(renamed)} from ({second}) as {self._alias()}"
            return f"{self._select(depth - 1)} {kind} {second}"
        return self._select(depth)

    def _select(self, depth: int) -> str:
        rng, alias = self._rng, self._alias()
        aliases, read = [alias], f"from {self._source(depth)} as {alias}"
        while depth > 0 and len(aliases) < 3 and rng.random() < 0.3:
            read += self._joined(aliases, depth)
        where = f" where {self._condition(aliases, depth)}" if rng.random() < 0.35 else ""
        if where and rng.random() < 0.2:
            where += f" and {self._condition(aliases, depth)}"
        if self._chooses and rng.random() < 0.3:
            aliases, read, where = self._chosen()
            if depth > 0 and rng.random() < 0.15:
                read += self._joined(aliases, depth)
        if rng.random() < 0.35:
            return self._grouped(aliases, f"{read}{where}")
        if len(aliases) == 1 and " join " not in read and rng.random() < 0.15:
            return f"select {rng.choice(('', 'distinct '))}* {read}{where}"
        items = ", ".join(f"{self._item(aliases, name, depth)} as {name}" for name in self.columns)
        distinct = "distinct " if rng.random() < 0.07 else ""
        if not distinct and rng.random() < 0.05:
            number = f"{rng.choice(('row_number()', 'rank()'))} over ({self._ordered(aliases[0])})"
            return f"select {items} {read}{where} qualify {number} = 1"
        limit = f" order by {alias}.at limit 2" if alias in aliases and rng.random() < 0.03 else ""
        return f"select {distinct}{items} {read}{where}{limit}"

    def _joined(self, aliases: list[str], depth: int) -> str:
        """A join with another source, whose name is added to those that can be read."""
        rng, alias, other = self._rng, self._rng.choice(aliases), self._alias()
        source, by, kind = self._source(depth - 1), rng.choice(KEYS), rng.choice(JOINS)
        if rng.random() < 0.1:
            kind = rng.choice(("left anti join", "cross join"))
        if not kind.endswith(("semi join", "anti join")):
            aliases.append(other)
        if kind == "cross join":
            return f" cross join {source} as {other}"
        if rng.random() < 0.1:
            return f" {kind} {source} as {other} using ({by})"
        sides = [f"{alias}.{by}", f"{other}.{rng.choice((by, by, by, 'id'))}"]
        rng.shuffle(sides)
        on = rng.choice(("=", "=", "=", "<=>", ">")).join((f"{sides[0]} ", f" {sides[1]}"))
        more = ("", "", "", f" and {alias}.day = {other}.day", f" and {other}.v > 0")
        return f" {kind} {source} as {other} on {on}{rng.choice(more)}"

    def _chosen(self) -> tuple[list[str], str, str]:
        """All rows that new rows choose: their name, what reads them, the condition."""
        rng, alias, other, by = self._rng, self._alias(), self._alias(), self._rng.choice(KEYS)
        of_news = [name for name in self._ctes if name in self._of_news]
        chooser = rng.choice((NEW, NEW, f"(select distinct {by} from {NEW})", *of_news))
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
        rng, alias, name = self._rng, self._rng.choice(aliases), self._rng.choice(self.columns[:4])
        if depth == 0 or rng.random() < 0.5:
            compared = f"{alias}.{name} {rng.choice(('>', '<', '=', '<>'))} {rng.randint(0, 2)}"
            others = (f"{alias}.{name} is not null", f"{alias}.{name} % 2 = 0")
            pair = f"({compared} or {rng.choice(others)})"
            return rng.choice((compared, compared, *others, pair, f"not {compared}"))
        source, other, by = self._source(depth - 1), self._alias(), rng.choice(KEYS)
        if rng.random() < 0.1:
            pair = f"select {other}.id, {other}.{by} from {source} as {other}"
            return f"({alias}.id, {alias}.{by}) in ({pair})"
        if rng.random() < 0.5:
            found = f"select {other}.{by} from {source} as {other} where {other}.{by} is not null"
            return f"{alias}.{by} {rng.choice(('in', 'in', 'not in'))} ({found})"
        found = f"select 1 from {source} as {other} where {other}.{by} = {alias}.{by}"
        tested = f"{rng.choice(('exists', 'exists', 'not exists'))} ({found})"
        return rng.choice((tested, tested, tested, f"({tested} or {alias}.{name} = 1)"))

    def _item(self, aliases: Sequence[str], name: str, depth: int) -> str:
        rng, alias = self._rng, self._rng.choice(aliases)
        kind = 0.0 if name in self._kept else rng.random()
        if kind < 0.7:
            return f"{alias}.{name}"
        if kind < 0.8:
            a, b = (f"{alias}.{rng.choice(self.columns)}" for _ in range(2))
            changed = (a, f"{alias}.{name} + 1", f"coalesce({a}, {b})", f"nullif({a}, 1)")
            case = f"case when {self._condition(aliases, depth)} then {a} else {b} end"
            return rng.choice((*changed, case, f"coalesce({alias}.{name}, 0)", "0", "1", "null"))
        if kind < 0.85 and depth > 0:
            other, source = self._alias(), rng.choice((STAYING, STAYING, STAYING, NEW))
            tied = rng.choice(("", f" where {other}.id = {alias}.id"))
            value = f"{rng.choice(('max', 'sum', 'min'))}({other}.v)"
            return f"(select {value} from {source} as {other}{tied})"
        if kind < 0.9:
            return self._window(alias)
        return f"{alias}.{name}"

    def _ordered(self, alias: str) -> str:
        rng = self._rng
        by = [f"{alias}.{name}" for name in ("id", "day") if rng.random() < 0.5]
        order = f"order by {alias}.{rng.choice(('at', 'v'))} {rng.choice(('', 'desc'))}"
        return (f"partition by {', '.join(by)} " if by else "") + order

    def _window(self, alias: str) -> str:
        rng, value = self._rng, f"{alias}.v"
        aggregates = ("count(*)", *(f"{name}({value})" for name in ("sum", "max", "min")))
        others = (f"lag({value})", f"lead({value}, 1, 0)", f"first_value({value})")
        function = rng.choice(("row_number()", "rank()", *others, *aggregates))
        over = self._ordered(alias)
        if function in aggregates or function.startswith("first"):
            over += rng.choice(FRAMES)
            if rng.random() < 0.5:
                over = over[: over.index("order by")]
        return f"{function} over ({over})"

    def _grouped(self, aliases: Sequence[str], read: str) -> str:
        rng, chances = self._rng, {"id": 0.7, "day": 0.4}
        by = [
            name
            for name in self.columns
            if name in self._kept or rng.random() < chances.get(name, 0.25)
        ]
        columns = {name: f"{rng.choice(aliases)}.{name}" for name in self.columns}
        items = ", ".join(
            f"{columns[name] if name in by else self._aggregate(aliases, name)} as {name}"
            for name in self.columns
        )
        named = [columns[name] for name in by]
        if rng.random() < 0.2:
            named = [str(self.columns.index(name) + 1) for name in by]
        group = f" group by {', '.join(named)}" if by else ""
        having = ""
        if by and rng.random() < 0.08:
            tested = ("count(*) > 1", f"max({aliases[0]}.v) > 0", f"{columns[by[0]]} > 1", "v > 0")
            having = f" having {rng.choice(tested)}"
        return f"select {items} {read}{group}{having}"

    def _aggregate(self, aliases: Sequence[str], name: str) -> str:
        rng, alias = self._rng, self._rng.choice(aliases)
        column = f"{alias}.{name if rng.random() < 0.8 else rng.choice(self.columns)}"
        last = f"{rng.choice(('max_by', 'min_by'))}({column}, {alias}.at)"
        distinct = f"{rng.choice(('count', 'sum'))}(distinct {column})"
        case = f"sum(case when {alias}.v > 0 then {column} else 0 end)"
        others = (f"count({column})", distinct, last, f"2 * sum({column})", case, f"-max({column})")
        often = (f"sum({column})", f"max({column})", f"min({column})", "count(*)")
        chosen = rng.choice((*often, *often, *others, rng.choice(("0", "1", "null"))))
        if chosen in often and rng.random() < 0.1:
            chosen += f" filter (where {alias}.{rng.choice(self.columns)} > 1)"
        return chosen


class RandomChanges(RandomQuery):
    """A query over changes, which has their kind as a further column. Rows of other tables are
    there (+I); a query may leave out or change what takes back."""

    columns = (*COLUMNS, KIND)

    def text(self) -> str:
        sql = super().text()
        # other tables have no such column
        others = set(re.findall(r"dw\.[xy] as (t\d+)", sql))
        return re.sub(rf"\b(t\d+)\.{KIND}", lambda at: "'+I'" if at[1] in others else at[0], sql)

    def _source(self, depth: int) -> str:
        source, columns = super()._source(depth), ", ".join(COLUMNS)
        if source != NEW or self._rng.random() < 0.6:
            return source
        changed = (
            f"{columns}, {KIND} from {NEW} where sign > 0",
            f"{columns}, {KIND} from {NEW}",
            f"id, day, k, v * sign as v, at, {KIND} from {NEW}",
            f"{columns}, '+I' as {KIND} from {NEW}",
        )
        return f"(select {self._rng.choice(changed)})"

    def _item(self, aliases: Sequence[str], name: str, depth: int) -> str:
        if name != KIND:
            return super()._item(aliases, name, depth)
        return f"{self._rng.choice(aliases)}.{KIND}" if self._rng.random() < 0.95 else "'+I'"
