"""Which columns distinguish the rows of a node: what it declares, and what its tests prove."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dbt.adapters.sparksession.edges import Node
from dbt.adapters.sparksession.sql import unquoted


def declared_key(node: Node) -> list[str]:
    """Columns that a node declares as its key; none where it declares no key.

    A snapshot's unique_key is its source's: it has a row for each version of it.
    """
    config = node["config"]
    if node["resource_type"] == "snapshot":
        return [(config.get("snapshot_meta_column_names") or {}).get("dbt_scd_id") or "dbt_scd_id"]
    given = config.get("unique_key")
    return list(map(unquoted, [given] if isinstance(given, str) else given or []))


def key_of(node: Node | None, columns: Iterable[str], tested: Sequence[str] = ()) -> list[str]:
    """Columns that distinguish the rows of a node; none where it doesn't say.

    Args:
        columns: of its rows.
        tested: columns that are unique together by a test; see keys_by_test.
    """
    columns = list(columns)
    keys = declared_key(node) if node is not None else []
    if not keys and "unique_key" in columns:
        keys = ["unique_key"]
    keys = keys or list(tested)
    return keys if set(keys) <= set(columns) else []


def keys_by_test(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Node id -> columns that a test of its own, `unique_combination` or `unique`, holds to be
    unique in all of its rows."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        test = node.get("test_metadata") or {}
        if test.get("name") not in ("unique_combination", "unique") or node["config"].get("where"):
            continue
        given = test["kwargs"].get("columns") or [test["kwargs"].get("column_name")]
        if node.get("attached_node") and all(isinstance(column, str) for column in given):
            found.setdefault(node["attached_node"], list(given))
    return found
