"""Mappings of YAML or of a macro's arguments, checked field by field by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

Name = Annotated[StrictStr, Field(min_length=1)]
Names = Annotated[list[StrictStr], Field(min_length=1)]


class Fields(BaseModel):
    """A mapping with these fields and no others. A field's description completes `.. must`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def known_fields(fields: type[Fields]) -> dict[str, str]:
    """Field, by its name in YAML -> what its value must be."""
    return {
        field.alias or name: field.description or "" for name, field in fields.model_fields.items()
    }


def field_errors(fields: type[Fields], given: Mapping[Any, Any]) -> dict[str, str | None]:
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
