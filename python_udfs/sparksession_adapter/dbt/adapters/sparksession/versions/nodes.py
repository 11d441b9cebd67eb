"""Which nodes of a project have a place in versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PUBLISHED_KINDS = ("model", "seed", "snapshot")


def is_published(node: Mapping[str, Any]) -> bool:
    """Whether a node of the graph has a place in versions: not with `meta: {published: false}`."""
    return (
        node["resource_type"] in PUBLISHED_KINDS
        and node["config"].get("materialized") != "ephemeral"
        and node["config"].get("meta", {}).get("published", True)
    )


def has_table(node: Mapping[str, Any]) -> bool:
    """Whether a node's rows are stored."""
    return node["config"].get("materialized") != "view"


def is_test_parent(node: Mapping[str, Any]) -> bool:
    """Whether a node is a table, or a view whose query over tables is known, so that what a data
    test reads of it is known too."""
    is_built = node["resource_type"] in PUBLISHED_KINDS
    return is_built and node["config"].get("materialized") != "ephemeral"
