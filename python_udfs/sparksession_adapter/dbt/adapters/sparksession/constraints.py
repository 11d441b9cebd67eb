"""Constraints of a contract that the query of a model holds itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dbt.adapters.base import ConstraintSupport
from dbt.adapters.sparksession.edges import Node
from dbt.adapters.sparksession.keyed.tables import stored_table_of
from dbt.adapters.sparksession.sql import mark_of, quoted
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.exceptions import CompilationError

# what isn't supported dbt names in a warning: a data test holds it
SUPPORT = {
    ConstraintType.check: ConstraintSupport.ENFORCED,
    ConstraintType.not_null: ConstraintSupport.ENFORCED,
    ConstraintType.unique: ConstraintSupport.NOT_SUPPORTED,
    ConstraintType.primary_key: ConstraintSupport.NOT_SUPPORTED,
    ConstraintType.foreign_key: ConstraintSupport.NOT_SUPPORTED,
}
# of a commit: by which constraints the table's rows were looked at
HELD_PROPERTY = "dbt.constraints"


class HeldConstraints:
    """Sees whether the rows that a model holds were looked at by its constraints as they are."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def are_new(self, model: Node) -> bool:
        """Whether rows that the model holds were written under other constraints, or older adapters
        wrote them; its next commit records those of now."""
        broken_when = {
            name: sorted(guard["broken_when"] for guard in guards)
            for name, guards in guards_of(model).items()
        }
        mark, table = mark_of(json.dumps(broken_when, sort_keys=True)), stored_table_of(model)
        self._warehouse.set_snapshot_property(HELD_PROPERTY, mark)
        return self._warehouse.history(table).recorded(HELD_PROPERTY, table) != mark


def guards_of(model: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """What a model's rows are looked at for.

    Args:
        model: a node of dbt, with `columns` and `constraints`.

    Returns:
        Name of a column -> guards: `broken_when` is SQL over the row, `problem` the error's text.
        Those of the whole row stand with the first column.

    Raises:
        CompilationError: a check without an expression, or a constraint of a column that the model
            doesn't declare.
    """
    found: dict[str, list[dict[str, str]]] = {}
    for column, constraint in _by_column(model):
        problem, condition = _guard(model["name"], column, constraint)
        found.setdefault(column, []).append({"broken_when": condition, "problem": problem})
    return found


def _by_column(model: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    held = (ConstraintType.check, ConstraintType.not_null)
    for column in model["columns"].values():
        for constraint in column.get("constraints") or []:
            if constraint["type"] in held:
                yield column["name"], constraint
    for constraint in model.get("constraints") or []:
        if constraint["type"] == ConstraintType.check:
            yield next(iter(model["columns"])), constraint
        elif constraint["type"] == ConstraintType.not_null:
            for name in constraint.get("columns") or []:
                if name not in model["columns"]:
                    raise CompilationError(
                        f"A not_null constraint of {model['name']} names the column {name!r}, "
                        f"which it doesn't declare; it has {', '.join(model['columns'])}."
                    )
                yield name, constraint


def _guard(model: str, column: str, constraint: Mapping[str, Any]) -> tuple[str, str]:
    if constraint["type"] == ConstraintType.not_null:
        return (
            f"{model}: the constraint not_null of {column} is broken, a row has null there.",
            f"{quoted(column)} is null",
        )
    expression = constraint.get("expression")
    if not expression:
        raise CompilationError(
            f"A check constraint of {model} needs an expression, such as expression: amount >= 0."
        )
    name = constraint.get("name") or expression
    return f"{model}: the constraint check ({name}) is broken by a row.", f"not ({expression})"
