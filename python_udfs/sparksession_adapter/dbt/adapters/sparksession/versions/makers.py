"""Which project made a table: what another project still makes isn't replaced."""

from __future__ import annotations

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.iceberg.history import MODEL_PROPERTY
from dbt.adapters.sparksession.keyed.tables import RUNS_SUFFIX
from dbt.adapters.sparksession.reading.microbatch import replaces_whole_table
from dbt.adapters.sparksession.versions.nodes import PUBLISHED_KINDS, all_tables
from dbt.adapters.sparksession.versions.store import VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt.flags import get_flags
from dbt_common.exceptions import DbtRuntimeError

# materializations of which a run without --full-refresh goes on with rows of its definition alone
GO_ON = ("incremental", "folded")
NAMED = 5  # tables that a sentence names


def maker_of(warehouse: Warehouse, table: str) -> str | None:
    """unique_id of the node that made a table (schema.name) last; None where no commit names it."""
    return warehouse.history(table).recorded(MODEL_PROPERTY, table)


def project_of(maker: str) -> str:
    """The project, or package, of a node's unique_id.

    >>> project_of("model.shop.orders")
    'shop'
    """
    return maker.split(".")[1]


class Makers:
    """Compares who made a table with who is about to make it."""

    def __init__(self, warehouse: Warehouse, store: VersionStore) -> None:
        self._warehouse = warehouse
        self._store = store

    def check(self, node: Foreign, materialized: str) -> None:
        """Before a node is built: its table isn't that of another project which makes it, too.

        Of a project that was renamed nothing is left that this project doesn't make. A run that
        goes on with rows is refused by their definition, where this is another.

        Raises:
            DbtRuntimeError: it is.
        """
        name = f"{node.schema}.{node.alias}"
        for table in (name, name + RUNS_SUFFIX):
            schema, _, identifier = table.rpartition(".")
            held = self._warehouse.get_relation(None, schema, identifier)
            if held is None or held.type != "table":
                continue
            maker = maker_of(self._warehouse, table)
            if maker is None or self._is_own(maker) or self._goes_on(node, materialized, maker):
                continue
            others = self._made_by(project_of(maker))
            if others:
                raise DbtRuntimeError(
                    f"{node.unique_id} would take the place of {table}, which {maker} made, and "
                    f"project {project_of(maker)} also made {others[0]}, which this project "
                    "doesn't: give either project a SCHEMA of its own, or one of the two "
                    f"another alias; or, where project {project_of(maker)} is no more, drop "
                    f"{', '.join(others[:NAMED])}{' and others' if len(others) > NAMED else ''}."
                )

    def _is_own(self, maker: str) -> bool:
        packages = {node.package_name for node in self._warehouse.manifest().nodes.values()}
        return project_of(maker) in packages | {self._warehouse.config.project_name}

    def _goes_on(self, node: Foreign, materialized: str, maker: str) -> bool:
        is_same = node.unique_id.partition(".")[2].partition(".")[2] == maker.split(".", 2)[2]
        replaces = replaces_whole_table(node.config, bool(get_flags().FULL_REFRESH))
        return is_same and materialized in GO_ON and not replaces

    def _made_by(self, project: str) -> list[str]:
        """Names of the newest version, or of a warehouse without one, under which a project has
        stored rows and no node of this project is built, in order."""
        own = {
            f"{node.schema}.{node.alias}".lower()
            for node in self._warehouse.manifest().nodes.values()
            if str(node.resource_type) in PUBLISHED_KINDS
        }
        newest = self._store.newest_version
        tables = all_tables(self._warehouse) if newest is None else sorted(newest.snapshots)
        found = []
        for table in tables:
            name = table.removesuffix(RUNS_SUFFIX)
            maker = None if name.lower() in own else maker_of(self._warehouse, table)
            if maker is not None and project_of(maker) == project:
                found.append(name)
        return found
