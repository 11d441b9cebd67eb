"""What a query makes of rows that new rows choose: whether that is what all rows give.

A model may make its rows again of all rows of what new rows name: `from x where id in (select id
from new_rows) group by id`. Groups by another column are of a part of their rows then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.held_columns import HeldColumns
from dbt.adapters.sparksession.reading.news_queries import reads_news
from dbt.adapters.sparksession.reading.own_choices import (
    OwnChoices,
    holds_by_exists,
    holds_by_in,
    holds_by_join,
)
from dbt.adapters.sparksession.reading.partition_queries import (
    Carrying,
    CarryingReader,
    PartialRows,
    Sources,
    joins_by,
)
from dbt.adapters.sparksession.reading.query_parts import (
    NEWS,
    UnreadableQuery,
    equalities,
    gives_none_of,
    joins_of,
    label_of,
    parsed,
    query_behind,
    sources_of,
    subqueries,
    without_cast,
)
from dbt.adapters.sparksession.reading.ranks import Rank
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
JOINED = (
    "joins rows that new rows choose with each other, not by the columns that they are chosen by, "
    "so that a row finds no partner that wasn't chosen; join them by these columns, or read one "
    "side by ref(..)"
)
TWICE = (
    "chooses rows by new rows twice, so that rows are missing whose partners came in different "
    "runs; choose them once, by their key, and read the other side by ref(..)"
)
ITSELF = (
    "chooses rows by a part of their table's new rows, or by another column, so that a new row "
    "which an old row would choose is missing; choose rows by the same column of all new rows, too "
    "(`or`), or take a join macro"
)
FILTERS = ("where", "qualify")
FILTERED = (
    "leaves out rows by what it makes of all rows that new rows choose, so that a row stays which "
    "is left out now and wasn't before; give the value as a column, and leave rows out where it is "
    "read"
)
KEYED = (
    "makes its unique_key of what it makes of all rows that new rows choose, so that a row stays "
    "under the key that it had; take columns of single rows for the key"
)
LOOKED_UP = (
    "looks new rows up for rows that aren't new, in a column or within another expression, so that "
    "a row has what the last run's new rows gave it; look all rows up by ref(..), ask for new rows "
    "by a condition of its own (`id in (select id from ..)`), or take a join macro"
)
ABSENT = (
    "takes rows that no new row names, other rows in each run; read all rows by ref(..) in "
    "place of the new rows, or take a join macro of kind 'anti'"
)


def problem_of_choice(sql: str, news: Collection[str], key: Collection[str]) -> str | None:
    """Why what a query makes of the rows that new rows choose isn't what all rows give; None where
    it is, as far as the query shows.

    Args:
        sql, news: as in problem_of.
        key: columns of the key that the rows are merged by.

    Raises:
        UnreadableQuery: it can't be parsed.
    """
    tree = parsed(sql, news, NEWS)
    if tree is None:
        return None
    try:
        reader = _ChosenReader(OwnChoices(news), key)
        reader.columns_of(tree, {})
        reader.check_columns(tree)
    except PartialRows as problem:
        return str(problem)
    return None


def chosen_tables(sql: str, news: Collection[str], key: Collection[str]) -> tuple[bool, bool]:
    """Whether new rows choose rows of their own tables, and of others, as far as a query shows:
    what chose the others' may be gone, and they still be there. Both, where it can't be read.

    Args:
        sql, news, key: as in problem_of_choice.
    """
    try:
        tree = parsed(sql, news, NEWS)
        if tree is None:
            return True, True
        reader = _ChosenReader(OwnChoices(news), key)
        reader.columns_of(tree, {})
    except (UnreadableQuery, PartialRows):
        return True, True
    return True in reader.are_own, False in reader.are_own


class _ChosenReader(CarryingReader):
    """Follows the columns that rows are chosen by through the parts of a statement."""

    ranked, counted, joined = RANKED, COUNTED, JOINED
    strict = True

    def __init__(self, own: OwnChoices, key: Collection[str]) -> None:
        super().__init__("")
        self._own, self._key = own, {name.lower() for name in key}
        self._held = HeldColumns(self._keeps_last)
        self.are_own: set[bool] = set()  # of the chosen tables: whether new rows are read of them

    def check_columns(self, tree: exp.Expr) -> None:
        """Look at whether the last rows that the whole statement takes are those of its keys, and
        its keys are of single rows: a row's number among others is one that it keeps."""
        held = self._held.of(tree)
        for values in held.values():
            for value in values:
                if isinstance(value, Rank) and value.is_taken and not self._key <= value.names:
                    raise PartialRows(FILTERED)
        for value in (value for name in self._key for value in held.get(name, ())):
            is_number = isinstance(value, exp.Window) and isinstance(value.this, exp.RowNumber)
            if not is_number and not isinstance(value, (exp.Distinct, Rank)):
                raise PartialRows(KEYED)

    def _note_chosen(
        self,
        sources: Sequence[exp.Expr],
        of_news: Sequence[bool],
        chosen: Sequence[Collection[tuple[str, str]]],
    ) -> None:
        """Note of which tables a select's new rows choose rows.

        Args:
            chosen: the columns, with their tables' names, that rows are chosen by.
        """
        names = {table for columns in chosen for table, _ in columns}
        is_vague = "" in names or not all(chosen)
        for item, is_news in zip(sources, of_news, strict=True):
            if chosen and not is_news and (is_vague or label_of(item) in names):
                self.are_own.add(self._own.reads_own(item))

    def _of_table(self, table: exp.Table, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        return ctes.get(table.name.lower())

    def _of_select(self, query: exp.Select, ctes: Mapping[str, Carrying | None]) -> Carrying | None:
        joins, sources = joins_of(query), sources_of(query)
        found = [self.columns_of(item, ctes) for item in sources]
        of_news = [
            columns is None and reads_news(item)
            for item, columns in zip(sources, found, strict=True)
        ]
        for inner in subqueries(query):
            self.columns_of(inner, ctes)
        pairs = zip(sources, found, strict=True)
        carrying = {label_of(item): columns for item, columns in pairs if columns is not None}
        for join, columns in zip(joins, found[1:], strict=True):
            if columns is None:
                continue
            if found[0] is None and join.kind.upper() == "ANTI":
                raise PartialRows(ABSENT)
            if len(carrying) > 1 and not joins_by(join, query, carrying):
                raise PartialRows(JOINED)
        # new rows whose columns are given look up what they are joined with
        choosing = [
            columns is not None or (is_news and (_is_distinct(item) or gives_none_of(query, item)))
            for item, is_news, columns in zip(sources, of_news, found, strict=True)
        ]
        self._check_joins(query, joins, choosing)
        chosen: list[set[tuple[str, str]]] = []
        if any(of_news) and not all(of_news):
            chosen.append(self._chosen_by_joins(query, joins, of_news))
        if not any(of_news):
            chosen += self._chosen_by_conditions(query)
        if not chosen and not carrying:
            return None
        self._note_chosen(sources, of_news, chosen)
        if len(chosen) + bool(carrying) > 1:
            raise PartialRows(TWICE)
        for table, name in chosen[0] if chosen else ():
            carrying[table] = carrying.get(table, frozenset()) | {name}
        self._check(query, carrying)
        return self._selected(query, carrying)

    def _of_set(
        self, query: exp.SetOperation, ctes: Mapping[str, Carrying | None]
    ) -> Carrying | None:
        columns = super()._of_set(query, ctes)
        if columns is not None and not isinstance(query, exp.Union):
            raise PartialRows(FILTERED)
        self._held.note_set(query)
        return columns

    def _check(self, query: exp.Select, carrying: Sources) -> None:
        super()._check(query, carrying)
        having = query.args.get("having")
        filters = self._held.note_select(query, FILTERS, carrying) is not None
        if filters or (having is not None and any(map(is_aggregate, having.walk()))):
            raise PartialRows(FILTERED)

    def _keeps_last(self, window: exp.Window) -> bool:
        """Whether a window numbers the rows of a key, so that a row of each is the first."""
        by = {item.name.lower() for item in window.args["partition_by"]}
        return isinstance(window.this, exp.RowNumber) and self._key <= by

    def _check_joins(
        self, query: exp.Select, joins: Sequence[exp.Join], choosing: Sequence[bool]
    ) -> None:
        """Look at whether new rows that choose rows of their own table by a join choose themselves.

        Args:
            choosing: of each source, whether it is of new rows or of what they chose.
        """
        sources = sources_of(query)
        if not any(choosing) or not any(
            self._own.reads_own(item)
            for item, chooses in zip(sources, choosing, strict=True)
            if not chooses and not reads_news(item)
        ):
            return
        at = choosing.index(True)
        if not holds_by_join(query, joins[max(at - 1, 0)], sources[at]):
            raise PartialRows(ITSELF)

    @staticmethod
    def _chosen_by_joins(
        query: exp.Select, joins: Sequence[exp.Join], of_news: Sequence[bool]
    ) -> set[tuple[str, str]]:
        """Columns, with their tables' names, by which new rows choose others that they are joined
        with."""
        for join, is_news in zip(joins, of_news[1:], strict=True):
            if is_news and not of_news[0] and join.kind.upper() == "ANTI":
                raise PartialRows(ABSENT)
        sources = sources_of(query)
        news = {label_of(item) for item, is_news in zip(sources, of_news, strict=True) if is_news}
        return {column for part in (query, *joins) for column in _equal_columns(part, news)}

    def _chosen_by_conditions(self, query: exp.Select) -> list[set[tuple[str, str]]]:
        """The same of conditions that ask for new rows."""
        found, alternatives, itself = [], False, False
        sources = sources_of(query)
        for inner in subqueries(query):
            if not reads_news(inner):
                continue
            within = inner.find_ancestor(exp.Where, exp.Join, exp.Having, exp.Select)
            asks = inner.find_ancestor(exp.In, exp.Exists, exp.Select)
            if isinstance(within, exp.Select) or not isinstance(asks, (exp.In, exp.Exists)):
                raise PartialRows(LOOKED_UP)
            if isinstance(asks.find_ancestor(exp.Not, exp.Select), exp.Not):
                raise PartialRows(ABSENT)
            if not _is_condition(asks):
                raise PartialRows(LOOKED_UP)
            if isinstance(asks, exp.In):
                itself |= holds_by_in(asks, inner, sources)
            else:
                itself |= holds_by_exists(inner, sources)
            if isinstance(asks.find_ancestor(exp.Or, exp.Select), exp.Or):
                alternatives = True
            elif isinstance(asks, exp.In):
                columns = asks.this.find_all(exp.Column)
                found.append({(item.table.lower(), item.name.lower()) for item in columns})
            else:
                found.append(_equal_columns(inner))
        if (found or alternatives) and not itself and any(map(self._own.reads_own, sources)):
            raise PartialRows(ITSELF)
        return [*found, set[tuple[str, str]]()] if alternatives else found


def _is_condition(asks: exp.Expr) -> bool:
    """Whether what asks for new rows is a condition of its own, or an alternative to others."""
    around = asks.parent
    while isinstance(around, (exp.And, exp.Or, exp.Paren)):
        around = around.parent
    return isinstance(around, (exp.Where, exp.Join, exp.Having))


def _is_distinct(source: exp.Expr) -> bool:
    """Whether what stands in a `from` has each of its rows once."""
    query = query_behind(source)[0]
    return query is not None and bool(query.args.get("distinct") or query.args.get("group"))


def _equal_columns(part: exp.Expr, of: Collection[str] = ()) -> set[tuple[str, str]]:
    """Columns, with their tables' names, of which a join, or a query within another, asks that they
    are equal.

    Args:
        of: names of tables, of which one side has to be; any, if there are none.
    """
    found = {("", item.name.lower()) for item in part.args.get("using") or ()}
    for name in ("on", "where"):
        for pair in equalities(part.args.get(name)):
            sides = [side for side in map(without_cast, pair) if isinstance(side, exp.Column)]
            tables = {side.table.lower() for side in sides}
            if len(sides) == len(pair) and (not of or tables & {"", *of}):
                found |= {(side.table.lower(), side.name.lower()) for side in sides}
    return found
