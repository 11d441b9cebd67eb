"""Which counts the rows of a model are of."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from dbt.adapters.sparksession.declared.count_plans import (
    VALUE_AGGREGATES,
    count_plan,
    metric_plan,
)
from dbt.adapters.sparksession.declared.declarations import checked
from dbt.adapters.sparksession.edges import Given, Json, Node
from dbt.adapters.sparksession.inputs import sql_mark
from dbt.adapters.sparksession.keyed.tables import (
    stored_table_of,
)
from dbt.adapters.sparksession.read_plans import COUNTED_PROPERTY
from dbt.adapters.sparksession.sql_texts import QUOTED, without_comments
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import CompilationError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# the rows of a metric, in the SQL that metric_rows writes
ROWS_OF_METRIC = re.compile(
    r"\bfrom (\S+)\s+lateral view explode\(array\([^)]*\)\) dimension_sets\b"
)
PARENTHESES = re.compile(QUOTED + r"|[()]", re.DOTALL)
BEGINS_WITH = re.compile(r"\s*with\b", re.IGNORECASE)
SELECTS = re.compile(r"\s*select\b", re.IGNORECASE)
# types of which several values have one text, or a value several
WITHOUT_TEXTS = {
    **dict.fromkeys(("array", "map", "struct", "variant"), "several values may have one text"),
    **dict.fromkeys(("float", "double"), "0.0 and -0.0 are one value of two texts"),
}


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

    def check_values(self, model: Node, sql: str) -> None:
        """Look at the types of the columns whose distinct values a metric counts: it compares
        them by their texts.

        Args:
            sql: the model's compiled SQL.

        Raises:
            CompilationError: of a column's type equal texts may be of different values, or the
                other way round.
        """
        columns = sorted(set(self._counted_values(model)))
        sql = without_comments(sql)
        rows = ROWS_OF_METRIC.search(sql) if columns else None
        named = _with_clause(sql) if rows is not None else None
        if rows is None or named is None:
            return
        listed = ", ".join(f"{column} as value_{place}" for place, column in enumerate(columns))
        try:
            schema = self._warehouse.session().sql(f"{named}select {listed} from {rows[1]}").schema
        except (PySparkException, Py4JError):  # the statement that makes the rows reports it
            return
        problems = [
            f"{column} is {kind.simpleString()}, and {WITHOUT_TEXTS[kind.typeName()]}"
            for column, kind in zip(columns, (field.dataType for field in schema), strict=True)
            if kind.typeName() in WITHOUT_TEXTS
        ]
        if problems:
            raise CompilationError(
                f"{model['name']}: its metric compares the values of a column by their texts "
                f"({'; '.join(problems)}); give it a column of another type, such as "
                "to_json(..), or a decimal."
            )

    def _counted_values(self, model: Node) -> Iterator[str]:
        """Columns whose distinct values the metrics of a model count."""
        if self._warehouse.credentials.offline:
            return
        for count in self._warehouse.inputs.plan(model["unique_id"]).counts:
            for measure in count.get("metric", {}).get("measures", {}).values():
                if measure["aggregate"] in VALUE_AGGREGATES:
                    yield measure["column"]


def _with_clause(sql: str) -> str | None:
    """The common table expressions that a query begins with; None where it doesn't.

    >>> _with_clause("with a as (select ')' as x), b as (select 1) select * from b")
    "with a as (select ')' as x), b as (select 1) "
    """
    depth = 0
    for found in PARENTHESES.finditer(sql) if BEGINS_WITH.match(sql) else ():
        depth += (found[0] == "(") - (found[0] == ")")
        if depth == 0 and found[0] == ")" and SELECTS.match(sql, found.end()):
            return f"{sql[: found.end()]} "
    return None
