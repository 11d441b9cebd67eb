"""What a query makes of rows that new rows choose: whether that is what all rows give.

A model may make its rows again of all rows of what new rows name: `from x where id in (select id
from new_rows) group by id`. Groups by another column are of a part of their rows then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dbt.adapters.sparksession.reading.news_queries import NEWS, parsed, reads_nothing, subqueries
from dbt.adapters.sparksession.reading.partition_queries import (
    Carrying,
    CarryingReader,
    PartialRows,
)
from sqlglot import exp

RANKED = (
    "compares rows that new rows choose, by other columns than they are chosen by (a window "
    "function, or a limit), so that rows which weren't chosen are missing; partition the window by "
    "the columns that are chosen by, or choose rows by those of the window"
)
COUNTED = (
    "aggregates rows that new rows choose, by other columns than they are chosen by, so that rows "
    "which weren't chosen are missing; group by the columns that are chosen by, or choose rows by "
    "those of the group"
)
ABSENT = (
    "takes rows that no new row names, other rows in each run; read all rows by ref(..) in "
    "place of the new rows, or take a join macro of kind 'anti'"
)


def problem_of_choice(sql: str, news: Collection[str]) -> str | None:
    """Why what a query makes of the rows that new rows choose isn't what all rows give; None where
    it is, as far as the query shows.

    Args:
        sql, news: as in problem_of.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    tree = parsed(sql, news, NEWS)
    if tree is None:
        return None
    try:
        _ChosenReader().columns_of(tree, {})
    except PartialRows as problem:
        return str(problem)
    return None


class _ChosenReader(CarryingReader):
    """Follows the columns that rows are chosen by through the parts of a statement."""

    ranked, counted = RANKED, COUNTED

    def __init__(self) -> None:
        super().__init__("")

    def _of_table(self, table: exp.Table, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        return ctes.get(table.name.lower())

    def _of_select(self, query: exp.Select, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        first = query.args.get("from_")
        joins = [join for join in query.args.get("joins") or () if not reads_nothing(join.this)]
        sources = [*([first.this] if first else []), *(join.this for join in joins)]
        found = [self.columns_of(item, ctes) for item in sources]
        pairs = zip(sources, found, strict=True)
        of_news = [columns is None and _names_news(item) for item, columns in pairs]
        for inner in subqueries(query):
            self.columns_of(inner, ctes)
        chosen = [columns for columns in found if columns is not None]
        if any(of_news) and not all(of_news):
            chosen += self._chosen_by_joins(query, joins, of_news)
        if not any(of_news):
            chosen += self._chosen_by_conditions(query)
        if not chosen:
            return None
        carrying = frozenset().union(*chosen)
        self._check(query, carrying)
        return self._selected(query, carrying)

    @staticmethod
    def _chosen_by_joins(
        query: exp.Select, joins: Sequence[exp.Join], of_news: Sequence[bool]
    ) -> list[Carrying]:
        """Columns by which new rows choose others that they are joined with."""
        for join, is_news in zip(joins, of_news[1:], strict=True):
            if is_news and not of_news[0] and join.kind.upper() == "ANTI":
                raise PartialRows(ABSENT)
        return [_equal_columns(part) for part in (query, *joins)]

    @staticmethod
    def _chosen_by_conditions(query: exp.Select) -> list[Carrying]:
        """The same of conditions that ask for new rows."""
        found = []
        for inner in subqueries(query):
            within = inner.find_ancestor(exp.Where, exp.Join, exp.Select)
            asks = inner.find_ancestor(exp.In, exp.Exists, exp.Select)
            if isinstance(within, exp.Select) or not isinstance(asks, (exp.In, exp.Exists)):
                continue
            if not _names_news(inner):
                continue
            if isinstance(asks.find_ancestor(exp.Not, exp.Select), exp.Not):
                raise PartialRows(ABSENT)
            if isinstance(asks, exp.In):
                columns = asks.this.find_all(exp.Column)
                found.append(frozenset(item.name.lower() for item in columns))
            else:
                found.append(_equal_columns(inner))
        return found


def _names_news(query: exp.Expr) -> bool:
    """Whether a part of a statement reads new rows, also by the name of a CTE."""
    names, waiting = {NEWS}, True
    tree = query.root()
    while waiting:
        known = len(names)
        for cte in tree.find_all(exp.CTE):
            if any(table.name.lower() in names for table in cte.this.find_all(exp.Table)):
                names.add(cte.alias.lower())
        waiting = len(names) > known
    return any(table.name.lower() in names for table in query.find_all(exp.Table))


def _equal_columns(part: exp.Expr) -> Carrying:
    """Columns of which a join, or a query within another, asks that they are equal."""
    names = {item.name.lower() for item in part.args.get("using") or ()}
    conditions = [item for item in (part.args.get("on"), part.args.get("where")) if item]
    for condition in conditions:
        for pair in condition.find_all(exp.EQ, exp.NullSafeEQ):
            names |= {item.name.lower() for item in pair.find_all(exp.Column)}
    return frozenset(names)
