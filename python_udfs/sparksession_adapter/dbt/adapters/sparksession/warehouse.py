"""What the adapter's services share: the session, tables and their commits, dbt's relations, and
what the run's models read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dbt import selected_resources
from dbt.adapters.sparksession.edges import Foreign, Graph, Json, Node
from dbt.adapters.sparksession.iceberg.history import History, Snapshot, kept_histories
from dbt.adapters.sparksession.iceberg.metadata import loaded, metadata
from dbt.adapters.sparksession.inputs import PROPERTY_SETTING, Inputs
from dbt.adapters.sparksession.session import is_remote, own_session
from dbt.adapters.sparksession.sql import is_absent, unquoted
from dbt.flags import get_flags

# the query of a view that dbt clone made, see the macro clone_of
CLONE = re.compile(r"select /\* clone \*/ \* from (?P<original>\S+)")
ELSEWHERE = "is_read_elsewhere"  # key of a node as it is built where --defer reads it


@dataclass(frozen=True)
class Comments:
    """Comments as they are stored.

    Attributes:
        relation: of the table or view; None where it has none.
        columns: column -> comment, of those that have one.
    """

    relation: str | None
    columns: dict[str, str]


class Relation(Protocol):
    """What the rooms take of a relation, see relation.py."""

    @property
    def schema(self) -> str: ...
    @property
    def identifier(self) -> str: ...
    @property
    def type(self) -> str | None: ...
    @property
    def reading(self) -> str | None: ...
    @property
    def as_of(self) -> str | None: ...
    @property
    def is_cte(self) -> bool: ...
    @property
    def name_only(self) -> Relation: ...
    def render(self) -> str: ...
    def replace(self, **changes: Any) -> Relation: ...
    def replace_path(self, **changes: Any) -> Relation: ...


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
    """

    def __init__(self, relations: Relations, inputs: Inputs) -> None:
        self._relations = relations
        self.config = relations.config
        self.credentials = relations.config.credentials
        self.Relation = relations.Relation
        self.inputs = inputs
        self._of_originals: dict[str, str] = {}  # what a clone was made of -> the clone's node

    # ---- Spark and Iceberg ---------------------------------------------------------------

    def session(self) -> Any:
        """The calling thread's Spark session."""
        return own_session(self.credentials).session

    def vars_of(self, node: Node) -> Json:
        """The vars as a node sees them: the command line's before those of the project, and these
        before those that its package declares itself."""
        return {**self.own_vars_of(node), **self.project_vars_of(node)}

    def own_vars_of(self, node: Node) -> Json:
        """The vars that the package of a node declares in a dbt_project.yml of its own."""
        package = node["package_name"]
        if package == self.config.project_name:
            return {}
        project = self.config.load_dependencies().get(package)
        return {} if project is None else scoped_vars(project.vars.to_dict(), package)

    def project_vars_of(self, node: Node) -> Json:
        """The vars as a node sees them of the command line and the project."""
        return {
            **scoped_vars(self.config.vars.to_dict(), node["package_name"]),
            **self.config.cli_vars,
        }

    def set_snapshot_property(self, key: str, value: str) -> None:
        """Let the node's next commit carry key = value."""
        self.session().conf.set(PROPERTY_SETTING + key, value)

    def loaded(self, table: str) -> Any:
        """Iceberg's own object of `table` (schema.name); None on a remote session."""
        return loaded(self.session(), self.credentials.catalog, table)

    def history(self, table: str) -> History:
        """All snapshots of `table` (schema.name); an empty history where there is no table."""
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

    def node_of(self, relation: Relation, graph: Graph) -> Graph | None:
        """The node of the graph that is built as `relation`, or None if the project builds none.

        Of a relation that --defer reads, or that a node's own is a clone of: the node with that
        relation's schema and alias.
        """
        nodes, name = graph["nodes"].values(), (relation.schema, relation.identifier)
        for node in nodes:
            if (node.get("schema"), node.get("alias")) == name:
                return node
        for node in nodes:
            deferred = node.get("defer_relation")
            if deferred and (deferred["schema"], deferred["alias"]) == name:
                return {**node, "schema": name[0], "alias": name[1], ELSEWHERE: True}
        unique_id = self._of_originals.get(f"{relation.schema}.{relation.identifier}")
        if unique_id is None:
            return None
        return {**graph["nodes"][unique_id], "schema": name[0], "alias": name[1]}

    def referred(self, node: Node, names: Sequence[str], version: Foreign = None) -> str | None:
        """unique_id of what ref(..) means in a node's SQL, by dbt's own rules: of several models of
        a name the package's or the version's; None where there is no such.

        Args:
            names: a name, or a package and a name.
        """
        *package, name = names
        manifest = self.manifest()
        found = manifest.resolve_ref(
            manifest.nodes.get(node["unique_id"]),
            name,
            package[0] if package else None,
            version,
            self.config.project_name,
            node["package_name"],
        )
        return getattr(found, "unique_id", None)

    def referred_source(self, node: Node, names: Sequence[str]) -> str | None:
        """The same of source(..)."""
        packages = self.config.project_name, node["package_name"]
        found = self.manifest().resolve_source(*names, *packages)
        return getattr(found, "unique_id", None)

    def types_and_view(
        self, given: Any, model: Node, graph: Graph
    ) -> tuple[dict[str, str] | None, bool]:
        """Column -> Spark type of what a macro was given as a relation, None where that is unknown:
        offline, in a unit test, or as it is none; and whether the project builds it as a view.

        Args:
            given: the macro's argument, whatever its author wrote.
            model: the node that calls the macro.
        """
        known = not self.credentials.offline and model["resource_type"] != "unit_test"
        if not known or not hasattr(given, "render") or given.is_cte:
            return None, False
        types = {column.column: column.dtype for column in self.get_columns_in_relation(given)}
        node = self.node_of(given, graph)
        return types, node is not None and node["config"]["materialized"] == "view"

    def read_for(self, node: Node, reader: Node) -> Relation:
        """The relation that `reader` reads of a node that it refers to: as dbt's ref(..) gives it
        with --defer, and of a clone its original.

        Args:
            node: of the graph; a source too.
            reader: of the graph, or as node_of gives it: what stands where --defer reads it reads
                its inputs there too.
        """
        own, deferred = self.relation_of_node(node), node.get("defer_relation")
        flags = get_flags()
        if deferred and getattr(flags, "DEFER", False):
            favors_state = (
                getattr(flags, "FAVOR_STATE", False)
                and node["unique_id"] not in selected_resources.SELECTED_RESOURCES
            )
            if (
                reader.get(ELSEWHERE)
                or favors_state
                or self.get_relation(None, own.schema, own.identifier) is None
            ):
                return self.Relation.create(schema=deferred["schema"], identifier=deferred["alias"])
        return self._original(own, node)

    def original_of(self, relation: Relation, graph: Graph) -> Relation:
        """The relation that `relation` is a clone of; itself where it is none."""
        node = self.node_of(relation, graph)
        return relation if node is None else self._original(relation, node)

    def cloned(self, relation: Relation | None) -> str | None:
        """schema.name of what a view that dbt clone made is a clone of; None of anything else."""
        if relation is None or relation.type != "view":
            return None
        (text,) = self.session().sql(f"show create table {relation.render()}").first()
        found = CLONE.search(text)
        return None if found is None else found["original"]

    def _original(self, relation: Relation, node: Node) -> Relation:
        kind = node["config"].get("materialized")
        if node["resource_type"] == "source" or kind in ("view", "ephemeral"):
            return relation
        runs = f"{relation.identifier}__runs"
        if kind == "folded" and self.get_relation(None, relation.schema, runs) is not None:
            return relation
        name = self.cloned(self.get_relation(None, relation.schema, relation.identifier))
        if name is None:
            return relation
        original = self.relation_of(name)
        self._of_originals[name] = node["unique_id"]
        found = relation.replace_path(schema=original.schema, identifier=original.identifier)
        return self._original(found, node)  # which may be a clone itself

    def get_relation(
        self, database: str | None, schema: str | None, identifier: str | None
    ) -> Any | None:
        """The relation as dbt's cache has it; None where there is no such table or view."""
        # dbt's cache has the names as they are, where a source's declaration may have backticks
        return self._relations.get_relation(database, str(schema), unquoted(str(identifier)))

    def is_view(self, relation: Relation) -> bool:
        """Whether a relation is a view that is there, whoever made it."""
        known = self.get_relation(None, relation.schema, relation.identifier)
        return known is not None and known.type == "view"

    def get_columns_in_relation(self, relation: Any) -> list[Any]:
        """Columns of a table, a view or a temporary view; [] where there is no such."""
        return self._relations.get_columns_in_relation(relation)

    def comments(self, relation: Foreign) -> Comments:
        """Comments of a table or view that is there."""
        table = self.Relation.create(schema=relation.schema, identifier=relation.identifier)
        rows = self.session().sql(f"describe table extended {table.render()}").collect()
        names = [row[0] for row in rows]
        end = next((at for at, name in enumerate(names) if not name or name[0] == "#"), None)
        details = {row[0]: row[1] for row in rows[end:]} if end is not None else {}
        columns = {row[0]: row[2] for row in rows[:end] if row[2]}
        return Comments(details.get("Comment") or None, columns)

    def relations_in(self, schema: str) -> list[Relation]:
        """The tables and views that a schema has now; [] where there is no schema."""
        relation = self.Relation.create(schema=schema)
        return self._relations.list_relations_without_caching(relation)

    def listed(self, schema: str, kind: str) -> list[str]:
        """Names of the tables or views that a schema has now; [] where there is no schema.

        Args:
            kind: `table` or `view`.
        """
        found = self.relations_in(schema)
        return [str(relation.identifier) for relation in found if relation.type == kind]

    def tables(self) -> list[str]:
        """schema.name of the warehouse's tables, in order."""
        schema = self.credentials.schema
        return sorted(f"{schema}.{name}" for name in self.listed(schema, "table"))

    def manifest(self) -> Any:
        """dbt's manifest of the project."""
        return self._relations.get_macro_resolver()


def named_table(node: Foreign) -> str:
    """schema.name of a node or a source of dbt's manifest, as readers name it."""
    return f"{node.schema}.{getattr(node, 'alias', None) or node.identifier}"


def scoped_vars(declared: Json, package: str) -> Json:
    """Vars that a project declares, as a package sees them: what is declared for it comes first."""
    of_package = declared.get(package)
    return {**declared, **(of_package if isinstance(of_package, dict) else {})}
