"""Declarations of a log's chain (`chain_links`); arguments of `retract_rows`, `side_by_side`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.edges import Given, Json, Settings
from dbt.adapters.sparksession.yaml_fields import (
    Fields,
    Names,
    field_errors,
    known_fields,
)
from pydantic import Field, StrictStr

A_LIST = "be a list of column names, got {value}"
Columns = Annotated[Names, Field(description=A_LIST)]
CHAIN_EXAMPLE = (
    "{'key_columns': ['order_id'], 'image_columns': ['order_id', 'amount', 'update_time'], "
    "'date_column': 'update_time'}"
)
RETRACT_EXAMPLE = (
    "retract_rows(from_cte='orders', image_columns=['order_id'], change_columns=['cut_date'])"
)
SIDES_EXAMPLE = (
    "side_by_side(keys=['cut_date'], domains={'traffic': ['pv', 'uv'], 'orders': ['gmv']})"
)


class Chain(Fields):
    """A chain's declaration."""

    key_columns: Columns
    image_columns: Columns
    altered_columns: Annotated[list[StrictStr], Field(description=A_LIST)] = []
    date_column: Annotated[
        StrictStr | None, Field(description="be the name of a column, got {value}")
    ] = None
    key_block: Annotated[StrictStr, Field(description="be SQL of a number, got {value}")] = ""


class RetractRows(Fields):
    """Arguments of `retract_rows`."""

    from_cte: Annotated[StrictStr, Field(description="be the name of a CTE, got {value}")]
    image_columns: Columns
    change_columns: Columns


class Sides(Fields):
    """Arguments of `side_by_side`."""

    keys: Columns
    domains: Annotated[
        dict[Given, list[StrictStr]],
        Field(min_length=2, description="map two CTEs or more to their measures, got {value}"),
    ]


def chain_plan(declared: Given) -> Json:
    """A chain's declaration, checked and with its defaults.

    Raises:
        DeclarationError: with all problems.
    """
    given = declared if isinstance(declared, Mapping) else {}
    problems = [] if given is declared else [f"it must be a mapping, got {declared}"]
    problems += _problems(Chain, given)
    if not problems:
        chain = Chain.model_validate(given)
        problems += _column_problems(chain)
    if problems:
        raise DeclarationError("the declaration of a chain", problems, CHAIN_EXAMPLE)
    plan = chain.model_dump()
    plan["key_block"] = chain.key_block or f"pmod(xxhash64({', '.join(chain.key_columns)}), 64)"
    return plan


def _column_problems(chain: Chain) -> Iterator[str]:
    """Error texts for columns that the images of a chain lack, or don't always have."""
    always_logged = [
        column for column in chain.image_columns if column not in chain.altered_columns
    ]
    for column in chain.key_columns:
        if column not in always_logged:
            yield f"key_columns must be image_columns that are not altered, got {column}"
    if chain.date_column and chain.date_column not in always_logged:
        yield (
            f"date_column must be one of image_columns that is not altered, got {chain.date_column}"
        )
    for column in chain.altered_columns:
        if column not in chain.image_columns:
            yield f"altered_columns must be image_columns, got {column}"


def check_retract_rows(arguments: Settings) -> None:
    """Check the arguments of `retract_rows`.

    Raises:
        DeclarationError: with all problems.
    """
    problems = list(_problems(RetractRows, arguments))
    if problems:
        raise DeclarationError("retract_rows", problems, RETRACT_EXAMPLE)


def check_side_by_side(arguments: Settings) -> None:
    """Check the arguments of `side_by_side`.

    Raises:
        DeclarationError: with all problems.
    """
    problems = list(_problems(Sides, arguments))
    domains = arguments["domains"]
    if not any(problem.startswith("domains") for problem in problems):
        names = [name for measures in domains.values() for name in measures]
        if len(set(names)) < len(names):
            problems.append(f"a measure may stand in one domain only, got {domains}")
    if problems:
        raise DeclarationError("side_by_side", problems, SIDES_EXAMPLE)


def _problems(fields: type[Fields], given: Settings) -> Iterator[str]:
    """Error texts for the fields of a mapping."""
    for name, wanted in field_errors(fields, given).items():
        if wanted is None:
            yield f"it has {name}, but only {', '.join(known_fields(fields))} are known"
        else:
            yield f"{name} must {wanted.format(value=given.get(name))}"
