"""Declarations of a log's chain, see `chain_links`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from dbt.adapters.sparksession.declared.arguments import field_problems
from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.edges import Given, Json
from dbt.adapters.sparksession.yaml_fields import Fields, Names
from pydantic import Field, StrictStr

A_LIST = "be a list of column names, got {value}"
Columns = Annotated[Names, Field(description=A_LIST)]
CHAIN_EXAMPLE = (
    "{'key_columns': ['order_id'], 'image_columns': ['order_id', 'amount', 'update_time'], "
    "'date_column': 'update_time'}"
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


def chain_plan(declared: Given) -> Json:
    """A chain's declaration, checked and with its defaults.

    Raises:
        DeclarationError: with all problems.
    """
    given = declared if isinstance(declared, Mapping) else {}
    problems = [] if given is declared else [f"it must be a mapping, got {declared}"]
    problems += field_problems(Chain, given)
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
