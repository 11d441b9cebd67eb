"""Which nodes of a project have a place in versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.sparksession.edges import Context, Node

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


def tests_of_run(context: Context) -> list[Node]:
    """The data tests that a run selects, by their ids."""
    nodes = context["graph"]["nodes"]
    selected = sorted(context.get("selected_resources") or ())
    found = (nodes.get(unique_id) for unique_id in selected)
    return [node for node in found if node is not None and node["resource_type"] == "test"]
