"""Operations between runs: the list of versions, and files that no table knows."""

from __future__ import annotations

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.versions.arguments import whole_number
from dbt.adapters.sparksession.versions.nodes import all_tables
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.orphans import Orphans
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.store import VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse

logger = AdapterLogger("Spark")


class Maintenance:
    """Lists versions, and deletes orphans. The other operations are in modules beside."""

    def __init__(
        self,
        warehouse: Warehouse,
        store: VersionStore,
        writer: OneWriter,
        place: Place,
        orphans: Orphans,
    ) -> None:
        self._warehouse = warehouse
        self._store = store
        self._writer = writer
        self._place = place
        self._orphans = orphans

    def list_versions(self, limit: int) -> list[str]:
        """A line for each of the newest versions, newest first."""
        limit = whole_number("limit", limit)
        self._store.known_version()
        rows = self._warehouse.session().sql(
            "select version, cast(published_at as timestamp_ntz) as at, made_by, tag, run_id, "
            "code_version, size(changed) as changed, size(stale) as stale "
            f"from {self._store.version_table} order by version desc limit {limit}"
        )
        return [
            f"{row.version:>7}  {row.at:%Y-%m-%d %H:%M:%S} UTC  {row.changed:>4} changed  "
            f"{row.made_by}{f' [{row.tag}]' if row.tag else ''}  code {row.code_version}  "
            f"run {row.run_id}" + (f"  {row.stale} stale" if row.stale else "")
            for row in rows.collect()
        ]

    def remove_orphans(self) -> list[str]:
        """Delete files in the tables' folders that no snapshot knows: what dead runs left."""
        with self._writer.writing():
            tables = all_tables(self._warehouse)
            self._place.check_own_folders(tables)
            files = sum(self._orphans.remove_from(table) for table in tables)
            files += self._orphans.remove_old_view_files()
        return [f"{files} files that no table knows were deleted."]
