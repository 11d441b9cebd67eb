"""What a query makes of changed partitions: whether the rows of a partition follow from the rows of
that partition alone.

A model that rewrites the partitions that changed reads no row of the others. A running total over
all days, or the day before's value, isn't there to be found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.news_queries import (
    NUMBERED,
    UnreadableQuery,
    numbers_rows,
    own_parts,
    parsed,
    reads_nothing,
    subqueries,
    takes_some,
)
from sqlglot import exp

__all__ = ["UnreadableQuery", "problem_of_partitions"]

CHANGED = "dbt_changed_partitions"  # stands for them in the text that is parsed
Carrying = frozenset[str]  # columns that have the partition's value
RANKED = (
    "compares rows of the changed partitions alone (a window function that isn't partitioned by "
    "{by}, or a limit), so that rows of other partitions are missing; partition the window by {by}"
)
COUNTED = (
    "aggregates rows of several changed partitions, so that rows of others are missing from the "
    "result; group them by {by}"
)
JOINED = (
    "joins changed partitions with each other, not by {by}, so that a row finds no partner in "
    "another partition; join them by {by}, or read one side by pinned(..)"
)
INSTEAD = ", or read all rows by pinned(..) under strategy 'replace_all'"


class PartialRows(Exception):
    """Rows that don't follow from those of a single partition."""


