"""Mappings of YAML, of a config or of a macro's arguments, checked field by field by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, TypeGuard, TypeVar

from dbt.adapters.sparksession.clock import condition_asks_clock
from dbt.adapters.sparksession.edges import Given
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
)


def is_mapping(value: Given) -> TypeGuard[Mapping[Given, Given]]:
    """Whether a macro was given a mapping. Not dbt's relations, which count as mappings and fail
    where a value is asked of them."""
    return isinstance(value, Mapping) and not hasattr(value, "render")


def _listed(value: Given) -> Given:
    """A name as a list of one name."""
    return (value,) if isinstance(value, str) else value


def _relation(value: Given) -> Given:
    if not hasattr(value, "render"):
        raise ValueError("no relation")
    return value


def _steady(text: str | None) -> str | None:
    if condition_asks_clock(text):
        raise ValueError("asks the clock or chance")
    return text


Name = Annotated[StrictStr, Field(min_length=1)]
Names = Annotated[list[StrictStr], Field(min_length=1)]
# a name or a list of names; `Columns` are at least one
NoColumns = Annotated[tuple[Name, ...], BeforeValidator(_listed)]
Columns = Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]
WholeNumber = Annotated[StrictInt, Field(ge=1, description="be a whole number from 1")]
# of a macro's argument that takes ref(..) or source(..)
RelationGiven = Annotated[
    Given, AfterValidator(_relation), Field(description="be ref(..) or source(..)")
]
Text = Annotated[StrictStr | None, Field(description="be a text")]
# on rows that are looked at when they come: one by the clock would hold of a row at another time
Condition = Annotated[
    StrictStr | None,
    AfterValidator(_steady),
    Field(description="be a SQL condition that asks neither the clock nor chance"),
]


class Fields(BaseModel):
    """A mapping with these fields and no others. A field's description completes `.. must`.

    Attributes:
        NEEDED: fields that must be given, though they have a default for `read_fields`.
    """

    NEEDED: ClassVar[tuple[str, ...]] = ()

    model_config = ConfigDict(extra="forbid", frozen=True)


Declared = TypeVar("Declared", bound=Fields)


def known_fields(fields: type[Fields]) -> dict[str, str]:
    """Field, by its name in YAML -> what its value must be."""
    return {
        field.alias or name: field.description or "" for name, field in fields.model_fields.items()
    }


def field_errors(fields: type[Fields], given: Mapping[Given, Given]) -> dict[str, str | None]:
    """The wrong fields of a mapping -> what their values must be, or None if they are unknown.

    Unknown fields come first, then wrong fields in the order in which `fields` declares them.
    """
    try:
        fields.model_validate({str(key): value for key, value in given.items()})
    except ValidationError as error:
        wrong = {str(found["loc"][0]) for found in error.errors(include_url=False)}
        known = known_fields(fields)
        unknown: dict[str, str | None] = {
            str(key): None for key in given if str(key) in wrong - known.keys()
        }
        return unknown | {key: wanted for key, wanted in known.items() if key in wrong}
    return {}


def read_fields(
    fields: type[Declared],
    given: Mapping[Given, Given],
    where: str,
    problems: list[str],
) -> Declared:
    """The fields of a mapping; those that are wrong have their defaults.

    Args:
        where: what the problems begin with, such as `fold.`.
        problems: gets a text for each wrong field.
    """
    given = dict.fromkeys(fields.NEEDED) | dict(given)
    wrong = field_errors(fields, given)
    known = known_fields(fields)
    for name, wanted in wrong.items():
        if wanted is None:
            problems.append(
                f"{where}{name} is an unknown setting; expected one of {', '.join(known)}"
            )
        else:
            problems.append(f"{where}{name} must {wanted}, got {given.get(name)!r}")
    return fields.model_validate(
        {str(name): value for name, value in given.items() if str(name) not in wrong}
    )
