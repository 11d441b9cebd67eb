"""The sides of a join, and what keeps their columns from being joined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dbt.adapters.sparksession.declared.join_bounds import AS_KNOWN_AT, KNOWN_FROM, KNOWN_TO
from dbt.adapters.sparksession.edges import Given, Json
from dbt.adapters.sparksession.keyed.layout import TIMES, WHOLE_NUMBERS, is_ordered_type_name
from dbt.adapters.sparksession.reading.ranges import values_of
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND

ALIASES = {"left": "left_row", "right": "right_row"}


def columns_asked(alias: str, condition: str) -> list[str]:
    """Columns of a side that a SQL condition names by its alias."""
    return re.findall(rf"\b{alias}\.`?(\w+)", condition)


@dataclass(frozen=True)
class Side:
    """One side of a join.

    Attributes:
        name: left or right.
        relation: what is read.
        key: columns that distinguish its rows.
        columns: column -> its name in the join, the key's first where they aren't named.
        times: columns that the join's bounds go by, by what they are: time, valid_from, valid_to;
            of a join by what was known at a time also as_known_at, known_from, known_to.
        sequence: of a stream of retract rows the columns that order the changes of a key; else [].
        tie_break: of the right side of asof_join the columns that order rows of one time.
        matched_by: columns that tell which rows of the other side match.
        types: column -> Spark type; empty where that is unknown.
        index: of the left side the index that finds its keys, see join_index; None without one.
    """

    name: str
    relation: Given
    key: list[str]
    columns: dict[str, str]
    times: dict[str, str]
    sequence: list[str] = field(default_factory=list)
    tie_break: list[str] = field(default_factory=list)
    matched_by: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    index: Given = None

    @property
    def indexed_by(self) -> list[str]:
        """Columns of an index of its rows, in their order."""
        return list(dict.fromkeys([*self.matched_by, *self.key]))

    @property
    def alias(self) -> str:
        return ALIASES[self.name]

    @property
    def uses(self) -> list[str]:
        """All columns that the join reads."""
        return list(dict.fromkeys([*self.columns, *self.matched_by]))

    @property
    def key_names(self) -> list[str]:
        """The key's columns by their names in the join."""
        return [self.columns[name] for name in self.key]

    def wanted_keys(self, columns: Sequence[str]) -> list[Json]:
        """Where its keys lie in a table with these columns, as arguments of PruningColumn."""
        return [
            values_of(column, self.types[column], column=name)
            for name, column in zip(columns, self.key, strict=True)
        ]


def _family(kind: str) -> str:
    """What values of a type can be equal to."""
    return "number" if kind in WHOLE_NUMBERS or kind.startswith("decimal") else kind


def column_problems(side: Side) -> list[str]:
    where = f"{side.name} ({side.relation.name_only.render()})"
    if not side.types:
        return [f"{where}: there is no such table or view; build it first"]
    if ROW_KIND in side.types and not side.sequence:
        return [
            f"{where}: it has a {ROW_KIND}, so it is a stream of retract rows: sequence must name "
            "the columns that order the changes of a key, in total; or join the folded model that "
            "keeps its current rows. A column of the data needs another name"
        ]
    if side.sequence and ROW_KIND not in side.types:
        return [
            f"{where}: sequence is for a stream of retract rows, which has a column {ROW_KIND}; "
            f"it has {', '.join(side.types)}"
        ]
    problems = [
        f"{where}: there is no column {name}; it has {', '.join(side.types)}"
        for name in dict.fromkeys([*side.uses, *side.sequence])
        if name not in side.types
    ]
    problems += [
        f"{where}: column {name} is {side.types[name]}, of which no two can be compared; give its "
        "model a column of to_json(..) to be joined instead"
        for name in dict.fromkeys([*side.columns, *side.tie_break])
        if not is_ordered_type_name(side.types.get(name, ""))
    ]
    return problems + [
        f"{where}: {what} column {name} is {side.types[name]}, must be a timestamp or a date"
        for what, name in side.times.items()
        if name in side.types and side.types[name] not in TIMES
    ]


def belief_problems(right: Side, asked: frozenset[str]) -> list[str]:
    """Beliefs that are joined as if they were versions: a fact would have each of them."""
    is_known = KNOWN_TO in right.times or asked & {KNOWN_FROM, KNOWN_TO}
    if is_known or not {KNOWN_FROM, KNOWN_TO} <= right.types.keys():
        return []
    return [
        f"right ({right.relation.name_only.render()}) holds beliefs ({KNOWN_FROM}, {KNOWN_TO}): "
        f"{AS_KNOWN_AT} must be a column of the left side or a moment; or join its zipper"
    ]


def type_problems(left: Side, right: Side, on: Mapping[str, str]) -> list[str]:
    return [
        f"on: {own} of the left side is {left.types[own]}, {other} of the right side "
        f"{right.types[other]}; cast one of them in its model"
        for own, other in on.items()
        if left.types and right.types and _family(left.types[own]) != _family(right.types[other])
    ]
