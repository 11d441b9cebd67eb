"""What the query of a keyed table makes of new rows: whether its fold puts the results of single
runs together to what all rows give at once.

A fold adds sums up, keeps the highest or the last value. So a query may sum what the fold sums; a
count of the new rows that the fold keeps as a last value isn't the count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.groups import Aggregate
from dbt.adapters.sparksession.keyed.zippers import Zipper
from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.held_columns import (
    ADDING,
    Held,
    HeldColumns,
    HeldValues,
)
from dbt.adapters.sparksession.reading.news_queries import (
    DISTINCT,
    NewsProblem,
    NewsReader,
    QueryRows,
    reads_news,
)
from dbt.adapters.sparksession.reading.own_choices import OwnChoices
from dbt.adapters.sparksession.reading.query_parts import (
    NEWS,
    gives_none_of,
    origin_of_column,
    own_parts,
    parsed,
    sources_of,
    without_cast,
)
from dbt.adapters.sparksession.reading.ranks import Rank
from sqlglot import exp

COUNTED = (
    "aggregates the new rows to {column}, which its fold doesn't put together with what earlier "
    "runs gave; let the fold aggregate the rows (fold.aggregates), which takes a sum of sums and "
    "counts, a max of max and a min of min too"
)
FILTERED = (
    "leaves out or joins rows by {column}, which it makes of the new rows alone, so that rows of "
    "earlier runs stay which are left out now; give it as a column, and leave rows out where the "
    "keyed table is read"
)
MADE_AGAIN = (
    "makes {column} of all rows again, and its fold may keep what an earlier run made of a part of "
    "them; take strategy 'merge' for such rows, let the fold aggregate new rows, or let "
    "current_timestamp() be its sequence"
)
RANKED = (
    "compares the new rows among themselves alone (a window function, or a limit), so that rows of "
    "earlier runs are left out; let fold.sequence keep the last row of each key, or rank the rows "
    "in a view over the keyed table"
)
GROUPED = (
    "groups the new rows, and its fold counts each group as a row (count_rows), so that a key goes "
    "once a run takes back one of its rows; let the fold aggregate the rows (fold.aggregates)"
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
    return fold.count_rows or any(map(adds_values, fold.aggregates.values()))


def adds_values(aggregate: Aggregate) -> bool:
    """Whether a value that comes twice counts twice."""
    return aggregate.counts or aggregate.function in ADDED


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
    reader = _FoldReader(fold, counts)
    try:
        rows = reader.rows_of(tree, {})
        problem = _problem_of_own_rows(tree, OwnChoices(news), counts)
        if problem is not None:
            return problem
        if counts and rows is not QueryRows.NEW:
            return DISTINCT if rows is QueryRows.KEYS else AGAIN
        if rows is QueryRows.OTHERS:
            return _problem_of_rows_again(tree, fold)
        reader.check_columns(tree, rows is QueryRows.CHOSEN)
    except NewsProblem as problem:
        return str(problem)
    return None


def problem_of_all_rows(sql: str, fold: Fold | Zipper) -> str | None:
    """Why a fold doesn't take what a query makes of all rows in place of what it made of those of
    an earlier run; None where it does, as far as the query shows.

    Args:
        sql: a query that asks for nothing that is new.
        fold: bound to its columns; it counts no rows.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    tree = parsed(sql, (), "")
    return None if tree is None else _problem_of_rows_again(tree, fold)


def _problem_of_rows_again(tree: exp.Expr, fold: Fold | Zipper) -> str | None:
    reader = _AllRowsReader(fold, False)
    try:
        reader.rows_of(tree, {})
        reader.check_columns(tree, are_chosen=True)
    except NewsProblem as problem:
        return str(problem)
    return None


def _problem_of_own_rows(tree: exp.Expr, own: OwnChoices, counts: bool) -> str | None:
    """What is wrong with a join of new rows with all rows of their own table: a row that comes
    later is counted with none of the rows that were there, or a row is there as often as new rows
    choose it.

    Args:
        counts: whether a row that comes twice counts twice.
    """
    for query in tree.find_all(exp.Select):
        sources = sources_of(query)
        news = [item for item in sources if reads_news(item)]
        others = [item for item in sources if not any(item is each for each in news)]
        if not news or not any(map(own.reads_own, others)):
            continue
        if counts:
            return AGAIN
        is_ranked = any(isinstance(part, exp.Window) for part in own_parts(query))
        if is_ranked and any(gives_none_of(query, item) for item in news):
            return RANKED
    return None


