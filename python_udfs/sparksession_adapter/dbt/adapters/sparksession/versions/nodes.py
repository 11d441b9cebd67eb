"""Which nodes of a project have a place in versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
