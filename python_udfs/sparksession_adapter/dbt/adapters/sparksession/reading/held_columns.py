"""What the columns of a query over new rows hold: values of single rows, aggregates, or what each
group of a run has once. Followed from where a select groups to the columns of the whole query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dbt.adapters.sparksession.reading.aggregates import is_aggregate
from dbt.adapters.sparksession.reading.query_parts import (
    label_of,
    named_columns,
    names_in_query,
    query_behind,
    sources_of,
    without_cast,
)
from sqlglot import exp

# column, in lower case -> its aggregates; `Distinct` stands for what each group has once, any other
# expression for what is made of aggregates. A column that isn't there is of single new rows.
Held = Mapping[str, tuple[exp.Expr, ...]]
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
    """What the columns of a statement's parts hold, noted from the innermost part to the whole."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}  # by the id of a query
        self._grouped: set[int] = set()  # ids of queries of which each row is a group's

    def of(self, source: exp.Expr) -> Held:
        """What the columns of a query hold, or of what stands in a `from`."""
        query, given = query_behind(source)
        held = self._held.get(id(query), {})
        if query is None or not held or not given:
            return held
        pairs = zip(names_in_query(query), given, strict=False)
        return {new: held[old] for old, new in pairs if old in held}

    def note_set(self, query: exp.SetOperation) -> None:
        """Note what the columns of a `union` hold: what those of its parts do."""
        left, right = self.of(query.left), self.of(query.right)
        names, others = names_in_query(query.left), names_in_query(query.right)
        if STAR in (*names, *others):
            names = others = [*{**left, **right}]
        pairs = zip(names, others, strict=False)
        held = {name: (*left.get(name, ()), *right.get(other, ())) for name, other in pairs}
        self._held[id(query)] = {name: values for name, values in held.items() if values}
        if self._is_grouped(query.left) or self._is_grouped(query.right):
            self._grouped.add(id(query))

    def note_select(
        self, query: exp.Select, but: Collection[int], within: Collection[str] = CONDITIONS
    ) -> str | None:
        """Note what the columns of a select over new rows hold.

        Args:
            but: ids of expressions that aren't looked at.
            within: parts of the select in which a column of aggregates is looked for.

        Returns:
            A column of aggregates that the select filters, joins or groups by; None if there is
            none.
        """
        sources = sources_of(query)
        select = _Select({label_of(item): self.of(item) for item in sources}, but)
        of_groups = any(map(self._is_grouped, sources))
        is_grouped = query.args.get("group") is not None
        self._held[id(query)] = select.held_by(query, is_grouped, of_groups)
        if of_groups or is_grouped:
            self._grouped.add(id(query))
        return select.chosen_by(query, within)

    def _is_grouped(self, source: exp.Expr) -> bool:
        return id(query_behind(source)[0]) in self._grouped


class _Select:
    """A select and what the columns of its sources hold.

    Args:
        sources: alias -> what its columns hold.
        but: ids of expressions that aren't looked at.
    """

    def __init__(self, sources: Mapping[str, Held], but: Collection[int]) -> None:
        self._sources, self._but = sources, but

    def held_by(self, query: exp.Select, is_grouped: bool, of_groups: bool) -> Held:
        """What the select's columns hold.

        Args:
            is_grouped: whether it has a `group by`.
            of_groups: whether its sources' rows are groups.
        """
        held: dict[str, tuple[exp.Expr, ...]] = {}
        for name, item in named_columns(query):
            if item.is_star:
                held |= self._by_star(item)
                continue
            value = without_cast(item.unalias())
            values = self._by_value(value, is_grouped, of_groups)
            if not values and (is_grouped or of_groups) and not adds_nothing(value):
                values = (exp.Distinct(expressions=[value.copy()]),)
            if values:
                held[name] = values
        return held

    def chosen_by(self, query: exp.Select, within: Collection[str]) -> str | None:
        """A column of aggregates that rows are chosen, joined or grouped by."""
        parts = (query, *(query.args.get("joins") or ()))
        for condition in (part.args.get(name) for part in parts for name in within):
            for column in self._columns(condition) if condition is not None else ():
                if any(not isinstance(value, exp.Distinct) for value in self._of(column)):
                    return column.name.lower()
        return None

    def _by_star(self, item: exp.Expr) -> Held:
        star, table = (item.this, item.table) if isinstance(item, exp.Column) else (item, "")
        left_out = {column.name.lower() for column in star.args.get("except_") or ()}
        return {
            name: values
            for alias, held in self._sources.items()
            if table.lower() in ("", alias)
            for name, values in held.items()
            if name not in left_out
        }

    def _by_value(self, value: exp.Expr, is_grouped: bool, of_groups: bool) -> tuple[exp.Expr, ...]:
        if isinstance(value, exp.Column):
            return self._of(value)
        parts = [*self._parts(value)]
        held = [each for part in parts if isinstance(part, exp.Column) for each in self._of(part)]
        if is_aggregate(value):
            if held or (of_groups and isinstance(value, ADDING)):
                return (value,) if self._is_of_parts(value) else (exp.Paren(this=value.copy()),)
            return (value,)
        is_unknown = is_grouped and any(isinstance(part, exp.Anonymous) for part in parts)
        if is_unknown or any(is_aggregate(part) or isinstance(part, exp.Window) for part in parts):
            return (value,)
        if any(not isinstance(each, exp.Distinct) for each in held):
            return (exp.Paren(this=value.copy()),)
        return ()

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
        """Parts of an expression, without those of queries in it."""
        walk = value.walk(prune=lambda part: isinstance(part, exp.Query))
        return (part for part in walk if id(part) not in self._but)

    def _of(self, column: exp.Column) -> tuple[exp.Expr, ...]:
        table, name = column.table.lower(), column.name.lower()
        return next(
            (
                held[name]
                for alias, held in self._sources.items()
                if table in ("", alias) and name in held
            ),
            (),
        )


def adds_nothing(value: exp.Expr) -> bool:
    """Whether a value can be added any number of times."""
    return isinstance(value, exp.Null) or (
        isinstance(value, exp.Literal) and not value.is_string and not float(value.name)
    )
