"""The parts of a fold: columns that one sequence rules, functions of columns, derived rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Given
from dbt.adapters.sparksession.keyed.layout import HIDDEN
from dbt.adapters.sparksession.sql import quoted

UPSERT, TIE, ORDER, STATE = (f"{HIDDEN}{name}__" for name in ("upsert", "tie", "order", "state"))
REVERSED = f"{HIDDEN}reversed__"
DELETED = f"{HIDDEN}deleted__"
ROW_COUNT = f"{HIDDEN}row_count"  # net count of a key's rows
VALUES = f"{HIDDEN}values__"  # net count of the values in a sum
FOLDED_ROWS = "folded_rows"  # what derived rows are made of
OTHERS = "other"  # name of the group of all columns that no declared group rules


@dataclass(frozen=True)
class Aggregate:
    """How the values of one column become one.

    Attributes:
        function: see AggregateSettings.
        ignore_retract: whether rows that retract pass it by.
        netted: whether it keeps the net count of each value, so that it retracts.
        delimiter: between the values of listagg.
        distinct: whether collect has each value once, else as often as it is there.
        elements: whether collect takes the elements of its values, which are arrays.
    """

    function: str
    ignore_retract: bool = False
    netted: bool = False
    delimiter: str = ","
    distinct: bool = True
    elements: bool = False

    @property
    def counts(self) -> bool:
        """Whether its state is each value with its count."""
        return self.netted or not self.distinct

    @property
    def stored_as(self) -> list[Given]:
        """What its state depends on."""
        how: list[Given] = [self.function, self.ignore_retract, self.netted]
        return how if self.distinct and not self.elements else [*how, self.distinct, self.elements]


@dataclass(frozen=True)
class Derived:
    """Rows that readers see instead of the folded rows, made of them.

    Attributes:
        by: columns of the key; the rows of one value of them are made of its folded rows alone.
        key: columns that distinguish the derived rows.
        sql: query of them from `folded_rows`.
    """

    by: tuple[str, ...]
    key: tuple[str, ...]
    sql: str


@dataclass(frozen=True)
class Group:
    """Columns that one sequence rules.

    Attributes:
        sequence: columns; a row where all are null has no effect on the group, one that is lower
            than what is known changes nothing.
        tie_break: columns that decide between equal sequences.
        descending: those of both whose lowest value is the newest; a null is older than any value
            in either direction.
        columns: columns that hold the values of the row of the highest sequence.
        on_delete: what a retracting row does, see OnDelete.
    """

    name: str
    sequence: tuple[str, ...] = ()
    tie_break: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    on_delete: str = "retract"
    descending: tuple[str, ...] = ()

    @property
    def keeps_tie(self) -> bool:
        """Whether its tie break is kept in a column of its own; that of the others is in theirs."""
        return self.name != OTHERS and bool(self.tie_break)

    @property
    def order(self) -> tuple[str, ...]:
        """State columns that order the rows, the first columns first."""
        if self.keeps_tie:
            return (*self.sequence, TIE + self.name)
        return (*self.sequence, *self.tie_break)

    def directed(self, names: Iterable[str]) -> list[Given]:
        """Columns of its order as a config declares them."""
        return [
            {"column": name, "order": "descending"} if name in self.descending else name
            for name in names
        ]

    @property
    def is_there(self) -> str:
        """SQL condition: a row has something to say of the group."""
        return any_known(self.sequence or self.order)


def any_known(names: Iterable[str]) -> str:
    """SQL condition: one of the columns isn't null; true where there are none."""
    return " or ".join(f"{quoted(name)} is not null" for name in names) or "true"
