"""Files that no snapshot names: what dead runs and old views left behind."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import urlparse

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.iceberg.metadata import java_texts
from dbt.adapters.sparksession.session import is_remote, message_of
from dbt.adapters.sparksession.sql import literal
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.lease import Holder, LeaseRefusedError
from dbt.adapters.sparksession.versions.nodes import all_tables
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.strays import may_have_strays
from dbt.adapters.sparksession.warehouse import Warehouse

VIEW_FILES_STAY = 600  # seconds
GC_ENABLED = "gc.enabled"
HADOOP_SCHEMES = ("", "file", "hdfs")
CLOCKS_DIFFER = 3600  # seconds that two machines' clocks may be apart

logger = AdapterLogger("Spark")


def _file_name(location: str) -> str:
    return location.rpartition("/")[2]


class Orphans:
    """The operation that deletes orphans, and the tidying after a dead run."""

    def __init__(self, warehouse: Warehouse, lease: HeldLease, place: Place) -> None:
        self._warehouse = warehouse
        self._lease = lease
        self._place = place

    def remove_old_view_files(self) -> int:
        """Delete old files of views: each time a view is rewritten it gets a file of its own,
        and Iceberg keeps them all. How many it were; none on a remote session."""
        session, credentials = self._warehouse.session(), self._warehouse.credentials
        tables = self._warehouse.tables()
        if not tables or is_remote(session):
            return 0
        io, jvm, files = self._warehouse.loaded(tables[0]).io(), session._jvm, 0
        now = jvm.java.lang.System.currentTimeMillis()
        catalog = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(
            session._jsparkSession, credentials.catalog
        )
        for schema in (credentials.schema, credentials.published_schema):
            namespace = jvm.org.apache.iceberg.catalog.Namespace.of(java_texts(session, [schema]))
            for name in self._warehouse.listed(schema, "view"):
                known = jvm.org.apache.iceberg.catalog.TableIdentifier.of(namespace, name)
                view = catalog.loadView(known)
                self._place.check_location(f"View {schema}.{name}", view.location())
                self._lease.confirm()
                current = view.operations().current().metadataFileLocation()
                for file in list(io.listPrefix(f"{view.location()}/metadata").iterator()):
                    # a reader that has just looked it up may still open it
                    old = now - file.createdAtMillis() > 1000 * VIEW_FILES_STAY
                    if old and _file_name(file.location()) != _file_name(current):
                        io.deleteFile(file.location())
                        files += 1
        return files

    def tidy_after(self, dead: Holder) -> None:
        """Delete the files that a dead run wrote and never committed, see tidy_tables."""
        tables = all_tables(self._warehouse)
        since = dead.started_at
        self.tidy_tables([table for table in tables if self._may_have_strays(table, since)])

    def tidy_tables(self, tables: Iterable[str]) -> None:
        """Delete the files of tables that no snapshot knows; those that aren't there have none.

        Files that stay take room and nothing else: where a catalog or a store doesn't let them be
        deleted, a warning names the reason.

        Raises:
            LeaseRefusedError: another run has taken the lease over.
        """
        try:
            self._tidied(set(tables))
        except LeaseRefusedError:
            raise
        except Exception as exc:
            reason = message_of(exc).partition("\n")[0]
            logger.warning(
                "Files that had not been committed stay, and nothing reads them: they couldn't be "
                f"deleted ({reason}). dbt run-operation remove_orphans tries it again."
            )

    def _tidied(self, wanted: set[str]) -> None:
        left = 0
        if wanted:
            known = all_tables(self._warehouse)
            self._place.check_own_folders(known)
            left = sum(self.remove_from(location) for location in known if location in wanted)
        if left:
            logger.info(f"deleted {left} files that had not been committed")

    def _may_have_strays(self, table: str, since: datetime | None) -> bool:
        """Whether a table may have files of no snapshot that were written from then on."""
        loaded = self._warehouse.loaded(table)
        if loaded is None or since is None:
            return True
        return may_have_strays(self._warehouse.session(), loaded, since)

    def remove_from(self, table: str) -> int:
        """Delete the files in a table's folder that no snapshot knows; how many they were."""
        with self._lease.without_beats(table):
            return self._remove_from(table)

    def _remove_from(self, table: str) -> int:
        # taken before the lease is confirmed: what another run writes after a takeover is younger
        until = int(time.time() * 1000) + 1000
        self._place.check_delete(table)
        loaded = self._warehouse.loaded(table)
        if loaded is None:  # Iceberg's procedure leaves what is younger than a day alone
            rows = self._warehouse.session().sql(
                f"call {self._warehouse.credentials.catalog}.system.remove_orphan_files("
                f"table => {literal(table)})"
            )
            return len(rows.collect())
        if loaded.properties().get(GC_ENABLED) == "false":
            logger.info(
                f"{table} was left as it is: its catalog keeps all of its files to itself "
                f"({GC_ENABLED}=false)."
            )
            return 0
        session = self._warehouse.session()
        if not may_have_strays(session, loaded):
            return 0
        actions = session._jvm.org.apache.iceberg.spark.actions.SparkActions
        action = actions.get(session._jsparkSession).deleteOrphanFiles(loaded)
        if urlparse(loaded.location()).scheme not in HADOOP_SCHEMES:
            # by the table's own FileIO: Hadoop may have no file system for such a place
            action = action.usePrefixListing(True)
        # nobody else writes: a file that no snapshot knows is nobody's
        lease, before = self._lease.lease, self._lease.took_over
        if before is not None and lease is not None and not lease.saw_end:
            # but the run before may wake up, and commit the files that it wrote
            begun = before.started_at or datetime(1970, 1, 1)
            until = int((begun - datetime(1970, 1, 1)).total_seconds() - CLOCKS_DIFFER) * 1000
        result = action.olderThan(until).execute()
        return sum(1 for _ in result.orphanFileLocations())
