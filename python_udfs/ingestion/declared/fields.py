"""Mappings of YAML, checked field by field by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictStr, ValidationError


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _with_text_keys(value: Any) -> Any:
    """YAML reads a key such as 1 or true as no text."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


Names = Annotated[tuple[StrictStr, ...], BeforeValidator(_as_list)]  # a name, or a list of them
TextKeys = BeforeValidator(_with_text_keys)


class Fields(BaseModel):
    """A mapping whose fields all have defaults.

    A field's description completes `.. must`, its title does so for the entries of a mapping.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, given: Mapping[Any, Any]) -> tuple[Self, list[str]]:
        """Read the fields; a wrong one gets its default, a wrong entry of a mapping nothing.

        Returns:
            The fields, and one sentence for each problem.
        """
        problems: dict[str, str] = {}
        right = {str(name): value for name, value in given.items()}
        try:
            return cls.model_validate(right), []
        except ValidationError as error:
            found = error.errors(include_url=False)
        for mistake in found:
            name, *inner = mistake["loc"]
            field = cls.model_fields.get(str(name))
            if field is None:
                right.pop(str(name), None)
                problems[str(name)] = (
                    f"`{name}` is not known (known: {', '.join(cls.model_fields)})"
                )
                continue
            value, label, wanted = given[name], str(name), field.description
            if inner and isinstance(value, dict):
                entries = _with_text_keys(value)
                label, value = f"{name}.{inner[0]}", entries.get(str(inner[0]))
                wanted = field.title
                right[str(name)] = {**_with_text_keys(right[str(name)]), str(inner[0]): ()}
            else:
                right.pop(str(name), None)
            problems[label] = f"`{label}` must {wanted}, got {value!r}"
        return cls.model_validate(right), list(problems.values())
