"""What a query makes of new rows: whether the results of single runs are those of all rows at once.

A filter, an expression or a look-up treats each row by itself, so that the runs' results together
are the result of all rows. A count of the new rows alone isn't the count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.query_parts import (
    NEWS,
    UnreadableQuery,
    cte_of,
    equated_columns,
    in_tables,
    joins_of,
    keeps_all,
    label_of,
    names_in_query,
    numbers_rows,
    own_parts,
    parsed,
    pivots_of,
    query_behind,
    sources_of,
    subqueries,
    takes_some,
)
from sqlglot import exp

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
UNSEEN = (
    "leaves out rows that unseen_rows(..) found, so that a later copy of such a row is taken for "
    "new; leave them out by columns of the key, in a view that unseen_rows reads, or where the "
    "model is read"
)


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
    if adds and rows is not QueryRows.NEW:
        return DISTINCT if rows is QueryRows.KEYS else AGAIN
    return None


def problem_of_unseen(sql: str, news: Collection[str], key: Collection[str]) -> str | None:
    """Why a query loses rows that the model's own table doesn't hold; None where it leaves out none
    of them, but by their key.

    Args:
        sql, news: as in problem_of.
        key: columns by which they are looked up in the model's own table.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    tree = parsed(sql, news, NEWS)
    keys = {name.lower() for name in key}
    for query in tree.find_all(exp.Select) if tree is not None else ():
        sources = sources_of(query)
        if not any(map(reads_news, sources)):
            continue
        if not all(map(keeps_all, joins_of(query))):
            return UNSEEN
        for name in ("where", "having", "qualify"):
            condition = query.args.get(name)
            made_of = in_tables(condition, sources).find_all(exp.Column) if condition else ()
            if any(column.name.lower() not in keys for column in made_of):
                return UNSEEN
    return None


def reads_news(source: exp.Expr) -> bool:
    """Whether what stands in a `from` reads new rows, also by the name of a CTE."""
    waiting, seen = [source], set[int]()
    while waiting:
        for table in waiting.pop().find_all(exp.Table):
            cte = cte_of(table)
            if table.name.lower() == NEWS:
                return True
            if cte is not None and id(cte) not in seen:
                seen.add(id(cte))
                waiting.append(cte)
    return False


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
        if isinstance(query, exp.Except) and parts[1] > QueryRows.OTHERS:
            raise NewsProblem(self.ranked)
        if rows <= QueryRows.CHOSEN:
            return rows
        if not isinstance(query, exp.Union):
            if parts[1] > QueryRows.CHOSEN:
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
        if rows > QueryRows.CHOSEN and takes_some(source):
            raise NewsProblem(self.ranked)
        if rows > QueryRows.CHOSEN and pivots_of(source):
            raise NewsProblem(self.counted)
        return rows

    def _of_part(
        self, source: exp.Expr, query: exp.Select, ctes: Mapping[str, QueryRows]
    ) -> QueryRows:
        """What the rows are of a part that a select reads. Distinct new rows choose what they are
        joined with where they have no other columns than those that they are joined by."""
        rows = self._of_source(source, ctes)
        if rows is not QueryRows.KEYS or len(sources_of(query)) == 1:
            return rows
        found, name = query_behind(source)[0], label_of(source)
        columns = {*names_in_query(found)} if found is not None else {"*"}
        if columns <= equated_columns(query, name):
            return rows
        if self.adds:
            raise NewsProblem(DISTINCT)
        return QueryRows.NEW

    def _of_select(self, query: exp.Select, ctes: Mapping[str, QueryRows]) -> QueryRows:
        where = query.args.get("where")
        if where is not None and isinstance(where.this, exp.Boolean) and not where.this.this:
            return QueryRows.NEW  # it has no row
        first = query.args.get("from_")
        rows = self._of_part(first.this, query, ctes) if first else QueryRows.OTHERS
        of_new = int(rows > QueryRows.CHOSEN)
        for join in joins_of(query):
            part = self._of_part(join.this, query, ctes)
            of_new += part > QueryRows.CHOSEN
            rows = self._joined(rows, part, join)
        if of_new > 1:  # also where new rows choose by a semi join what others are joined with
            raise NewsProblem(JOINED)
        looked_up = QueryRows.OTHERS
        for inner in subqueries(query):
            looked_up = max(looked_up, self.rows_of(inner, ctes))
            self.looks_up(inner)
        if min(rows, looked_up) > QueryRows.OTHERS:
            raise NewsProblem(JOINED)
        if rows is QueryRows.OTHERS and looked_up is not QueryRows.OTHERS:
            rows = QueryRows.CHOSEN
        self._check_limit(query, rows)
        if rows is QueryRows.CHOSEN:
            self.chooses(query)
        if rows <= QueryRows.CHOSEN:
            return rows
        if numbers_rows(query):
            raise NewsProblem(NUMBERED)
        return min(rows, self.of_new_rows(query))

    def looks_up(self, inner: exp.Expr) -> None:
        """Look at a query within a select's columns or conditions.

        Raises:
            NewsProblem: what it finds isn't what it would find in all rows.
        """

    def chooses(self, query: exp.Select) -> None:
        """Look at a select of rows that new rows choose.

        Raises:
            NewsProblem: it isn't new rows that choose them, but what was made of these.
        """

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
        kind, side = join.kind.upper(), join.side.upper()
        if min(left, right) > QueryRows.CHOSEN:
            raise NewsProblem(JOINED)
        if kind in ("SEMI", "ANTI"):
            return left if right is QueryRows.OTHERS else max(left, QueryRows.CHOSEN)
        keeps_left, keeps_right = keeps_all(join), side in ("RIGHT", "FULL")
        if (keeps_left and left < right) or (keeps_right and right < left):
            raise NewsProblem(OUTER)
        rows = max(left, right)
        return QueryRows.CHOSEN if rows is QueryRows.KEYS else rows

    def _check_limit(self, query: exp.Expr, rows: QueryRows) -> None:
        is_part = query.args.get("limit") or query.args.get("offset") or takes_some(query)
        if rows > QueryRows.CHOSEN and is_part:
            raise NewsProblem(self.ranked)
