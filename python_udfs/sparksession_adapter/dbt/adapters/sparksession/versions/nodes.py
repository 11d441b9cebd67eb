"""Which nodes of a project have a place in versions, and which tables the project has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.sparksession.edges import Context, Node
from dbt.adapters.sparksession.keyed.tables import stored_table
from dbt.adapters.sparksession.warehouse import Warehouse

PUBLISHED_KINDS = ("model", "seed", "snapshot")


def is_relation(node: Mapping[str, Any]) -> bool:
    """Whether a node of the graph is a table or a view."""
    is_of_kind = node["resource_type"] in PUBLISHED_KINDS
    return is_of_kind and node["config"].get("materialized") != "ephemeral"


def is_published(node: Mapping[str, Any]) -> bool:
    """Whether a node of the graph has a place in versions: not with `meta: {published: false}`."""
    return is_relation(node) and node["config"].get("meta", {}).get("published", True)


def has_table(node: Mapping[str, Any]) -> bool:
    """Whether a node's rows are stored."""
    return node["config"].get("materialized") != "view"


def all_tables(warehouse: Warehouse) -> list[str]:
    """schema.name of the tables in the warehouse's schema, and of those of the project's nodes that
    have another schema (`schema` in their config), in order."""
    found = warehouse.tables()
    elsewhere: dict[str, set[str]] = {}
    for node in warehouse.manifest().nodes.values():
        is_stored = str(node.resource_type) in PUBLISHED_KINDS and node.config.materialized not in (
            "view",
            "ephemeral",
        )
        if is_stored and node.schema != warehouse.credentials.schema:
            table = stored_table(node.schema, node.alias, node.config.materialized)
            elsewhere.setdefault(node.schema, set()).add(table.lower())
    for schema, tables in elsewhere.items():
        held = [f"{schema}.{name}" for name in warehouse.listed(schema, "table")]
        # other tables of such a schema may be another project's
        found += [table for table in held if table.lower() in tables]
    return sorted(found)


def tests_of_run(context: Context) -> list[Node]:
    """The data tests that a run selects, by their ids."""
    nodes = context["graph"]["nodes"]
    selected = sorted(context.get("selected_resources") or ())
    found = (nodes.get(unique_id) for unique_id in selected)
    return [node for node in found if node is not None and node["resource_type"] == "test"]
