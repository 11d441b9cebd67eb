"""What the query of a keyed table makes of new rows: whether its fold puts the results of single
runs together to what all rows give at once.

A fold adds sums up, keeps the highest or the last value. So a query may sum what the fold sums; a
count of the new rows that the fold keeps as a last value isn't the count.
"""

from __future__ import annotations

from collections.abc import Collection

from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.groups import Aggregate
from dbt.adapters.sparksession.keyed.zippers import Zipper
from dbt.adapters.sparksession.reading.news_queries import (
    DISTINCT,
    NEWS,
    NewsProblem,
    NewsReader,
    QueryRows,
    own_parts,
    parsed,
)
from sqlglot import exp

COUNTED = (
    "aggregates the new rows to {column}, which its fold doesn't put together with what earlier "
    "runs gave; let the fold aggregate the rows (fold.aggregates), which takes a sum of sums and "
    "counts, a max of max and a min of min too"
)
RANKED = (
    "compares the new rows among themselves alone (a window function, or a limit), so that rows of "
    "earlier runs are left out; let fold.sequence keep the last row of each key, or rank the rows "
    "in a view over the keyed table"
)
AGAIN = (
    "gives its fold to count rows that aren't new, beside new rows or chosen by them, so that each "
    "run counts them again; read what is new alone"
)
ALL_AGAIN = (
    "gives its fold all rows of its inputs to count, and each run would count them again; read "
    "what is new by new_rows(..) or new_changes(..)"
)
ADDED = ("sum", "count", "listagg")  # functions by which a row that comes twice counts twice
# a query's function -> the fold's functions that put its results together
PUT_TOGETHER: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Sum: ("sum",),
    exp.Count: ("sum",),
    exp.CountIf: ("sum",),
    exp.Max: ("max",),
    exp.Min: ("min",),
    exp.LogicalAnd: ("bool_and",),
    exp.LogicalOr: ("bool_or",),
}
OF_ARRAYS = (exp.ArrayAgg, exp.ArrayUniqueAgg)
OF_BITMAPS = "bitmap_or"


def counts_rows(fold: Fold | Zipper) -> bool:
    """Whether a row that comes twice counts twice.

    Args:
        fold: bound to its columns.
    """
    if not isinstance(fold, Fold):
        return False
    by_count = (item.counts or item.function in ADDED for item in fold.aggregates.values())
    return fold.count_rows or any(by_count)


def problem_of_fold(sql: str, news: Collection[str], fold: Fold | Zipper) -> str | None:
    """Why a fold doesn't put the results of single runs together to the result of all rows; None
    where it does, as far as the query shows.

    Args:
        sql, news: as in problem_of.
        fold: bound to its columns.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    tree = parsed(sql, news, NEWS)
    if tree is None:
        return None
    counts = counts_rows(fold)
    try:
        rows = _FoldReader(fold, counts).rows_of(tree, {})
    except NewsProblem as problem:
        return str(problem)
    if counts and rows in (QueryRows.KEYS, QueryRows.CHOSEN):
        return DISTINCT if rows is QueryRows.KEYS else AGAIN
    return None


class _FoldReader(NewsReader):
    """Follows new rows through the parts of a statement whose rows a fold puts together."""

    counted, ranked, again = COUNTED.format(column="groups"), RANKED, AGAIN

    def __init__(self, fold: Fold | Zipper, counts: bool) -> None:
        super().__init__(counts)
        self._fold = fold
        self._aggregates: dict[str, Aggregate] = {}
        self._order = tuple(name.lower() for name in _order_of(fold))
        self._orders, self._descending = {*self._order}, set[str]()
        if isinstance(fold, Fold):
            self._aggregates = {name.lower(): item for name, item in fold.aggregates.items()}
            for group in fold.all_groups:
                self._orders |= {name.lower() for name in (*group.sequence, *group.tie_break)}
                self._descending |= {name.lower() for name in group.descending}

    def of_new_rows(self, query: exp.Select) -> QueryRows:
        found = [*own_parts(query)]
        windows = [item for item in found if isinstance(item, exp.Window)]
        if not all(map(self._keeps_last, windows)):
            raise NewsProblem(RANKED)
        within = {id(part) for item in windows for part in item.walk()}
        aggregating = (exp.AggFunc, exp.AnonymousAggFunc)
        is_grouped, aggregates = query.args.get("group") is not None, False
        if query.args.get("having"):
            raise NewsProblem(self.counted)
        for item in query.expressions:
            parts = [part for part in item.walk() if id(part) not in within]
            unknown = is_grouped and any(isinstance(part, exp.Anonymous) for part in parts)
            if unknown or any(isinstance(part, aggregating) for part in parts):
                name = item.alias_or_name.lower()
                if not self._is_put_together(_plain(item.unalias()), name):
                    raise NewsProblem(COUNTED.format(column=name or "a column"))
                aggregates = True
        if is_grouped and not aggregates:
            return QueryRows.KEYS
        return QueryRows.KEYS if query.args.get("distinct") else QueryRows.NEW

    def _is_put_together(self, value: exp.Expr, name: str) -> bool:
        """Whether the fold makes of a function's results what the function gives of all rows."""
        aggregate = self._aggregates.get(name)
        functions = [aggregate.function] if aggregate else []
        if aggregate is None and name not in {item.lower() for item in self._fold.types}:
            # it gets another name before it is folded
            functions = [item.function for item in self._aggregates.values()]
        if isinstance(value, exp.Count) and isinstance(value.this, exp.Distinct):
            return False
        if isinstance(value, OF_ARRAYS):
            return aggregate is not None and aggregate.function == "collect"
        if OF_BITMAPS in functions:
            return True
        if isinstance(value, (exp.Max, exp.Min)) and name in self._orders:
            return isinstance(value, exp.Min) is (name in self._descending)
        if isinstance(value, (exp.ArgMax, exp.ArgMin)) and aggregate is None:
            by = value.expression.name.lower()
            is_newest = isinstance(value, exp.ArgMin) is (by in self._descending)
            return self._order == (by,) and is_newest
        return any(item in PUT_TOGETHER.get(type(value), ()) for item in functions)

    def _keeps_last(self, window: exp.Window) -> bool:
        """Whether a window numbers the rows of a key as its fold orders them, the last first: what
        has another number than the first is no row that the fold would keep."""
        partition = {item.name.lower() for item in window.args.get("partition_by") or ()}
        key = {name.lower() for name in self._fold.key}
        if self.adds or not isinstance(window.this, exp.RowNumber) or not key <= partition:
            return False
        if isinstance(self._fold, Zipper):  # each change counts
            return {*self._order} <= partition
        if self._fold.groups or self._aggregates:
            return False
        order = window.args.get("order")
        given = [
            (item.this.name.lower(), bool(item.args.get("desc")))
            for item in (order.expressions if order else ())
        ]
        wanted = [(name, name not in self._descending) for name in self._order]
        return given[: len(wanted)] == wanted


def _order_of(fold: Fold | Zipper) -> tuple[str, ...]:
    """The columns that order the rows of a key, but for those of its groups."""
    if isinstance(fold, Fold):
        return (*fold.others.sequence, *fold.others.tie_break)
    return (*fold.sequence, fold.time)


def _plain(value: exp.Expr) -> exp.Expr:
    """An expression without what gives its value another type, or a null a value."""
    while isinstance(value, (exp.Cast, exp.TryCast, exp.Paren, exp.Coalesce)):
        value = value.this
    return value
