"""What the adapter's services share: the session, tables and their commits, dbt's relations, and
what the run's models read."""

from __future__ import annotations

import os
from typing import Any, Protocol

from dbt.adapters.sparksession.iceberg.catalog_file import CatalogFile, local_path, metadata_at
from dbt.adapters.sparksession.iceberg.column_types import columns_of
from dbt.adapters.sparksession.iceberg.history import History, Snapshot, kept_histories
from dbt.adapters.sparksession.iceberg.metadata import loaded, metadata
from dbt.adapters.sparksession.inputs import PROPERTY_SETTING, Inputs
from dbt.adapters.sparksession.session import is_remote, own_session
from dbt.adapters.sparksession.sql import is_absent


class Relations(Protocol):
    """What the services ask of dbt's adapter itself."""

    config: Any  # dbt's RuntimeConfig
    Relation: Any  # the adapter's class of relations

    def get_relation(self, database: Any, schema: str, identifier: str) -> Any: ...

    def get_columns_in_relation(self, relation: Any) -> list[Any]: ...

    def list_relations_without_caching(self, schema_relation: Any) -> list[Any]: ...

    def get_macro_resolver(self) -> Any: ...


class Warehouse:
    """The warehouse that a command works on.

    Attributes:
        config: dbt's RuntimeConfig of the project.
        credentials: the profile's, see SparkSessionCredentials.
        Relation: the adapter's class of relations.
        inputs: what the models of this command read.
        catalog_file: the catalog's own file; None where it is no file of SQLite.
    """

    def __init__(self, relations: Relations, inputs: Inputs) -> None:
        self._relations = relations
        self.config = relations.config
        self.credentials = relations.config.credentials
        self.Relation = relations.Relation
        self.inputs = inputs
        self.catalog_file = CatalogFile.of_settings(
            self.credentials.spark_settings(), self.credentials.catalog
        )

    # ---- Spark and Iceberg ---------------------------------------------------------------

    def session(self) -> Any:
        """The calling thread's Spark session."""
        return own_session(self.credentials).session

    def set_snapshot_property(self, key: str, value: str) -> None:
        """Let the node's next commit carry key = value."""
        self.session().conf.set(PROPERTY_SETTING + key, value)

    def loaded(self, table: str) -> Any:
        """Iceberg's own object of `table` (schema.name); None on a remote session."""
        return loaded(self.session(), self.credentials.catalog, table)

    def history(self, table: str) -> History:
        """All snapshots of `table` (schema.name); an empty history where there is no table."""
        found = self._history_on_disk(table)
        return found if found is not None else self._history_by_spark(table)

    def _history_on_disk(self, table: str) -> History | None:
        """The same from local files; None where they don't say it."""
        if self.catalog_file is None or is_remote(self.session()):
            return None
        try:
            location = self.catalog_file.location_of(table)
            if location is None:
                return History(None, {})
            if not os.path.exists(local_path(location) or ""):
                return None
            return kept_histories.of(location, lambda: metadata_at(location))
        except (LookupError, OSError, ValueError):
            return None  # Spark will say what is wrong with it

    def stored_columns(self, table: str) -> list[tuple[str, str]] | None:
        """Name and Spark type of each column of a stored table or view (schema.name), from local
        files; None where they don't say it."""
        if self.catalog_file is None or is_remote(self.session()):
            return None
        try:
            location = self.catalog_file.location_of(table)
            if location is None:
                location = self.catalog_file.location_of(table, "VIEW")
            return None if location is None else columns_of(metadata_at(location))
        except (LookupError, OSError, ValueError):
            return None

    def _history_by_spark(self, table: str) -> History:
        session = self.session()
        try:
            if not is_remote(session):
                found = self.loaded(table)
                location = found.operations().current().metadataFileLocation()
                return kept_histories.of(location, lambda: metadata(session, found))
            rows = session.sql(
                "select snapshots.snapshot_id, snapshots.parent_id, snapshots.operation, "
                f"snapshots.summary, (select max(snapshot_id) from {table}.refs "
                f"where name = 'main') as head from {table}.snapshots"
            ).collect()
        except Exception as exc:
            if is_absent(exc):
                return History(None, {})
            raise
        known = {
            row.snapshot_id: Snapshot(row.snapshot_id, row.parent_id, row.operation, row.summary)
            for row in rows
        }
        return History(rows[0].head if rows else None, known)

    def input_history(self, table: str) -> History:
        """The same of what a model reads: found once as long as the run doesn't write the table."""
        return self.inputs.history(table, self.history)

    # ---- dbt's relations and nodes -------------------------------------------------------

    def relation_of(self, table: str) -> Any:
        """The relation of a table's name, schema.name."""
        schema, _, identifier = table.rpartition(".")
        return self.Relation.create(schema=schema, identifier=identifier)

    def relation_of_node(self, node: Any) -> Any:
        """The relation that a node of the graph is built as."""
        identifier = node.get("alias") or node.get("identifier")
        return self.Relation.create(schema=node["schema"], identifier=identifier)

    @staticmethod
    def node_of(relation: Any, graph: dict[str, Any]) -> dict[str, Any] | None:
        """The node of the graph that is built as `relation`, or None if the project builds none."""
        for node in graph["nodes"].values():
            if node.get("alias") == relation.identifier and node.get("schema") == relation.schema:
                return node
        return None

    def get_relation(self, database: str | None, schema: str, identifier: str) -> Any | None:
        """The relation as dbt's cache has it; None where there is no such table or view."""
        return self._relations.get_relation(database, schema, identifier)

    def get_columns_in_relation(self, relation: Any) -> list[Any]:
        """SparkColumns of a table, a view or a temporary view; [] where there is no such."""
        return self._relations.get_columns_in_relation(relation)

    def listed(self, schema: str, kind: str) -> list[str]:
        """Names of the tables or views that a schema has now; [] where there is no schema.

        Args:
            kind: `table` or `view`.
        """
        relation = self.Relation.create(schema=schema)
        found = self._relations.list_relations_without_caching(relation)
        return [relation.identifier for relation in found if relation.type == kind]

    def tables(self) -> list[str]:
        """schema.name of the warehouse's tables, in order."""
        schema = self.credentials.schema
        return sorted(f"{schema}.{name}" for name in self.listed(schema, "table"))

    def manifest(self) -> Any:
        """dbt's manifest of the project."""
        return self._relations.get_macro_resolver()
