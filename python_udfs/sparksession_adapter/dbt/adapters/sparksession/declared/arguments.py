"""Arguments of macros that declare nothing of their own: all problems at once, with an example."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Literal

from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.edges import Given, Settings
from dbt.adapters.sparksession.yaml_fields import Fields, Names, field_errors, known_fields
from pydantic import BeforeValidator, Field, StrictInt, StrictStr, TypeAdapter, ValidationError


def _day(value: Given) -> Given:
    """A day as text, of a date as YAML reads it too."""
    if value is None or isinstance(value, date):
        return value
    if str(date.fromisoformat(str(value))) != str(value):
        raise ValueError("not written as 2026-03-01")
    return value


Columns = Annotated[Names, Field(description="be a list of column names, got {value}")]


class Arguments(Fields):
    """The arguments of one macro."""

    def problems(self) -> list[str]:
        """What is wrong with the arguments together, where each is right by itself."""
        return []


class RetractRows(Arguments):
    """Arguments of `retract_rows`."""

    from_cte: Annotated[StrictStr, Field(description="be the name of a CTE, got {value}")]
    image_columns: Columns
    change_columns: Columns


class SideBySide(Arguments):
    """Arguments of `side_by_side`."""

    keys: Columns
    domains: Annotated[
        dict[Given, list[StrictStr]],
        Field(min_length=2, description="map two CTEs or more to their measures, got {value}"),
    ]

    def problems(self) -> list[str]:
        names = [name for measures in self.domains.values() for name in measures]
        if len(set(names)) == len(names):
            return []
        return [f"a measure may stand in one domain only, got {self.domains}"]


class ToDate(Arguments):
    """Arguments of `to_date`."""

    as_of: Annotated[Given, BeforeValidator(_day), Field(description="be a day, got '{value}'")] = (
        None
    )


class Compared(Arguments):
    """Arguments of `compared`."""

    level: Annotated[
        Literal["totals", "days", "sums"],
        Field(description="be totals, days or sums, got '{value}'"),
    ]


# macro -> its arguments and a call of it
ARGUMENTS: Mapping[str, tuple[type[Arguments], str]] = {
    "retract_rows": (
        RetractRows,
        "retract_rows(from_cte='orders', image_columns=['order_id'], change_columns=['cut_date'])",
    ),
    "side_by_side": (
        SideBySide,
        "side_by_side(keys=['cut_date'], domains={'traffic': ['pv', 'uv'], 'orders': ['gmv']})",
    ),
    "to_date": (ToDate, "to_date(user_status(), days=ref('days'), as_of='2026-03-01')"),
    "compared": (Compared, "compared(user_status(), got='totals', expected='recounted')"),
}


def check_arguments(macro: str, arguments: Settings) -> None:
    """Check the arguments of one of ARGUMENTS.

    Raises:
        DeclarationError: with all problems.
    """
    fields, example = ARGUMENTS[macro]
    problems = list(field_problems(fields, arguments))
    if not problems:
        problems = fields.model_validate(arguments).problems()
    if problems:
        raise DeclarationError(macro, problems, example)


def check_whole_numbers(macro: str, least: int, given: Settings, example: str) -> None:
    """Check the arguments of a macro that are whole numbers.

    Args:
        least: the smallest that is allowed.
        given: name of the argument -> value.
        example: where they come from, or how they are written.

    Raises:
        DeclarationError: with all problems.
    """
    whole_number = TypeAdapter(Annotated[StrictInt, Field(ge=least)])
    problems = []
    for name, value in given.items():
        try:
            whole_number.validate_python(value)
        except ValidationError:
            problems.append(f"{name} must be a whole number from {least}, got {value}")
    if problems:
        raise DeclarationError(macro, problems, example)


def check_unique_key(model: str, unique_key: Given) -> None:
    """Check what a model of strategy merge goes by.

    Raises:
        DeclarationError: there is none.
    """
    if not unique_key:
        problem = "incremental_strategy merge needs a unique_key"
        raise DeclarationError(model, [problem], "unique_key=['order_id']")


def check_grain(macro: str, grain: Given, sizes: Collection[str]) -> None:
    """Check the grain of a window.

    Args:
        sizes: the grains that there are.

    Raises:
        DeclarationError: there is none of that name.
    """
    if grain not in sizes:
        problem = f"grain must be one of {', '.join(sizes)}, got '{grain}'"
        raise DeclarationError(macro, [problem], f"{macro}('viewed_at', '1h')")


def columns_of_interest(table_model: str, declared: Given, counted: Sequence[str]) -> list[str]:
    """The columns_of_interest of a typed model, for `is_of_interest`.

    Args:
        table_model: its name.
        declared: `columns_of_interest` of its `meta.source`.
        counted: columns that decide the rows and values of the count that reads it.

    Raises:
        DeclarationError: there are none, or they lack columns that are counted by.
    """
    if not declared:
        problem = f"{table_model} must be a typed model whose meta.source has columns_of_interest"
    elif lacking := [column for column in dict.fromkeys(counted) if column not in declared]:
        problem = (
            f"the count goes by {', '.join(lacking)}, which the columns_of_interest of "
            f"{table_model} lack: changes of it would not be counted"
        )
    else:
        return list(declared)
    raise DeclarationError("is_of_interest", [problem], "columns_of_interest: [user_id, amount]")


def field_problems(fields: type[Fields], given: Settings) -> Iterator[str]:
    """Error texts for the fields of a mapping."""
    for name, wanted in field_errors(fields, given).items():
        if wanted is None:
            yield f"it has {name}, but only {', '.join(known_fields(fields))} are known"
        else:
            yield f"{name} must {wanted.format(value=given.get(name))}"
