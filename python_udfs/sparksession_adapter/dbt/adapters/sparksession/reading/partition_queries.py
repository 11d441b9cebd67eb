"""What a query makes of changed partitions: whether the rows of a partition follow from the rows of
that partition alone.

A model that rewrites the partitions that changed reads no row of the others. A running total over
all days, or the day before's value, isn't there to be found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.news_queries import NUMBERED
from dbt.adapters.sparksession.reading.query_parts import (
    UnreadableQuery,
    cte_of,
    equalities,
    given_names,
    joins_of,
    label_of,
    named_columns,
    names_in_query,
    numbers_rows,
    origin_of_column,
    own_parts,
    parsed,
    pivots_of,
    query_behind,
    sources_of,
    subqueries,
    taken_by_star,
    takes_some,
    without_cast,
)
from dbt.adapters.sparksession.sql import unquoted
from sqlglot import exp

__all__ = ["UnreadableQuery", "problem_of_partitions"]

CHANGED = "dbt_changed_partitions"  # stands for them in the text that is parsed
Carrying = frozenset[str]  # columns that have the partition's value
Sources = Mapping[str, Carrying]  # alias -> such columns of it; "" stands for any table
COALESCED = "coalesce()"  # alias of the columns that either of two sides has
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
MOVED = (
    "gives no column that has {by} of its rows as it is, so that they may lie in other partitions; "
    "let it give {by}"
)
INSTEAD = ", or read all rows by pinned(..) under strategy 'replace_all'"


class PartialRows(Exception):
    """Rows that don't follow from those of a single partition."""


def problem_of_partitions(sql: str, changed: Collection[str], by: str) -> str | None:
    """Why the rows that a query gives for a partition don't follow from the partition alone; None
    where they do, as far as the query shows: where it makes the partition of other columns (the
    day of a time), that isn't followed.

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
        name = unquoted(by).lower()
        columns = CarryingReader(name).columns_of(tree, {})
        if columns is None:
            return None
        is_given = name in columns if name in names_in_query(tree) else bool(columns)
        if not is_given and _is_another(origin_of_column(tree, name)):
            raise PartialRows(MOVED)
    except PartialRows as problem:
        return str(problem).format(by=by) + INSTEAD
    return None


def _is_another(origin: exp.Expr) -> bool:
    """Whether a partition's column is another column, a constant, or made of several rows: no
    expression that may have the partition's value in it."""
    parts = [*origin.walk()]
    is_made = any(is_aggregate(part) or isinstance(part, exp.Window) for part in parts)
    is_constant = not any(isinstance(part, exp.Column) for part in parts)
    return is_made or is_constant or isinstance(without_cast(origin), exp.Column)


