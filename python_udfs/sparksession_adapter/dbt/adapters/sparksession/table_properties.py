"""Properties of tables that stand, as their nodes' configs have them by now."""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.sparksession.edges import Foreign, Node
from dbt.adapters.sparksession.keyed.tables import stored_table_of
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import literal
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import CompilationError

FORMAT = "format-version"
# configs of dbt-spark that would lay a table elsewhere or otherwise
UNHEEDED = ("location_root", "clustered_by", "buckets", "options")
ICEBERG = "iceberg"


def unheeded_configs(config: Foreign, catalog: str) -> list[str]:
    """Configs of dbt and dbt-spark that a node has, and that nothing goes by here.

    Args:
        catalog: name of the catalog that all tables lie in.

    >>> unheeded_configs({"file_format": "Iceberg", "location_root": "/data"}, "lake")
    ['location_root']
    """
    names = [name for name in UNHEEDED if config.get(name) is not None]
    if str(config.get("database") or catalog).lower() != catalog.lower():
        names.append("database")
    file_format = config.get("file_format")
    if file_format is not None and str(file_format).lower() != ICEBERG:
        names.insert(0, "file_format")
    return names


class TableProperties:
    """Sets what a config declares for a table that an earlier run made."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def keep_up(self, model: Node) -> None:
        """Set the config's `tblproperties` that differ from those of the node's standing table, by
        one commit of its metadata; nothing where none does.

        Raises:
            CompilationError: a property can't be changed so.
        """
        declared = model["config"].get("tblproperties") or {}
        if not declared or self._warehouse.credentials.offline:
            return
        table = stored_table_of(model)
        held = self._properties_of(table)
        wanted = {str(key): str(value) for key, value in declared.items()}
        changed = {key: value for key, value in wanted.items() if held.get(key) != value}
        version, given = held.get(FORMAT, ""), changed.get(FORMAT, "")
        if given and (not given.isdecimal() or int(given) < int(version or 0)):
            raise CompilationError(
                f"{model['name']}: {FORMAT} in its tblproperties is {given}, and its table {table} "
                f"has {version}, which Iceberg makes no older; write {version}, or drop the table "
                "and build it again."
            )
        if changed:
            pairs = ", ".join(f"{literal(key)} = {literal(changed[key])}" for key in changed)
            self._warehouse.session().sql(f"alter table {table} set tblproperties ({pairs})")

    def _properties_of(self, table: str) -> Mapping[str, str]:
        session = self._warehouse.session()
        if is_remote(session):
            rows = session.sql(f"show tblproperties {table}").collect()
            return {row["key"]: row["value"] for row in rows}
        found = self._warehouse.loaded(table)
        version = str(found.operations().current().formatVersion())
        return {**dict(found.properties()), FORMAT: version}
