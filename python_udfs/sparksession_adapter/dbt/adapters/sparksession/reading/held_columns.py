"""What the columns of a query over new rows hold: values of single rows, aggregates, or what each
group of a run has once. Followed from where a select groups to the columns of the whole query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.query_parts import (
    conditions_of,
    equalities,
    joins_of,
    keeps_all,
    label_of,
    named_columns,
    names_in_query,
    own_parts,
    pivoted_columns,
    pivots_of,
    query_behind,
    sources_of,
    taken_by_star,
    without_cast,
)
from dbt.adapters.sparksession.reading.ranks import Rank, number_of_first, rank_by, rank_of
from sqlglot import exp

# column, in lower case -> its aggregates; `Distinct` stands for what each group has once, any other
# expression for what is made of aggregates, a `Rank` for a row's number among those of its key or
# for a value of the last row. A column that isn't there is of single new rows; `*` is any other.
HeldValues = tuple[exp.Expr | Rank, ...]
Held = Mapping[str, HeldValues]
# functions that give of the parts' results the result of all rows -> what the parts may hold
OF_PARTS: dict[type[exp.Expr], tuple[type[exp.Expr], ...]] = {
    exp.Sum: (exp.Sum, exp.Count, exp.CountIf),
    exp.Max: (exp.Max, exp.Distinct),
    exp.Min: (exp.Min, exp.Distinct),
    exp.LogicalAnd: (exp.LogicalAnd, exp.Distinct),
    exp.LogicalOr: (exp.LogicalOr, exp.Distinct),
}
ADDING = (exp.Sum, exp.Count, exp.CountIf)
STAR = "*"
CONDITIONS = ("where", "qualify", "group", "on")


class HeldColumns:
    """What the columns of a statement's parts hold, noted from the innermost part to the whole.

    Args:
        keeps_last: whether a window is a `row_number()` by which the last row of each key may be
            taken.
    """

    def __init__(self, keeps_last: Callable[[exp.Window], bool]) -> None:
        self._keeps_last = keeps_last
        self._held: dict[int, Held] = {}  # by the id of a query
        self._grouped: set[int] = set()  # ids of queries of which each row is a group's

    def of(self, source: exp.Expr) -> Held:
        """What the columns of a query hold, or of what stands in a `from`."""
        query, given = query_behind(source)
        held = self._held.get(id(query), {})
        if query is not None and held and given:
            held = _renamed(held, names_in_query(query), given)
        made = pivoted_columns(source)
        return {**held, **{name: (value,) for name, value in made.items()}} if made else held

    def note_set(self, query: exp.SetOperation) -> None:
        """Note what the columns of a `union` hold: what those of its parts do."""
        left, right = self.of(query.left), self.of(query.right)
        names, others = names_in_query(query.left), names_in_query(query.right)
        if STAR not in (*names, *others):
            right = _renamed(right, others, names)
        held = {name: (*left.get(name, ()), *right.get(name, ())) for name in {**left, **right}}
        self._held[id(query)] = held
        if self._is_grouped(query.left) or self._is_grouped(query.right):
            self._grouped.add(id(query))

    def note_select(
        self,
        query: exp.Select,
        within: Collection[str] = CONDITIONS,
        whole: Collection[str] = (),
    ) -> str | None:
        """Note what the columns of a select over new rows hold.

        Args:
            within: parts of the select in which a column of aggregates is looked for.
            whole: names of sources that have all rows of each key that they hold.

        Returns:
            A column of aggregates, or of the last row of a key, that the select filters, joins or
            groups by; None if there is none.
        """
        select, sources = self._select(query, whole), sources_of(query)
        of_groups = any(map(self._is_grouped, sources))
        is_grouped = query.args.get("group") is not None
        self._held[id(query)] = select.held_by(query, is_grouped, of_groups)
        if of_groups or is_grouped:
            self._grouped.add(id(query))
        return select.chosen_by(query, within)

    def _select(self, query: exp.Select, whole: Collection[str] = ()) -> _Select:
        windows = [item for item in own_parts(query) if isinstance(item, exp.Window)]
        numbers = {id(item): rank_of(item) for item in windows if self._keeps_last(item)}
        held = {label_of(item): self.of(item) for item in sources_of(query)}
        return _Select(held, numbers, whole)

    def _is_grouped(self, source: exp.Expr) -> bool:
        return bool(pivots_of(source)) or id(query_behind(source)[0]) in self._grouped


def _renamed(held: Held, names: Sequence[str], given: Sequence[str]) -> Held:
    """What columns hold, under the names that they get by their places."""
    pairs = [*zip(names, given, strict=False)]
    items = [(new, exp.column(old)) for old, new in pairs]
    if STAR in names:
        pairs, items = [(STAR, STAR)], []
    return {new: _given(held[old], items) for old, new in pairs if old in held}


def _given(values: HeldValues, columns: Sequence[tuple[str, exp.Expr]]) -> HeldValues:
    """What a column holds, in the columns of a select, see Rank.given_as."""
    return tuple(value.given_as(columns) if isinstance(value, Rank) else value for value in values)


class _Select:
    """A select and what the columns of its sources hold.

    Args:
        sources: alias -> what its columns hold.
        numbers: ids of windows that number the rows of a key -> how.
        whole: names of sources that have all rows of each key that they hold.
    """

    def __init__(
        self, sources: Mapping[str, Held], numbers: Mapping[int, Rank], whole: Collection[str]
    ) -> None:
        self._sources, self._numbers, self._whole = sources, numbers, whole

    def held_by(self, query: exp.Select, is_grouped: bool, of_groups: bool) -> Held:
        """What the select's columns hold.

        Args:
            is_grouped: whether it has a `group by`.
            of_groups: whether its sources' rows are groups.
        """
        held: dict[str, HeldValues] = {}
        columns, last = named_columns(query), self._last_of(query)
        for name, item in columns:
            if item.is_star:
                held |= self._by_star(item)
                if last is not None:
                    held[STAR] = (last,)
                continue
            value = without_cast(item.unalias())
            values = self._by_value(value, is_grouped, of_groups)
            if not values and (is_grouped or of_groups) and not adds_nothing(value):
                values = (exp.Distinct(expressions=[value.copy()]),)
            if last is not None and not last.has_alike(value):
                values = (*values, last)
            if values:
                held[name] = values
        return {name: _given(values, columns) for name, values in held.items()}

    def chosen_by(self, query: exp.Select, within: Collection[str]) -> str | None:
        """A column of aggregates, or of the last row of a key, that rows are chosen, joined or
        grouped by."""
        for name in ("where", "qualify", "group"):
            if name in within:
                chosen = self._in_condition(query.args.get(name), keeps=False)
                if chosen is not None:
                    return chosen
        for join in joins_of(query):
            keeps = keeps_all(join)
            if keeps and "on" not in within:
                continue
            chosen = self._in_condition(join.args.get("on"), keeps)
            for item in join.args.get("using") or ():
                chosen = chosen or self._in_condition(exp.column(item.name), keeps)
            if chosen is not None:
                return chosen
        return self._beside_last(query)

    def _in_condition(self, condition: exp.Expr | None, keeps: bool) -> str | None:
        """A column of aggregates, or of a key's last row, in a condition.

        Args:
            keeps: whether what doesn't fulfil it stays.
        """
        for item in conditions_of(condition):
            if self._first_of(item) is not None or self._is_highest(item):
                continue
            if any(isinstance(part, exp.Window) for part in self._parts(item)):
                return "#"
            for column in self._read_in(item):
                for value in self._of(column):
                    is_last = isinstance(value, Rank) and value.is_taken
                    if not isinstance(value, exp.Distinct) and not (keeps and is_last):
                        return column.name.lower()
        return None

    def _beside_last(self, query: exp.Select) -> str | None:
        """A column by which a select leaves out the last row of a key, as it takes the last."""
        for conditions in self._conditions(query):
            last = self._last_among(conditions)
            if last is None:
                continue
            for item in conditions:
                if self._first_of(item) is not None or self._is_highest(item):
                    continue
                for column in self._read_in(item):
                    if not last.has_alike(column):
                        return column.name.lower()
        return None

    def _conditions(self, query: exp.Select) -> list[list[exp.Expr]]:
        """Conditions that rows have to fulfil together: those behind the windows, and others."""
        conditions = conditions_of(query.args.get("where"))
        for join in joins_of(query):
            if not keeps_all(join):
                conditions += conditions_of(join.args.get("on"))
        return [conditions, conditions_of(query.args.get("qualify"))]

    def _is_highest(self, condition: exp.Expr) -> bool:
        """Whether a condition asks for a row of a whole source with the highest, or the lowest,
        value that its key has there: there is always such a row."""
        if not isinstance(condition, (exp.EQ, exp.NullSafeEQ)):
            return False
        sides = [without_cast(condition.left), without_cast(condition.right)]
        columns = [side for side in sides if isinstance(side, exp.Column)]
        if len(columns) < len(sides):
            return False
        column, highest = sorted(columns, key=lambda side: len(self._of(side)))
        values = self._of(highest)
        if self._of(column) or len(values) != 1 or column.table.lower() not in self._whole:
            return False
        value = values[0]
        return (
            isinstance(value, (exp.Max, exp.Min))
            and isinstance(value.this, exp.Column)
            and value.this.name.lower() == column.name.lower()
        )

    def _last_among(self, conditions: Sequence[exp.Expr]) -> Rank | None:
        """Of which rows conditions take the last of each key."""
        found = [rank for rank in map(self._first_of, conditions) if rank is not None]
        if not found and any(map(self._is_highest, conditions)):
            others = [item for item in conditions if not self._is_highest(item)]
            found = [rank_by(side for item in others for pair in equalities(item) for side in pair)]
        return found[0].taken() if found else None

    def _read_in(self, condition: exp.Expr) -> Iterator[exp.Column]:
        """The select's own columns in a condition, those that a query within it names, too."""
        yield from self._columns(condition)
        for inner in condition.find_all(exp.Query):
            for column in inner.find_all(exp.Column):
                if column.table.lower() in self._sources:
                    yield column

    def _last_of(self, query: exp.Select) -> Rank | None:
        """Of which rows the last of each key are taken by a select."""
        found = map(self._last_among, self._conditions(query))
        return next((rank for rank in found if rank is not None), None)

    def _first_of(self, condition: exp.Expr) -> Rank | None:
        """Of which rows a condition asks for the first, or the first few."""
        number = number_of_first(condition)
        if number is None:
            return None
        if id(number) in self._numbers:
            return self._numbers[id(number)]
        found = self._of(number) if isinstance(number, exp.Column) else ()
        ranks = [item for item in found if isinstance(item, Rank) and not item.is_taken]
        return ranks[0] if len(ranks) == len(found) == 1 else None

    def _by_star(self, item: exp.Expr) -> Held:
        table, left_out = taken_by_star(item)
        return {
            name: _within(alias, values)
            for alias, held in self._sources.items()
            if table in ("", alias)
            for name, values in held.items()
            if name not in left_out
        }

    def _by_value(self, value: exp.Expr, is_grouped: bool, of_groups: bool) -> HeldValues:
        if isinstance(value, exp.Column):
            return self._of(value)
        if id(value) in self._numbers:
            return (self._numbers[id(value)],)
        parts = [*self._parts(value)]
        held = [each for part in parts if isinstance(part, exp.Column) for each in self._of(part)]
        if is_aggregate(value):
            if held or (of_groups and isinstance(value, ADDING)):
                return (value,) if self._is_of_parts(value) else (exp.Paren(this=value.copy()),)
            return (value,)
        is_unknown = is_grouped and any(isinstance(part, exp.Anonymous) for part in parts)
        windows = (isinstance(part, exp.Window) and id(part) not in self._numbers for part in parts)
        if is_unknown or any(map(is_aggregate, parts)) or any(windows):
            return (value,)
        ranks = tuple(each for each in held if isinstance(each, Rank))
        if any(not isinstance(each, (exp.Distinct, Rank)) for each in held):
            return (exp.Paren(this=value.copy()),)
        return (*ranks, *(self._numbers[id(part)] for part in parts if id(part) in self._numbers))

    def _is_of_parts(self, value: exp.Expr) -> bool:
        """Whether an aggregate of the parts' results is that of all rows."""
        argument = without_cast(value.this)
        if isinstance(value, (exp.ArgMax, exp.ArgMin)):
            newest = exp.Max if isinstance(value, exp.ArgMax) else exp.Min
            by = without_cast(value.expression)
            return self._holds(argument, (type(value),)) and self._holds(by, (newest,))
        return self._holds(argument, OF_PARTS.get(type(value), ()))

    def _holds(self, value: exp.Expr, kinds: tuple[type[exp.Expr], ...]) -> bool:
        held = self._of(value) if isinstance(value, exp.Column) else ()
        return bool(held) and all(isinstance(each, kinds) for each in held)

    def _columns(self, value: exp.Expr) -> Iterator[exp.Column]:
        return (part for part in self._parts(value) if isinstance(part, exp.Column))

    def _parts(self, value: exp.Expr) -> Iterator[exp.Expr]:
        """Parts of an expression, without those of queries in it, and of windows that number the
        rows of a key."""
        return value.walk(
            prune=lambda part: isinstance(part, exp.Query) or id(part) in self._numbers
        )

    def _of(self, column: exp.Column) -> HeldValues:
        table, name = column.table.lower(), column.name.lower()
        for alias, held in self._sources.items():
            if table in ("", alias) and name in held:
                return _within(alias, held[name])
            if table in ("", alias) and STAR in held:
                others = _within(alias, held[STAR])
                return tuple(
                    each
                    for each in others
                    if not isinstance(each, Rank) or not each.has_alike(column)
                )
        return ()


def _within(alias: str, values: HeldValues) -> HeldValues:
    """What a column of a source holds, see Rank.within."""
    return tuple(value.within(alias) if isinstance(value, Rank) else value for value in values)


def adds_nothing(value: exp.Expr) -> bool:
    """Whether a value can be added any number of times."""
    return isinstance(value, exp.Null) or (
        isinstance(value, exp.Literal) and not value.is_string and not float(value.name)
    )
