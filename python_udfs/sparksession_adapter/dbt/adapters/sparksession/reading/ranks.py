"""The last row of each key, as a query takes it: `row_number() over (partition by id order by at
desc) = 1`. Followed through new names of the columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dbt.adapters.sparksession.reading.query_parts import taken_by_star, without_cast
from sqlglot import exp

Place = tuple[str, str]  # alias of a source, column; in lower case


@dataclass(frozen=True)
class Rank:
    """How a window numbers the rows of a key, in the columns of the part where it stands.

    Attributes:
        by: columns whose values all rows of a key have alike.
        order: what orders them, a column and whether it descends; None where its column isn't
            known.
        is_taken: whether the first row of each key is all that is left.
    """

    by: frozenset[Place]
    order: tuple[tuple[Place, bool] | None, ...] = ()
    is_taken: bool = False

    @property
    def names(self) -> set[str]:
        """Names of `by`."""
        return {name for _, name in self.by}

    @property
    def ordered_by(self) -> list[tuple[str, bool] | None]:
        """Names of `order`, and whether they descend."""
        return [(item[0][1], item[1]) if item is not None else None for item in self.order]

    def taken(self) -> Rank:
        return replace(self, is_taken=True)

    def within(self, alias: str) -> Rank:
        """The same, where its columns are those of a source."""
        order = (item and ((alias, item[0][1]), item[1]) for item in self.order)
        return replace(self, by=frozenset((alias, name) for name in self.names), order=tuple(order))

    def has_alike(self, value: exp.Expr) -> bool:
        """Whether an expression is a column that all rows of a key have alike."""
        return isinstance(value, exp.Column) and any(_is_at(value, place) for place in self.by)

    def given_as(self, columns: Iterable[tuple[str, exp.Expr]]) -> Rank:
        """The same, in the columns of a select.

        Args:
            columns: their names, `*` among them, and what they give.
        """
        found = [*columns]
        by = [place for each in self.by for place in _given(each, found)]
        order = []
        for item in self.order:
            places = _given(item[0], found) if item is not None else []
            order.append((places[0], item[1]) if item is not None and places else None)
        return replace(self, by=frozenset(by), order=tuple(order))


def rank_of(window: exp.Window) -> Rank:
    """How a window of `row_number()` numbers rows."""
    order = window.args.get("order")
    items = order.expressions if order is not None else ()
    found = (
        (_place(item.this), bool(item.args.get("desc")))
        if isinstance(item.this, exp.Column)
        else None
        for item in items
    )
    return replace(rank_by(window.args.get("partition_by") or ()), order=tuple(found))


def rank_by(values: Iterable[exp.Expr]) -> Rank:
    """Numbers of rows that have the same values, in an order that isn't known."""
    return Rank(frozenset(_place(item) for item in values if isinstance(item, exp.Column)))


def number_of_first(condition: exp.Expr) -> exp.Expr | None:
    """What a condition asks to be 1, or at most some number; None where it asks for something
    else."""
    if not isinstance(condition, (exp.EQ, exp.LTE, exp.LT)):
        return None
    limit, least = condition.right, 2 if isinstance(condition, exp.LT) else 1
    if not isinstance(limit, exp.Literal) or not limit.is_int:
        return None
    number = int(limit.name)
    takes_first = number == least if isinstance(condition, exp.EQ) else number >= least
    return without_cast(condition.left) if takes_first else None


def _place(column: exp.Column) -> Place:
    return column.table.lower(), column.name.lower()


def _is_at(column: exp.Column, place: Place) -> bool:
    table, name = _place(column)
    return name == place[1] and _may_be_of(table, place)


def _may_be_of(table: str, place: Place) -> bool:
    """Whether a place is of a source, which is "" where it isn't named."""
    return not table or not place[0] or table == place[0]


def _given(place: Place, columns: Iterable[tuple[str, exp.Expr]]) -> list[Place]:
    """Where a select gives a column."""
    found = []
    for name, item in columns:
        if item.is_star:
            table, left_out = taken_by_star(item)
            if place[1] not in left_out and _may_be_of(table, place):
                found.append(("", place[1]))
            continue
        value = item.unalias()
        if isinstance(value, exp.Column) and _is_at(value, place):
            found.append(("", name))
    return found
