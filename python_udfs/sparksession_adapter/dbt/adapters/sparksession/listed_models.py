"""Typed tables that the project's macro `typed_models` doesn't name."""

from __future__ import annotations

from typing import Any

from dbt.adapters.base.meta import AdapterMeta, available

LIST = "typed_models"


class ListedModels(metaclass=AdapterMeta):
    """What the adapter knows of that list."""

    @available
    def unlisted_tables(self) -> list[str]:
        """Names of the models with a `meta.source` that a model which goes by the list leaves out;
        [] in a project without the list."""
        adapter: Any = self
        manifest = adapter.get_macro_resolver()
        nodes = [one for one in manifest.nodes.values() if one.resource_type == "model"]
        lists = {key for key, one in manifest.macros.items() if one.name == LIST}
        going_by_it = [one for one in nodes if lists & set(one.depends_on.macros)]
        if not going_by_it:
            return []
        listed = set.intersection(*(set(one.depends_on.nodes) for one in going_by_it))
        return sorted(
            one.name
            for one in nodes
            if one.config.meta.get("source") and one.unique_id not in listed
        )
