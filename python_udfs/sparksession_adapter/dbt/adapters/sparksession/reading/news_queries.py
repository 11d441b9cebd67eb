"""What a query makes of new rows: whether the results of single runs are those of all rows at once.

A filter, an expression or a look-up treats each row by itself, so that the runs' results together
are the result of all rows. A count of the new rows alone isn't the count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

DIALECT = "spark"
NEWS = "dbt_news"  # stands for new rows in the text that is parsed
NEUTRAL = (exp.Unnest, exp.Values)  # sources that read no table


def reads_nothing(source: exp.Expr) -> bool:
    """Whether what a query joins reads no table; `lateral` stands before a query of its own, too,
    not only before what makes rows of a value."""
    if isinstance(source, exp.Lateral):
        return not isinstance(source.this, (exp.Query, exp.Subquery))
    return isinstance(source, NEUTRAL)


COUNTED = (
    "aggregates the new rows alone, so that rows of earlier runs are missing from the result; sum "
    "them by materialized='folded', or rewrite whole partitions by changed_partitions(..)"
)
RANKED = (
    "compares the new rows among themselves alone (a window function, or a limit), so that rows of "
    "earlier runs are left out; keep the last row of each key by materialized='folded' with "
    "fold.sequence, or rewrite whole partitions by changed_partitions(..)"
)
DISTINCT = (
    "takes the distinct rows of the new rows alone, so that rows of earlier runs come again; take "
    "unseen_rows(..), or strategy 'merge'"
)
JOINED = (
    "joins new rows with new rows, so that a row finds no partner of another run; take a join "
    "macro (many_to_one_join, ..), or join the new rows with all rows of the other side"
)
OUTER = (
    "keeps rows of an outer join's other side that no new row matches, all of them in each run; "
    "take a join macro (many_to_one_join, ..), or make the new rows the side that is kept"
)
AGAIN = (
    "adds rows that aren't new, beside new rows or chosen by them, so that each "
    "run adds them again; take strategy 'merge', or changed_partitions(..)"
)
NUMBERED = (
    "numbers its rows by monotonically_increasing_id(), from 0 on in each run, so that rows of "
    "several runs get the same number; take uuid(), or a hash of the key (xxhash64(..))"
)
NUMBERING = "monotonically_increasing_id"


class UnreadableQuery(ValueError):
    """A query that can't be parsed."""


class QueryRows(IntEnum):
    """What a query's rows are; the highest counts where several come together."""

    OTHERS = 0  # of nothing that is new
    CHOSEN = 1  # others, chosen by new rows
    KEYS = 2  # distinct values of new rows
    NEW = 3  # each follows from a single new row


class NewsProblem(Exception):
    """Results of single runs that aren't those of all rows."""


def problem_of(sql: str, news: Collection[str], adds: bool) -> str | None:
    """Why the results of single runs aren't the result of all rows; None where they are, as far as
    the query shows.

    Args:
        sql: a statement of Spark SQL.
        news: its parts, for a `from`, that read what is new.
        adds: whether its rows are added to what is stored; else they are merged into it by a key.

    Raises:
        UnreadableQuery: it can't be parsed.

    >>> problem_of("select count(*) from (select * from x)", ["(select * from x)"], True) == COUNTED
    True
    """
    tree = parsed(sql, news, NEWS)
    if tree is None:
        return None
    try:
        rows = NewsReader(adds).rows_of(tree, {})
    except NewsProblem as problem:
        return str(problem)
    if adds and rows in (QueryRows.KEYS, QueryRows.CHOSEN):
        return DISTINCT if rows is QueryRows.KEYS else AGAIN
    return None


def follows_new_rows(sql: str, news: Collection[str]) -> bool:
    """Whether each row of a query follows from a single new row, as far as it shows; not where it
    can't be parsed.

    Args:
        sql, news: as in problem_of.
    """
    try:
        tree = parsed(sql, news, NEWS)
        return tree is not None and NewsReader(False).rows_of(tree, {}) in (
            QueryRows.NEW,
            QueryRows.KEYS,
        )
    except (UnreadableQuery, NewsProblem):
        return False


