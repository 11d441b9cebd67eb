"""Seeds and snapshots: whether their tables are as they are declared."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from dbt.adapters.sparksession.clock import goes_by_clock
from dbt.adapters.sparksession.iceberg.history import (
    SNAPSHOT_READ,
)
from dbt.adapters.sparksession.inputs import PROPERTY_SETTING
from dbt.adapters.sparksession.keyed.tables import (
    FOLDED,
)
from dbt.adapters.sparksession.read_plans import OwnCommits
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.reading.view_marks import without_view_marks
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import CompilationError

DECLARED_PROPERTY = "dbt.declared"  # hash of what a seed or snapshot was declared as


def _cell_text(cell: Any) -> str | None:
    if cell is None:
        return None
    # `1e3` reads as Decimal("1E+3"), which Spark casts to no whole number
    return f"{cell:f}" if isinstance(cell, Decimal) else str(cell)


class Seeds:
    """Loads seeds, and decides which seeds and snapshots need no run."""

    def __init__(self, warehouse: Warehouse, reads: TableReads) -> None:
        self._warehouse = warehouse
        self._reads = reads

    def _is_declared_so(
        self, node: Mapping[str, Any], relation: Any, queries: Sequence[str] = ()
    ) -> bool:
        """Whether the newest commit of a node's table was made by the same declaration, file and
        queries; the node's next commit will tell its own."""
        declaration = [
            node[key] for key in ("checksum", "config", "description", "columns", "raw_code")
        ]
        declaration += queries
        text = json.dumps(declaration, sort_keys=True, default=str)
        declared = hashlib.sha256(text.encode()).hexdigest()
        self._warehouse.set_snapshot_property(DECLARED_PROPERTY, declared)
        table = relation.name_only.render()
        own = self._warehouse.history(table)
        self._warehouse.inputs.note(node["unique_id"], own=OwnCommits(table, own))
        newest = own.newest
        return newest is not None and newest.summary.get(DECLARED_PROPERTY) == declared

    def end_declared(self) -> None:
        """Let no commit of the hooks behind a node state what the node was declared as: its table
        has other rows by then, and is to be made again before they write once more."""
        self._warehouse.session().conf.unset(PROPERTY_SETTING + DECLARED_PROPERTY)

    def snapshot_is_taken(
        self, model: Mapping[str, Any], relation: Any, context: dict[str, Any]
    ) -> bool:
        """Whether the snapshot's table has been compared with all inputs as they are now.

        Of inputs that are neither Iceberg tables nor views of the project nobody knows: no. Nor of
        queries that go by the clock.
        """
        graph = context["graph"]
        # vars may stand in them; which snapshots they name is looked at below
        queries = [SNAPSHOT_READ.sub(" ", without_view_marks(model["compiled_code"]))]
        for unique_id in model["depends_on"]["nodes"]:
            parent = graph["nodes"].get(unique_id) or graph["sources"][unique_id]
            reading = self._reads.read(
                model, self._warehouse.read_for(parent, model), "all", context
            ).render()
            queries.append(SNAPSHOT_READ.sub(" ", reading))
        same = self._is_declared_so(model, relation, queries)
        same = same and not any(map(goes_by_clock, queries))
        plan = self._warehouse.inputs.plan(model["unique_id"])
        known = set(plan.reads)
        for node in graph["nodes"].values():
            if node["config"].get("materialized") in ("view", FOLDED):
                known.add(f"{node['schema']}.{node['alias']}")
        self._reads.record_inputs(model)
        if not (same and plan.relations <= known and self._reads.nothing_new(model, graph)):
            return False
        reads = {table: replace(read, rows=0) for table, read in plan.reads.items()}
        self._warehouse.inputs.note(model["unique_id"], reads=reads)
        return True

    def seed_is_loaded(self, model: Mapping[str, Any], relation: Any) -> bool:
        """Whether the newest commit of the seed's table loaded the seed as it is now.

        dbt doesn't look into files above 1 MB: those are loaded again.
        """
        return self._is_declared_so(model, relation) and model["checksum"]["name"] != "path"

    def check_header(self, model: Mapping[str, Any], table: Any) -> None:
        """Refuse a header that dbt itself would fail on, as its columns aren't in quotes, and a
        single column of several names: the file has another delimiter.

        Raises:
            CompilationError: a name of the header isn't plain.
        """
        names, quoted = list(table.column_names), model["config"].get("quote_columns")
        odd = [name for name in names if not re.fullmatch(r"\w+", name)]
        if not odd or quoted or (quoted is None and len(names) > 1):
            return
        raise CompilationError(
            f"{model['name']}: its header has the column {odd[0]}, and a column that isn't in "
            f"quotes has letters, digits and _ alone; its delimiter is "
            f"'{model['config'].get('delimiter', ',')}': set the file's own, or "
            "quote_columns: true"
        )

    def stage_seed(self, view: str, table: Any) -> None:
        """Make a temporary view of a seed's cells as text; empty cells are null.

        No cell becomes SQL, so any text comes through as it is.
        """
        names = list(table.column_names)
        rows = [[_cell_text(cell) for cell in row.values()] for row in table.rows]
        schema = ", ".join(f"`{name.replace('`', '``')}` string" for name in names)
        self._warehouse.session().createDataFrame(rows, schema).createOrReplaceTempView(view)