def problem_of_partitions(sql: str, changed: Collection[str], by: str) -> str | None:
    """Why the rows that a query gives for a partition don't follow from the partition alone; None
    where they do, as far as the query shows: what it makes of another column than `by` isn't
    followed.

    Args:
        sql: a statement of Spark SQL.
        changed: its parts, for a `from`, that read changed partitions.
        by: the column that the partitions go by.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    tree = parsed(sql, changed, CHANGED)
    if tree is None:
        return None
    try:
        CarryingReader(by.lower()).columns_of(tree, {})
    except PartialRows as problem:
        return str(problem).format(by=by) + INSTEAD
    return None


class CarryingReader:
    """Follows the partitions' column through the parts of a statement."""

    ranked, counted = RANKED, COUNTED

    def __init__(self, by: str) -> None:
        self._by = by

    def columns_of(self, query: exp.Expr, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        """The columns of a query that have the partition's value; None where its rows are of no
        changed partition.

        Args:
            ctes: name -> the same of that CTE.

        Raises:
            PartialRows: its rows don't follow from those of a single partition.
        """
        ctes = dict(ctes)
        for cte in query.args["with_"].expressions if query.args.get("with_") else ():
            name = cte.alias.lower()
            ctes.pop(name, None)
            if query.args["with_"].recursive and isinstance(cte.this, exp.SetOperation):
                ctes[name] = self.columns_of(cte.this.left, ctes)
            ctes[name] = self.columns_of(cte.this, ctes)
        if isinstance(query, exp.Table):
            columns = self._of_table(query, ctes)
        elif isinstance(query, (exp.Lateral, exp.Subquery)):
            columns = self.columns_of(query.this, ctes)
        elif isinstance(query, exp.SetOperation):
            columns = self._of_set(query, ctes)
        elif isinstance(query, exp.Select):
            columns = self._of_select(query, ctes)
        else:
            return None
        is_part = query.args.get("limit") or query.args.get("offset") or takes_some(query)
        if columns is not None and is_part:
            raise PartialRows(self.ranked)
        return columns

    def _of_table(self, table: exp.Table, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        name = table.name.lower()
        return frozenset({self._by}) if name == CHANGED else ctes.get(name)

    def _of_set(
        self, query: exp.SetOperation, ctes: Mapping[str, Carrying | None]
    ) -> Carrying | None:
        left, right = self.columns_of(query.left, ctes), self.columns_of(query.right, ctes)
        if left is None or right is None:
            return left if right is None else right
        names, others = _names(query.left), _names(query.right)
        if "*" in (*names, *others):
            return left & right
        pairs = zip(names, others, strict=False)
        return frozenset(name for name, other in pairs if name in left and other in right)

    def _of_select(self, query: exp.Select, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        first = query.args.get("from_")
        joins = [join for join in query.args.get("joins") or () if not reads_nothing(join.this)]
        sources = [first.this] if first else []
        found = [self.columns_of(item, ctes) for item in (*sources, *(join.this for join in joins))]
        for inner in subqueries(query):
            self.columns_of(inner, ctes)
        known = [columns for columns in found if columns is not None]
        if not known:
            return None
        carrying = frozenset().union(*known)
        for join, columns in zip(joins, found[1:], strict=True):
            if len(known) > 1 and columns is not None and not self._joins_by(join, query, carrying):
                raise PartialRows(JOINED)
        self._check(query, carrying)
        return self._selected(query, carrying)

    def _joins_by(self, join: exp.Join, query: exp.Select, carrying: Carrying) -> bool:
        """Whether a join's sides have the same partition, as far as its condition shows."""
        using = join.args.get("using") or ()
        if any(item.name.lower() in carrying for item in using):
            return True
        conditions = [item for item in (join.args.get("on"), query.args.get("where")) if item]
        return any(
            carries(pair.left, carrying) and carries(pair.right, carrying)
            for condition in conditions
            for pair in condition.find_all(exp.EQ, exp.NullSafeEQ)
        )

    def _check(self, query: exp.Select, carrying: Carrying) -> None:
        """Look at what a select compares and counts.

        Raises:
            PartialRows: rows of several partitions.
        """
        if numbers_rows(query):
            raise PartialRows(NUMBERED)
        if not carrying:  # the column has become another, which isn't followed
            return
        parts = [*own_parts(query)]
        for window in (item for item in parts if isinstance(item, exp.Window)):
            if not any(carries(item, carrying) for item in window.args.get("partition_by") or ()):
                raise PartialRows(self.ranked)
        windowed = {id(item.this) for item in parts if isinstance(item, exp.Window)}
        counts = any(is_aggregate(item) and id(item) not in windowed for item in parts)
        group = query.args.get("group")
        if group is None:
            if counts:
                raise PartialRows(self.counted)
            return
        if not any(carries(item, carrying) for item in grouped_by(query, group)):
            raise PartialRows(self.counted)

    def _selected(self, query: exp.Select, carrying: Carrying) -> Carrying:
        names = set[str]()
        for item in query.expressions:
            if item.is_star:
                names |= carrying
            elif carries(item.unalias(), carrying):
                names.add(item.alias_or_name.lower())
        return frozenset(names)


def carries(item: exp.Expr, carrying: Carrying) -> bool:
    """Whether an expression has the partition's value."""
    if isinstance(item, exp.Column):
        return item.name.lower() in carrying
    if isinstance(item, (exp.Cast, exp.TryCast, exp.Paren)):
        return carries(item.this, carrying)
    if isinstance(item, exp.Coalesce):
        return all(carries(part, carrying) for part in (item.this, *item.expressions))
    return False


def grouped_by(query: exp.Select, group: exp.Group) -> list[exp.Expr]:
    """What the rows of a select are grouped by, also by a column's number or new name."""
    columns = query.expressions
    if group.args.get("all"):
        return [item.unalias() for item in columns]
    by_name = {item.alias.lower(): item.unalias() for item in columns if item.alias}
    found = []
    for item in group.expressions:
        if isinstance(item, exp.Literal) and item.is_int and int(item.name) <= len(columns):
            found.append(columns[int(item.name) - 1].unalias())
        else:
            found += [item, *([by_name[item.name.lower()]] if item.name.lower() in by_name else [])]
    for sets in ("grouping_sets", "cube", "rollup"):
        for grouping in group.args.get(sets) or ():
            # a total over all partitions is among them
            found = [] if sets != "grouping_sets" or not grouping.expressions else found
    return found


def _names(query: exp.Expr) -> list[str]:
    return [name.lower() for name in getattr(query, "named_selects", [])]
