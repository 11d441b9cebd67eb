"""A hash of what dbt's graph holds of the project."""

from __future__ import annotations

import json

from dbt.adapters.sparksession.edges import Graph
from dbt.adapters.sparksession.sql import mark_of

OF_A_BATCH = "__dbt_internal_microbatch_"  # dbt writes a batch's times into the config


def graph_mark(nodes: Graph) -> str:
    """A short hash of what dbt's graph holds of the project beside SQL: names, configs, columns."""
    asked = {
        *("name", "resource_type", "config", "columns", "tags", "meta", "description"),
        *("depends_on", "schema", "alias", "relation_name"),
    }
    found = {}
    for name, node in nodes.items():
        if node.resource_type in ("model", "seed", "snapshot", "source"):
            values = node.to_dict(omit_none=True)
            config = values.get("config") or {}
            for key in [key for key in config if key.startswith(OF_A_BATCH)]:
                del config[key]
            found[name] = {key: values[key] for key in values.keys() & asked}
    return mark_of(json.dumps(found, sort_keys=True, default=str))
