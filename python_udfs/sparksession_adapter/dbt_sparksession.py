"""A dbt plugin, which dbt finds by its module's name: validates declarations at parse time.

It does nothing in projects of other adapters.
"""

from __future__ import annotations

from typing import Any

from dbt.plugins import dbt_hook, dbtPlugin

ADAPTER = "sparksession"


class DeclarationChecks(dbtPlugin):
    """Looks at what models declare whenever dbt has parsed a project.

    dbt-core calls its plugins experimental: another dbt-core than the pinned one may not ask
    them, and then each run reports the mistakes, before anything is done.
    """

    @dbt_hook
    def get_manifest_artifacts(self, manifest: Any) -> dict[str, Any]:
        """Nothing to write; a manifest with mistakes is an error."""
        if manifest.metadata.adapter_type == ADAPTER:
            from dbt.adapters.factory import get_adapter_by_type

            get_adapter_by_type(ADAPTER).declarations.check_declarations(manifest)
        return {}


plugins = [DeclarationChecks]
