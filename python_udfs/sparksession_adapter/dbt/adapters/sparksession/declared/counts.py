"""Which counts the rows of a model are of."""

from __future__ import annotations

import json
from collections.abc import Collection

from dbt.adapters.sparksession.declared.count_plans import count_plan, metric_plan
from dbt.adapters.sparksession.declared.declarations import checked
from dbt.adapters.sparksession.edges import Given, Json, Node
from dbt.adapters.sparksession.inputs import sql_mark
from dbt.adapters.sparksession.keyed.tables import (
    stored_table_of,
)
from dbt.adapters.sparksession.read_plans import COUNTED_PROPERTY
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import CompilationError


class CountModels:
    """Checks what counts and metrics declare, and records it with the rows that they count."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def count_plan(self, declared: Given) -> Json:
        """A count's declaration as a plan, see count_plans.py.

        Raises:
            CompilationError: with all problems.
        """
        return checked(count_plan, declared)

    def metric_plan(self, declared: Given, sizes: Collection[str]) -> Json:
        """A metric's declaration as a plan, see count_plans.py.

        Args:
            sizes: the grains that there are.

        Raises:
            CompilationError: with all problems.
        """
        return checked(metric_plan, declared, sizes)

    def record_count(self, model: Node, count: Json, incremental: bool) -> None:
        """Let the model's next commit say what its rows count.

        Args:
            count: what they depend on, of the count's declaration.

        Raises:
            CompilationError: what is stored was counted differently.
        """
        if self._warehouse.credentials.offline:
            return
        plan = self._warehouse.inputs.plan(model["unique_id"])
        count = count | {"sql": sql_mark(model["raw_code"])}
        if incremental:
            table = stored_table_of(model)
            history = plan.own.history if plan.own else self._warehouse.history(table)
            stored = history.recorded(COUNTED_PROPERTY, table)
            if stored is not None and count not in json.loads(stored):
                raise CompilationError(
                    f"{model['name']}: what is stored was counted differently, by another "
                    f"declaration or another SQL of the model: it was {stored}, is "
                    f"{json.dumps(count)}. Run it with --full-refresh."
                )
        counts = plan.counts if count in plan.counts else (*plan.counts, count)
        self._warehouse.inputs.note(model["unique_id"], counts=counts)
        properties = {COUNTED_PROPERTY: json.dumps(counts)}
        self._warehouse.inputs.note_properties(model["unique_id"], properties)