class _FoldReader(NewsReader):
    """Follows new rows through the parts of a statement whose rows a fold puts together."""

    counted, ranked, again = COUNTED.format(column="groups"), RANKED, AGAIN

    def __init__(self, fold: Fold | Zipper, counts: bool) -> None:
        super().__init__(counts)
        self._fold, self._columns = fold, HeldColumns(self._keeps_last)
        self._aggregates: dict[str, Aggregate] = {}
        self._key = {name.lower() for name in fold.key}
        self._order = tuple(name.lower() for name in _order_of(fold))
        self._orders, self._descending = {*self._order}, set[str]()
        if isinstance(fold, Fold):
            self._aggregates = {name.lower(): item for name, item in fold.aggregates.items()}
            for group in fold.all_groups:
                self._orders |= {name.lower() for name in (*group.sequence, *group.tie_break)}
                self._descending |= {name.lower() for name in group.descending}

    def check_columns(self, tree: exp.Expr, are_chosen: bool) -> None:
        """Look at what the columns of the whole statement hold.

        Args:
            are_chosen: whether its rows are others than new rows, which these choose.

        Raises:
            NewsProblem: the fold doesn't put the runs' values of a column together.
        """
        if are_chosen and self._order and all(_is_of_run(tree, name) for name in self._order):
            return  # what the last run made is the newest
        problem = MADE_AGAIN if are_chosen else COUNTED
        held = self._columns.of(tree)
        for name, values in held.items():
            for value in values:
                if isinstance(value, Rank):
                    if not self._is_order_of(value):
                        again = problem.format(column=_shown(name))
                        raise NewsProblem(again if are_chosen else RANKED)
                elif not self._is_put_together(value, name, held):
                    raise NewsProblem(problem.format(column=_shown(name)))

    def _of_set(self, query: exp.SetOperation, ctes: Mapping[str, QueryRows]) -> QueryRows:
        rows = super()._of_set(query, ctes)
        self._columns.note_set(query)
        return rows

    def looks_up(self, inner: exp.Expr) -> None:
        for name, values in self._columns.of(inner).items():
            if any(not isinstance(value, exp.Distinct) for value in values):
                raise NewsProblem(COUNTED.format(column=_shown(name)))

    def chooses(self, query: exp.Select) -> None:
        chosen_by = self._columns.note_select(query)
        if chosen_by is not None:
            raise NewsProblem(FILTERED.format(column=_shown(chosen_by)))

    def of_new_rows(self, query: exp.Select) -> QueryRows:
        found = [*own_parts(query)]
        windows = [item for item in found if isinstance(item, exp.Window)]
        if not all(map(self._keeps_last, windows)):
            raise NewsProblem(RANKED)
        if query.args.get("having"):
            raise NewsProblem(self.counted)
        chosen_by = self._columns.note_select(query)
        if chosen_by is not None:
            raise NewsProblem(FILTERED.format(column=_shown(chosen_by)))
        is_grouped = query.args.get("group") is not None
        counts_groups = isinstance(self._fold, Fold) and self._fold.count_rows
        if counts_groups and any(map(is_aggregate, found)):
            raise NewsProblem(GROUPED)
        if is_grouped and not any(
            is_aggregate(item) or isinstance(item, exp.Anonymous) for item in found
        ):
            return QueryRows.KEYS
        return QueryRows.KEYS if query.args.get("distinct") else QueryRows.NEW

    def _is_put_together(self, value: exp.Expr, name: str, held: Held) -> bool:
        """Whether the fold makes of what a column holds what it holds of all rows.

        Args:
            held: what all columns hold.
        """
        aggregate = self._aggregates.get(name)
        function = aggregate.function if aggregate else None
        if isinstance(value, exp.Distinct):
            return aggregate is None or not adds_values(aggregate)
        if isinstance(value, ADDING) and isinstance(value.this, exp.Distinct):
            return False
        if aggregate and aggregate.counts and not isinstance(value, exp.ArrayAgg):
            return False  # a value is taken back as often as it was given
        if isinstance(value, OF_ARRAYS):
            return function == "collect" and aggregate is not None and aggregate.elements
        if function == OF_BITMAPS:
            return True
        if isinstance(value, (exp.Max, exp.Min)) and name in self._orders:
            return isinstance(value, exp.Min) is (name in self._descending)
        is_last = isinstance(value, (exp.ArgMax, exp.ArgMin)) and aggregate is None
        if is_last and name not in self._key:
            return len(self._order) == 1 and self._is_newest(value, held.get(self._order[0], ()))
        return function in PUT_TOGETHER.get(type(value), ())

    def _is_newest(self, value: exp.Expr, order: HeldValues) -> bool:
        """Whether `max_by` or `min_by` takes the row that the fold takes for the newest.

        Args:
            order: what the column holds that orders the fold's rows.
        """
        by, name = value.expression, self._order[0]
        is_order = any(
            isinstance(item, exp.Expr) and by in (item.this, *item.expressions) for item in order
        )
        return is_order and isinstance(value, exp.ArgMin) is (name in self._descending)

    def _keeps_last(self, window: exp.Window) -> bool:
        """Whether a window may number the rows of a key so that what has another number than the
        first is no row that the fold would keep, see _is_order_of."""
        if self.adds or not isinstance(window.this, exp.RowNumber):
            return False
        return isinstance(self._fold, Zipper) or not (self._fold.groups or self._aggregates)

    def _is_order_of(self, rank: Rank) -> bool:
        """Whether rows are numbered by the fold's key, and as the fold orders them, the last
        first."""
        if not self._key <= rank.names:
            return False
        if isinstance(self._fold, Zipper):  # each change counts
            return {*self._order} <= rank.names
        wanted = [(name, name not in self._descending) for name in self._order]
        return rank.ordered_by[: len(wanted)] == wanted


class _AllRowsReader(_FoldReader):
    """Follows what a statement makes of all rows."""

    def _of_select(self, query: exp.Select, ctes: Mapping[str, QueryRows]) -> QueryRows:
        rows = super()._of_select(query, ctes)
        self._columns.note_select(query)
        return rows


def _order_of(fold: Fold | Zipper) -> tuple[str, ...]:
    """The columns that order the rows of a key, but for those of its groups."""
    if isinstance(fold, Fold):
        return (*fold.others.sequence, *fold.others.tie_break)
    return (*fold.sequence, fold.time)


def _is_of_run(tree: exp.Expr, name: str) -> bool:
    """Whether a column of a query has the time of the run in all rows."""
    value = without_cast(origin_of_column(tree, name))
    is_now = isinstance(value, exp.Anonymous) and value.name.lower() == "now"
    return is_now or isinstance(value, exp.CurrentTimestamp)


def _shown(name: str) -> str:
    """A column's name in a message."""
    return "a column" if name.startswith("#") else name