class CarryingReader:
    """Follows the partitions' column through the parts of a statement."""

    ranked, counted, joined = RANKED, COUNTED, JOINED
    strict = False  # whether rows are looked at whose query has left the column out

    def __init__(self, by: str) -> None:
        self._by = by
        self._carrying: dict[int, Sources] = {}  # of selects, by their ids

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
            ctes[name] = _renamed(cte, cte.this, self.columns_of(cte.this, ctes))
        if isinstance(query, exp.Table):
            columns = _renamed(query, cte_of(query), self._of_table(query, ctes))
        elif isinstance(query, (exp.Lateral, exp.Subquery)):
            columns = _renamed(query, query.this, self.columns_of(query.this, ctes))
        elif isinstance(query, exp.SetOperation):
            columns = self._of_set(query, ctes)
        elif isinstance(query, exp.Select):
            columns = self._of_select(query, ctes)
        else:
            return None
        is_part = query.args.get("limit") or query.args.get("offset") or takes_some(query)
        if columns is not None and is_part:
            raise PartialRows(self.ranked)
        return columns if columns is None else self._pivoted(query, columns)

    def _pivoted(self, source: exp.Expr, columns: Carrying) -> Carrying:
        """Columns that are left of a source's behind its pivots, which group rows by all that they
        don't name.

        Raises:
            PartialRows: groups of several partitions.
        """
        pivots = pivots_of(source)
        named = {item.name.lower() for pivot in pivots for item in pivot.find_all(exp.Column)}
        if pivots and not columns - named and (columns or self.strict):
            raise PartialRows(self.counted)
        return columns - named

    def _of_table(self, table: exp.Table, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        name = table.name.lower()
        return frozenset({self._by}) if name == CHANGED else ctes.get(name)

    def _of_set(
        self, query: exp.SetOperation, ctes: Mapping[str, Carrying | None]
    ) -> Carrying | None:
        left, right = self.columns_of(query.left, ctes), self.columns_of(query.right, ctes)
        if left is None or right is None:
            return left if right is None else right
        names, others = names_in_query(query.left), names_in_query(query.right)
        if "*" in (*names, *others):
            columns = left & right
        else:
            pairs = zip(names, others, strict=False)
            columns = frozenset(name for name, other in pairs if name in left and other in right)
        if not columns and not isinstance(query, exp.Union):
            raise PartialRows(self.ranked)
        return columns

    def _of_select(self, query: exp.Select, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        joins, sources = joins_of(query), sources_of(query)
        found = [self.columns_of(item, ctes) for item in sources]
        pairs = zip(sources, found, strict=True)
        carrying: Sources = {
            label_of(item): columns for item, columns in pairs if columns is not None
        }
        self._carrying[id(query)] = carrying
        looked_up = [(inner, self.columns_of(inner, ctes)) for inner in subqueries(query)]
        kept = _equal(query, joins, _kept(joins, carrying))
        for inner, columns in looked_up:
            if columns is None:
                continue
            if not carrying:  # rows of another table, of the same partitions
                carrying = kept = self._chosen_by(inner, columns)
            elif not self._looks_up_by(inner, columns, kept):
                raise PartialRows(self.joined)
        if not carrying:
            return None
        for join, columns in zip(joins, found[1:], strict=True):
            if len(carrying) > 1 and columns is not None and not joins_by(join, query, carrying):
                raise PartialRows(self.joined)
        self._check(query, kept)
        return self._selected(query, kept)

    def _chosen_by(self, inner: exp.Expr, columns: Carrying) -> Sources:
        """The columns of a select that have the partition's value by a condition on changed
        partitions.

        Args:
            inner: the query within the condition.
            columns: those of `inner` that have the partition's value.

        Raises:
            PartialRows: the condition asks for something else.
        """
        asks = inner.find_ancestor(exp.In, exp.Exists, exp.Select)
        parent = asks.parent if asks is not None else None
        sides: list[exp.Expr] = []
        if isinstance(asks, exp.In) and names_in_query(inner)[:1] == [*columns][:1]:
            sides = [asks.this]
        elif isinstance(asks, exp.Exists) and isinstance(inner, exp.Select):
            own = self._carrying.get(id(inner), {})
            sides = [
                other
                for pair in equalities(inner.args.get("where"))
                for mine, other in (pair, pair[::-1])
                if carries(mine, own) and not carries(other, own)
            ]
        found = [side for side in map(without_cast, sides) if isinstance(side, exp.Column)]
        if not found or isinstance(parent, (exp.Not, exp.Or)):
            raise PartialRows(self.joined)
        return {side.table.lower(): frozenset({side.name.lower()}) for side in found}

    def _looks_up_by(self, inner: exp.Expr, columns: Carrying, carrying: Sources) -> bool:
        """Whether a query within another finds rows of the same partition alone.

        Args:
            columns: those of `inner` that have the partition's value.
            carrying: those of the query around it.
        """
        asks = inner.find_ancestor(exp.In, exp.Select)
        if isinstance(asks, exp.In) and carries(asks.this, carrying):
            names = names_in_query(inner)
            return len(names) == 1 and names[0] in columns
        query = query_behind(inner)[0]
        own = self._carrying.get(id(query), {})
        return isinstance(query, exp.Select) and any(
            carries(mine, own) and carries(other, carrying, qualified=True)
            for pair in equalities(query.args.get("where"))
            for mine, other in (pair, pair[::-1])
        )

    def _check(self, query: exp.Select, carrying: Sources) -> None:
        """Look at what a select compares and counts.

        Raises:
            PartialRows: rows of several partitions.
        """
        if numbers_rows(query):
            raise PartialRows(NUMBERED)
        if not self.strict and not any(carrying.values()):
            return
        parts = [*own_parts(query)]
        for window in (item for item in parts if isinstance(item, exp.Window)):
            if not any(carries(item, carrying) for item in window.args.get("partition_by") or ()):
                raise PartialRows(self.ranked)
        windowed = {id(item.this) for item in parts if isinstance(item, exp.Window)}
        counts = any(is_aggregate(item) and id(item) not in windowed for item in parts)
        group = query.args.get("group")
        if group is None:
            if counts and not _is_tied(query, carrying):
                raise PartialRows(self.counted)
            return
        if not any(carries(item, carrying) for item in grouped_by(query, group)):
            raise PartialRows(self.counted)

    def _selected(self, query: exp.Select, carrying: Sources) -> Carrying:
        names = set[str]()
        for name, item in named_columns(query):
            if item.is_star:
                table, _ = taken_by_star(item)
                for alias, columns in carrying.items():
                    names |= columns if not table or alias in ("", table) else frozenset()
            elif carries(item.unalias(), carrying):
                names.add(name)
        return frozenset(names)


def _renamed(source: exp.Expr, query: exp.Expr | None, columns: Carrying | None) -> Carrying | None:
    """Columns of a query under the names that they get where it stands.

    Args:
        source: what gives the names.
    """
    given = given_names(source)
    if not given or columns is None:
        return columns
    names = names_in_query(query) if query is not None else []
    pairs = zip(names, given, strict=False)
    return frozenset(new for old, new in pairs if old in columns)


def joins_by(join: exp.Join, query: exp.Select, carrying: Sources) -> bool:
    """Whether a join's sides have the same partition, as far as its condition shows."""
    using = {item.name.lower() for item in join.args.get("using") or ()}
    own = label_of(join.this)
    others = {alias: columns for alias, columns in carrying.items() if alias != own}
    mine = {own: carrying[own]}
    if any(using & columns & carrying[own] for columns in others.values()):
        return True
    pairs = [*equalities(join.args.get("on")), *equalities(query.args.get("where"))]
    return any(
        (carries(left, mine) and carries(right, others))
        or (carries(left, others) and carries(right, mine))
        for left, right in pairs
    )


def _kept(joins: Iterable[exp.Join], carrying: Sources) -> Sources:
    """The sources without those in whose place an outer join puts nulls. Of a full join the first
    value that isn't null of both sides is left."""
    kept = dict(carrying)
    for join in joins:
        own, side = label_of(join.this), join.side.upper()
        if side == "LEFT":
            kept.pop(own, None)
        elif side == "RIGHT":
            kept = {own: kept[own]} if own in kept else {}
        elif side == "FULL":
            is_whole = own in kept and len(kept) > 1
            kept = {COALESCED: frozenset().union(*kept.values())} if is_whole else {}
    return kept


def _equal(query: exp.Select, joins: Iterable[exp.Join], carrying: Sources) -> Sources:
    """The sources' columns with those that the select asks to be equal to them."""
    pairs = equalities(query.args.get("where"))
    for join in joins:
        pairs += [] if join.side else equalities(join.args.get("on"))
    found = dict(carrying)
    for pair in pairs:
        for side, other in (pair, pair[::-1]):
            if carries(side, carrying) and isinstance(other, exp.Column):
                table = other.table.lower()
                found[table] = found.get(table, frozenset()) | {other.name.lower()}
    return found


def _is_tied(query: exp.Select, carrying: Sources) -> bool:
    """Whether a query within another reads a single partition, that of the row around it."""
    own = {label_of(item) for item in sources_of(query)}
    return any(
        carries(side, carrying) and isinstance(other, exp.Column) and other.table.lower() not in own
        for pair in equalities(query.args.get("where"))
        for side, other in (pair, pair[::-1])
        if isinstance(other, exp.Column) and other.table
    )


def carries(item: exp.Expr, carrying: Sources, qualified: bool = False) -> bool:
    """Whether an expression has the partition's value.

    Args:
        qualified: whether a column counts only where its table's name stands before it.
    """
    if isinstance(item, exp.Column):
        table, name = item.table.lower(), item.name.lower()
        if table:
            return name in carrying.get(table, ()) or name in carrying.get("", ())
        return not qualified and any(name in columns for columns in carrying.values())
    if isinstance(item, (exp.Cast, exp.TryCast, exp.Paren)):
        return carries(item.this, carrying, qualified)
    if isinstance(item, exp.Coalesce):
        parts = (item.this, *item.expressions)
        whole = carrying.get(COALESCED, frozenset())
        return all(
            carries(part, carrying, qualified)
            or (isinstance(part, exp.Column) and part.name.lower() in whole)
            for part in parts
        )
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