def parsed(sql: str, texts: Collection[str], name: str) -> exp.Expr | None:
    """A statement with a table `name` in place of some of its parts; None where it has none of
    them: a macro has kept what they read under another name.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    for text in sorted(texts, key=len, reverse=True):
        sql = sql.replace(text, f" {name} ")
    return _parsed(sql) if name in sql else None


@lru_cache(maxsize=16)
def _parsed(sql: str) -> exp.Expr:
    """A statement's tree, which its readers share and don't change: a node's query is looked at up
    to four times."""
    try:
        tree = parse_one(sql, dialect=DIALECT)
    except (SqlglotError, RecursionError) as exc:
        raise UnreadableQuery(str(exc)) from exc
    if not isinstance(tree, exp.Query):
        raise UnreadableQuery("It is no query.")
    _unfold_joins(tree)
    return tree


def _unfold_joins(tree: exp.Expr) -> None:
    """Let joins in parentheses, and those of a query that begins with `from`, stand where others
    do: the parser keeps them in their first table."""
    for table in [*tree.find_all(exp.Table)]:
        joins = table.args.get("joins")
        if not joins:
            continue
        table.set("joins", None)
        around = table.parent
        if isinstance(around, exp.From) and isinstance(around.parent, exp.Select):
            select = around.parent
            select.set("joins", [*joins, *(select.args.get("joins") or [])])
        else:
            joined = exp.select("*").from_(table.copy())
            joined.set("joins", joins)
            table.replace(joined)


class NewsReader:
    """Follows new rows through the parts of a statement."""

    counted, ranked, again = COUNTED, RANKED, AGAIN

    def __init__(self, adds: bool) -> None:
        self.adds = adds

    def rows_of(self, query: exp.Expr, ctes: Mapping[str, QueryRows]) -> QueryRows:
        """What the rows of a query are.

        Args:
            ctes: name -> what the rows of that CTE are.

        Raises:
            NewsProblem: they don't follow from single new rows.
        """
        ctes = dict(ctes)
        for cte in query.args["with_"].expressions if query.args.get("with_") else ():
            name = cte.alias.lower()
            ctes.pop(name, None)
            if query.args["with_"].recursive and isinstance(cte.this, exp.SetOperation):
                ctes[name] = self.rows_of(cte.this.left, ctes)  # what it begins with
            ctes[name] = self.rows_of(cte.this, ctes)
        if isinstance(query, exp.Subquery):
            rows = self._of_source(query, ctes)
            self._check_limit(query, rows)
            return rows
        if isinstance(query, exp.SetOperation):
            return self._of_set(query, ctes)
        if isinstance(query, exp.Select):
            return self._of_select(query, ctes)
        return QueryRows.OTHERS

    def _of_set(self, query: exp.SetOperation, ctes: Mapping[str, QueryRows]) -> QueryRows:
        parts = [self.rows_of(query.left, ctes), self.rows_of(query.right, ctes)]
        rows = max(parts)
        self._check_limit(query, rows)
        if rows is not QueryRows.NEW:
            return rows
        if not isinstance(query, exp.Union):
            if parts[1] is QueryRows.NEW:
                raise NewsProblem(self.ranked)
            return QueryRows.KEYS
        if self.adds and min(parts) is not QueryRows.NEW:
            raise NewsProblem(self.again)
        return QueryRows.KEYS if query.args.get("distinct") else rows

    def _of_source(self, source: exp.Expr, ctes: Mapping[str, QueryRows]) -> QueryRows:
        if isinstance(source, exp.Table):
            name = source.name.lower()
            rows = QueryRows.NEW if name == NEWS else ctes.get(name, QueryRows.OTHERS)
        elif isinstance(source, (exp.Lateral, exp.Subquery)):
            rows = self._of_source(source.this, ctes)
        else:
            rows = self.rows_of(source, ctes)
        if rows is QueryRows.NEW and takes_some(source):
            raise NewsProblem(self.ranked)
        pivots = source.args.get("pivots") or ()
        if rows is QueryRows.NEW and any(not pivot.args.get("unpivot") for pivot in pivots):
            raise NewsProblem(self.counted)
        return rows

    def _of_select(self, query: exp.Select, ctes: Mapping[str, QueryRows]) -> QueryRows:
        where = query.args.get("where")
        if where is not None and isinstance(where.this, exp.Boolean) and not where.this.this:
            return QueryRows.NEW  # it has no row
        first = query.args.get("from_")
        rows = self._of_source(first.this, ctes) if first else QueryRows.OTHERS
        for join in query.args.get("joins") or ():
            if not reads_nothing(join.this):
                rows = self._joined(rows, self._of_source(join.this, ctes), join)
        looked_up = max(
            (self.rows_of(inner, ctes) for inner in subqueries(query)), default=QueryRows.OTHERS
        )
        if rows is QueryRows.NEW and looked_up > QueryRows.CHOSEN:
            raise NewsProblem(JOINED)
        if rows is QueryRows.OTHERS and looked_up is not QueryRows.OTHERS:
            rows = QueryRows.CHOSEN
        self._check_limit(query, rows)
        if rows is not QueryRows.NEW:
            return rows
        if numbers_rows(query):
            raise NewsProblem(NUMBERED)
        return self.of_new_rows(query)

    def of_new_rows(self, query: exp.Select) -> QueryRows:
        """What a select makes of new rows."""
        found = [*own_parts(query)]
        if any(isinstance(item, exp.Window) for item in found):
            raise NewsProblem(self.ranked)
        if any(map(is_aggregate, found)) or query.args.get("having"):
            raise NewsProblem(self.counted)
        is_grouped = query.args.get("group") is not None
        if is_grouped and any(isinstance(item, exp.Anonymous) for item in found):
            raise NewsProblem(self.counted)
        return QueryRows.KEYS if is_grouped or query.args.get("distinct") else QueryRows.NEW

    def _joined(self, left: QueryRows, right: QueryRows, join: exp.Join) -> QueryRows:
        new, kind, side = QueryRows.NEW, join.kind.upper(), join.side.upper()
        if kind in ("SEMI", "ANTI"):
            if right > QueryRows.CHOSEN and left is new:
                raise NewsProblem(JOINED)
            return left if right is QueryRows.OTHERS else max(left, QueryRows.CHOSEN)
        if new in (left, right) and min(left, right) > QueryRows.CHOSEN:
            raise NewsProblem(JOINED)
        keeps_left, keeps_right = side in ("LEFT", "FULL"), side in ("RIGHT", "FULL")
        if (right is new and keeps_left) or (left is new and keeps_right):
            raise NewsProblem(OUTER)
        if new in (left, right):
            return new
        rows = max(left, right)
        return QueryRows.CHOSEN if rows is QueryRows.KEYS and min(left, right) < rows else rows

    def _check_limit(self, query: exp.Expr, rows: QueryRows) -> None:
        if rows is QueryRows.NEW and (query.args.get("limit") or query.args.get("offset")):
            raise NewsProblem(self.ranked)


def own_parts(query: exp.Select) -> Iterator[exp.Expr]:
    """What stands in a select's columns and conditions, not within a query of its own."""
    parts = [
        *query.expressions,
        *(query.args.get(name) for name in ("where", "having", "qualify", "order", "group")),
    ]
    for part in parts:
        if part is not None:
            yield from part.walk(prune=lambda item: isinstance(item, exp.Query))


def numbers_rows(query: exp.Select) -> bool:
    """Whether a select numbers its rows, which begins at 0 in each run."""
    unknown = (item for item in own_parts(query) if isinstance(item, exp.Anonymous))
    return any(item.name.lower() == NUMBERING for item in unknown)


def takes_some(source: exp.Expr) -> bool:
    """Whether a select takes a number of a source's rows (`tablesample (10 rows)`); a share of them
    is taken of each run's rows as of all."""
    sample = source.args.get("sample")
    return sample is not None and sample.args.get("size") is not None


def subqueries(query: exp.Select) -> Iterator[exp.Expr]:
    """Queries in a select's columns and conditions, those of its joins among them."""
    for item in own_parts(query):
        if isinstance(item, exp.Query):
            yield item
    for join in query.args.get("joins") or ():
        condition = join.args.get("on")
        if condition is not None:
            for item in condition.walk(prune=lambda part: isinstance(part, exp.Query)):
                if isinstance(item, exp.Query):
                    yield item
