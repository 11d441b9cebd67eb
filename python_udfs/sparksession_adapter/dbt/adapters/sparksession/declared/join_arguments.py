"""Arguments of the join macros, as pydantic checks them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from dbt.adapters.sparksession.declared.join_bounds import KNOWN_FROM, KNOWN_TO
from dbt.adapters.sparksession.edges import Given, Settings
from dbt.adapters.sparksession.yaml_fields import (
    Columns,
    Condition,
    Fields,
    Name,
    NoColumns,
    RelationGiven,
    is_mapping,
)
from pydantic import BeforeValidator, Field, StrictBool

Kind = Literal["inner", "left", "full", "semi", "anti"]
# kinds that keep or drop left rows, and have no columns of the right side
FILTERS = ("semi", "anti")
# a column of a join of kind full: on which sides a row was found, both, left or right
FOUND_IN = "found_in"


def mapped_columns(columns: Given) -> Given:
    """Columns as a mapping to their names in the join."""
    if isinstance(columns, str):
        return {columns: columns}
    if isinstance(columns, (list, tuple)):
        return {name: name for name in columns if isinstance(name, str)} or None
    return columns


Time = Annotated[Name, Field(description="name a column")]
SequenceColumns = Annotated[NoColumns, Field(description="name columns")]


class SideArguments(Fields):
    """What every side of a join names."""

    NEEDED: ClassVar[tuple[str, ...]] = ("relation", "key", "columns")

    relation: RelationGiven = None
    key: Annotated[Columns, Field(description="name the columns that distinguish its rows")] = ()
    columns: Annotated[
        dict[Name, Name],
        BeforeValidator(mapped_columns),
        Field(min_length=1, description="list columns or map them to their names in the join"),
    ] = {}


class PlainSide(SideArguments):
    """A side that is joined by its columns alone."""

    sequence: SequenceColumns = ()
    index: RelationGiven = None


class TimedSide(SideArguments):
    """A side whose rows have a time."""

    NEEDED: ClassVar[tuple[str, ...]] = (*SideArguments.NEEDED, "time")

    time: Time = ""
    sequence: SequenceColumns = ()
    index: RelationGiven = None


class OrderedSide(TimedSide):
    """A side whose rows have a time and an order among those of one time."""

    tie_break: SequenceColumns = ()


class VersionedSide(SideArguments):
    """A side whose rows are versions."""

    valid_from: Time = "valid_from"
    valid_to: Time = "valid_to"
    known_from: Time = KNOWN_FROM
    known_to: Time = KNOWN_TO
    sequence: SequenceColumns = ()


class EqualColumn(Fields):
    """A column of the right side that a column of the left side equals, where it isn't a name."""

    column: Name
    null_safe: StrictBool = False


class JoinArguments(Fields):
    """What a join takes beside its sides."""

    on: Annotated[
        dict[Name, Name | EqualColumn],
        Field(
            min_length=1,
            description="map columns of the left side to equal columns of the right side, or to "
            "{'column': .., 'null_safe': true}",
        ),
    ] = {}
    kind: Annotated[Kind, Field(description=f"be one of {', '.join(get_args(Kind))}")] = "inner"
    condition: Condition = None


# form -> what its left and its right side name
Sides = PlainSide | TimedSide | OrderedSide | VersionedSide
FORMS: dict[str, tuple[type[Sides], type[Sides]]] = {
    "interval_join": (TimedSide, TimedSide),
    "temporal_join": (TimedSide, VersionedSide),
    "history_join": (TimedSide, TimedSide),
    "asof_join": (TimedSide, OrderedSide),
}


def right_given(given: Settings, problems: list[str]) -> Given:
    """The right side as it is given; of a join without its columns they are its key."""
    right = given["right"]
    if given["kind"] not in FILTERS or not is_mapping(right):
        return right
    if "columns" in right:
        problems.append(f"right.columns must not be given: a join of kind {given['kind']} has none")
    return {**right, "columns": right.get("key")}


def equal_columns(arguments: JoinArguments) -> tuple[dict[str, str], frozenset[str]]:
    """Column of the left side -> column of the right side, and those whose nulls are equal."""
    given = arguments.on.items()
    on = {own: other if isinstance(other, str) else other.column for own, other in given}
    return on, frozenset(
        own for own, other in given if not isinstance(other, str) and other.null_safe
    )
