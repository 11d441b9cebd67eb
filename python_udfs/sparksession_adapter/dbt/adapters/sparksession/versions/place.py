"""Where a warehouse lies: its tables are in its own folder, and its catalog is not behind them.

Iceberg's metadata holds absolute places. In a folder that was copied the catalog still names the
tables of the original, and a catalog that was restored or copied alone doesn't know of later
commits: what such a warehouse deletes as unknown belongs to another warehouse, or to itself. So a
command that writes compares both before it changes anything.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from dbt.adapters.base import BaseRelation
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.iceberg.catalog_file import local_path
from dbt.adapters.sparksession.iceberg.metadata import CLOCK_MAY_LAG, put_to_now
from dbt.adapters.sparksession.sql import is_absent, literal
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.lease import Holder
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError

MARK = ".warehouse.json"  # beside the tables: the newest lease that was taken
UNFINISHED = ".unfinished_copy"  # beside the tables of a copy that isn't complete
ID_PROPERTY = "warehouse.id"  # of the lease's table
OWN_PLACES = ("jdbc", "hadoop")  # kinds of catalogs that keep all tables in the warehouse's folder
METADATA = ".metadata.json"
SECONDS_UNTIL_LISTED = 2.0  # from a table's first file to its entry in the catalog
logger = AdapterLogger("Spark")


class ForeignTableError(DbtRuntimeError):
    """A table isn't this warehouse's own."""


def lies_within(location: str, root: str) -> bool:
    """Whether a place is below another place; symbolic links are followed.

    >>> lies_within("s3://lake/data/dw/a", "s3a://lake/data"), lies_within("/w2/a", "/w")
    (True, False)
    """
    below, above = (local_path(path) for path in (location, root))
    if below is None or above is None:
        below, above = (re.sub(r"^s3[an]:", "s3:", path).rstrip("/") for path in (location, root))
    return below.startswith(above.rstrip("/") + "/")


def folders_of_tables(root: str) -> list[tuple[str, str, str]]:
    """Schema, name and folder of all that has Iceberg metadata below a local root."""
    found = []
    for schema in _entries(root):
        for table in _entries(schema.path):
            metadata = os.path.join(table.path, "metadata")
            if any(entry.name.endswith(METADATA) for entry in _entries(metadata, folders=False)):
                found.append((schema.name, table.name, table.path))
    return sorted(found)


def _entries(folder: str, folders: bool = True) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.is_dir() is folders]
    except OSError:
        return []


class Place:
    """Where the warehouse lies: its tables are its own, and its catalog belongs to them."""

    def __init__(self, warehouse: Warehouse, lease: HeldLease) -> None:
        self._warehouse = warehouse
        self._lease = lease

    @property
    def data_root(self) -> str | None:
        """The folder below which the catalog keeps all tables; None where a server decides."""
        settings = self._warehouse.credentials.spark_settings()
        lake = f"spark.sql.catalog.{self._warehouse.credentials.catalog}"
        root = settings.get(f"{lake}.warehouse", "")
        return root if settings.get(f"{lake}.type") in OWN_PLACES and "/" in root else None

    @property
    def local_root(self) -> str | None:
        """The same as a real path; None where it isn't in the local file system."""
        return local_path(self.data_root) if self.data_root is not None else None

    def delete_folder(self, relation: BaseRelation) -> None:
        """Delete what is left of a dropped table or view in the local file system: Iceberg leaves
        the metadata of views, which looks like that of a lost catalog."""
        root = self.local_root
        if root is None:
            return
        folder = os.path.join(root, str(relation.schema), str(relation.identifier))
        if lies_within(os.path.realpath(folder), root):
            shutil.rmtree(folder, ignore_errors=True)

    def check_location(self, what: str, location: str) -> None:
        """
        Args:
            what: a table or view, for the message.

        Raises:
            ForeignTableError: it lies outside of this warehouse.
        """
        root = self.data_root
        if root is None or lies_within(location, root):
            return
        raise ForeignTableError(
            f"{what} lies in {location}, outside of this warehouse's folder {root}, which is a "
            "copy of another warehouse or was moved. Nothing was written to it or deleted. In the "
            "original, dbt run-operation copy_warehouse makes a copy that stands for itself; a "
            "folder that was moved works with a symbolic link from its old place to the new place."
        )

    def location_of(self, table: str) -> str | None:
        """Where a table lies; None where there is no such table.

        Args:
            table: schema.name.
        """
        try:
            found = self._warehouse.loaded(table)
            if found is not None:
                return found.location()
            rows = self._warehouse.session().sql(f"describe table extended {table}").collect()
        except Exception as exc:
            if is_absent(exc):
                return None
            raise
        return next((row.data_type for row in rows if row.col_name == "Location"), None)

    def check_delete(self, table: str) -> None:
        """Before files of a table are deleted: it is this warehouse's, and this run may write.

        Raises:
            ForeignTableError: it lies elsewhere, or one of its snapshots does.
            LeaseRefusedError: another run writes.
        """
        location = self.location_of(table)
        if location is not None:
            self.check_location(f"Table {table}", location)
            found = self._warehouse.loaded(table)
            if found is not None:
                self.check_files(table, found, list(found.snapshots().iterator()))
        self._lease.confirm()

    def check_files(self, table: str, found: Any, snapshots: Iterable[Any] | None = None) -> None:
        """A table whose location was set again still names the files of the place before.

        Args:
            table: schema.name.
            found: Iceberg's object of it.
            snapshots: those of its snapshots to look at; None for the current one.

        Raises:
            ForeignTableError: it, its metadata or a snapshot lies outside of this warehouse.
        """
        self.check_location(f"Table {table}", found.location())
        newest = found.operations().current().metadataFileLocation()
        self.check_location(f"The metadata of table {table}", newest)
        for snapshot in [found.currentSnapshot()] if snapshots is None else snapshots:
            if snapshot is not None:
                what = f"Snapshot {snapshot.snapshotId()} of table {table}"
                self.check_location(what, snapshot.manifestListLocation())

    def check_own_folders(self, tables: Iterable[str]) -> None:
        """Before folders are looked through for files that their tables don't know.

        Raises:
            ForeignTableError: two tables have one folder.
        """
        places = {table: self.location_of(table) for table in tables}
        known = sorted((f"{place.rstrip('/')}/", table) for table, place in places.items() if place)
        for (outer, outer_table), (inner, other) in pairwise(known):
            if inner.startswith(outer):
                raise ForeignTableError(
                    f"Tables {outer_table} and {other} have their files in one folder, {outer}, "
                    "as a table that was renamed and a later table of its old name do. Which files "
                    "belong to which can't be known, so none was deleted. Build one of them under "
                    "another name, and drop it here."
                )

    def prepare_write(self, table: str) -> None:
        """Before a table is written: it lies in this warehouse, and a clock that was wrong doesn't
        keep it from being written.

        Raises:
            ForeignTableError: it lies elsewhere.
        """
        files = self._warehouse.history(table).files
        if files is not None:
            self.check_location(f"Table {table}", files.location)
            self.check_location(f"The metadata of table {table}", files.metadata)
            if files.manifest_list is not None:
                self.check_location(f"The newest snapshot of table {table}", files.manifest_list)
            if files.updated_ms - time.time() * 1000 <= CLOCK_MAY_LAG:
                return
        try:
            found = self._warehouse.loaded(table)
        except Exception as exc:
            if not is_absent(exc):
                raise
            return
        if found is None:  # a remote session
            return
        self.check_files(table, found)
        ahead = put_to_now(self._warehouse.session(), found)
        if ahead:
            logger.warning(
                f"{table}: its newest commit was dated {ahead:,.0f} s ahead of this machine's "
                "clock, which was wrong then or is now. It is dated now, so that the table can be "
                "written."
            )

    def folder_left_of(self, table: str) -> str | None:
        """Folder of a table that was dropped while its files stayed; None where the catalog has
        the table, or where no table of that name has ever been written here.

        Args:
            table: schema.name.
        """
        root = self.local_root
        if root is None:
            return None
        folder = os.path.join(root, *table.split("."))
        files = _entries(os.path.join(folder, "metadata"), folders=False)
        # a writer that was killed while it made the table leaves the first file alone
        numbers = [file.name.partition("-")[0] for file in files if file.name.endswith(METADATA)]
        written = any(number.isdecimal() and int(number) > 0 for number in numbers)
        return folder if written and self.location_of(table) is None else None

    # ---- at the start of a command that writes ---------------------------------------------

    def check_place(self, lease_table: str) -> None:
        """
        Args:
            lease_table: schema.name.

        Raises:
            ForeignTableError: the tables are another warehouse's.
            DbtRuntimeError: the catalog is lost, or the warehouse is a copy that isn't complete.
        """
        root = self.local_root
        if root is not None and os.path.exists(os.path.join(root, UNFINISHED)):
            raise DbtRuntimeError(
                f"{root} is a copy of a warehouse that was not finished. Delete the folder and "
                "copy again."
            )
        self._check_clean_targets(root)
        location = self.location_of(lease_table)
        if location is None and root is not None and self._unlisted(root, lease_table):
            # unless another run makes the table in this moment: its files come first
            time.sleep(SECONDS_UNTIL_LISTED)
            location = self.location_of(lease_table)
            if location is None:
                raise DbtRuntimeError(
                    f"{root} holds {len(self._unlisted(root, lease_table))} tables and views, but "
                    "there is no catalog of them: it was lost or lies elsewhere. Put the catalog "
                    "back, or bring the tables back from their own metadata by dbt run-operation "
                    "register_tables. For a new warehouse take another folder."
                )
        if location is not None:
            self.check_location(f"Table {lease_table}", location)
        for what, place in self._places_in_catalog():
            self.check_location(what, place)

    def _places_in_catalog(self) -> list[tuple[str, str]]:
        """Each table and view that the catalog holds, with the place of its metadata.

        Read from the catalog's own file, without a job of Spark; [] where it is none of SQLite or
        is busy. Then tables are looked at one by one as they are written.
        """
        file = self._warehouse.catalog_file
        places = [] if file is None else file.places()
        return [(f"Table or view {name}", place) for name, place in places]

    def _check_clean_targets(self, root: str | None) -> None:
        """
        Raises:
            DbtRuntimeError: `dbt clean`, which asks nobody, would delete the tables.
        """
        if root is None:
            return
        for clean_target in self._warehouse.config.clean_targets:
            folder = os.path.realpath(
                os.path.join(self._warehouse.config.project_root, clean_target)
            )
            if lies_within(root, folder) or folder == root:
                raise DbtRuntimeError(
                    f"The tables lie in {root}, within {folder}, which dbt clean deletes. Nothing "
                    "was done: take another folder as WAREHOUSE, or take this one out of "
                    "clean-targets in dbt_project.yml."
                )

    def _unlisted(self, root: str, lease_table: str) -> list[str]:
        """Tables and views (schema.name) that have files, where the catalog lacks the lease and
        lists none of them: all of the lease's schema, or of all schemas."""
        there: dict[str, list[str]] = {}
        for schema, name, _ in folders_of_tables(root):
            there.setdefault(schema, []).append(f"{schema}.{name}")
        own = lease_table.partition(".")[0]
        is_listed = {schema: bool(self._warehouse.relations_in(schema)) for schema in there}
        if lease_table not in there.get(own, []):
            known = is_listed.get(own, False) if own in there else any(is_listed.values())
            if known:
                return []
        return [
            name
            for schema, names in there.items()
            for name in names
            if schema == own or not is_listed[schema]
        ]

    def generation_check(self) -> Callable[[Holder], None]:
        """Function that refuses a lease which the tables have outlived.

        The mark is read here, before the caller reads the lease. A run writes the mark after it has
        taken the lease, so the lease is never behind a mark that was read first; in the other order
        a run that starts at the same time would look like a lost catalog.

        Raises (the function):
            DbtRuntimeError: a lease that the catalog doesn't know has been taken of these tables.
        """
        marked = self.marked_generation()

        def check(before: Holder) -> None:
            if marked > before.generation:
                raise DbtRuntimeError(
                    f"The catalog is older than the tables in {self.data_root}: it knows of "
                    f"{before.generation} changes of its lease, the tables of {marked}. It was "
                    "restored from a copy, or another catalog writes these tables as well. Put the "
                    "newest catalog back, or bring the catalog up to the tables by dbt "
                    "run-operation register_tables. Nothing was written or deleted."
                )

        return check

    def read_mark(self) -> dict[str, Any]:
        """What the mark beside the tables holds; {} where there is none."""
        if self.local_root is None:
            return {}
        try:
            with open(os.path.join(self.local_root, MARK), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def marked_generation(self) -> int:
        """The newest lease that the mark beside the tables knows to have been taken."""
        mark = self.read_mark()
        # a mark that is older than the schemas in it is of whichever schema there was
        return mark.get("generations", {}).get(self._lease.table, mark.get("generation", 0))

    def write_mark(self, generation: int) -> None:
        """Write down beside the tables which lease was taken, each schema has its own. An older
        mark is still true, so a disk that is full, or another schema's run at the same time, stops
        nothing here."""
        if self.local_root is None or not os.path.isdir(self.local_root):
            return
        path = os.path.join(self.local_root, MARK)
        taken = self.read_mark().get("generations", {}) | {self._lease.table: generation}
        try:
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
                json.dump({"generations": taken}, file)
            os.replace(file.name, path)
        except OSError as exc:
            logger.warning(f"{path} could not be written: {exc.strerror}")

    # ---- which warehouse -------------------------------------------------------------------

    def warehouse_id(self, lease_table: str) -> str:
        """16 hex digits that no other warehouse has, kept in the catalog. Needs the lease.

        Args:
            lease_table: schema.name.
        """
        rows = self._warehouse.session().sql(f"show tblproperties {lease_table}").collect()
        known = {row.key: row.value for row in rows}.get(ID_PROPERTY)
        if known is None:
            known = secrets.token_hex(8)
            self._warehouse.session().sql(
                f"alter table {lease_table} set tblproperties ('{ID_PROPERTY}' = {literal(known)})"
            )
        return known
