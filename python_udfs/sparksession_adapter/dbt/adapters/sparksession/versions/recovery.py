"""A catalog that was lost, or restored from an old copy, brought up to the tables themselves.

Each commit of a table writes a metadata file, which names those before it, and then lets the
catalog point to it. So the newest file that another one names was committed, for certain. A newest
file that none names may be of a commit that failed in between: it is certain where another table or
a version has read it. Else it counts if all of its files are there: it is a whole commit, from
which the next run goes on, as if its writer had been a moment quicker.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.sparksession.iceberg.metadata import LostFileError, java_namespace
from dbt.adapters.sparksession.keyed.tables import FOLDED
from dbt.adapters.sparksession.read_plans import INPUT_PROPERTY
from dbt.adapters.sparksession.sql import is_absent
from dbt.adapters.sparksession.versions.copies import Copies, java_identifier
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.lease import Holder, Lease
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.place import (
    METADATA,
    UNFINISHED,
    Place,
    folders_of_tables,
    local_path,
)
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.store import VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError


@dataclass(frozen=True)
class MetadataFile:
    """One metadata file of a table or view.

    Attributes:
        path: of the file.
        number: of the commit, the first part of the file's name.
        uuid: of the table or view; what was dropped and made again has another uuid.
        is_view: whether it is a view's.
        updated_ms: when it was written, by the writer's clock.
        location: where its table or view lies.
        previous: names of the files before it, oldest first.
        head: snapshot id of the newest commit; None of an empty table and of a view.
        reads: table -> snapshot ids that its commits say they read.
    """

    path: str
    number: int
    uuid: str
    is_view: bool
    updated_ms: int
    location: str
    previous: tuple[str, ...]
    head: int | None
    reads: Mapping[str, frozenset[int]]

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def read_metadata(path: str) -> MetadataFile | None:
    """A metadata file; None where it isn't whole, as a writer that was killed leaves it."""
    name = os.path.basename(path)
    opened = gzip.open if ".gz." in name else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            found = json.load(file)
        is_view = "view-uuid" in found
        times = [version["timestamp-ms"] for version in found["versions"]] if is_view else []
        head = found.get("current-snapshot-id")
        reads: dict[str, set[int]] = {}
        for snapshot in found.get("snapshots", []):
            for key, value in snapshot.get("summary", {}).items():
                if key.startswith(INPUT_PROPERTY) and value.isdecimal():
                    reads.setdefault(key.removeprefix(INPUT_PROPERTY), set()).add(int(value))
        return MetadataFile(
            path=path,
            number=int(name.partition("-")[0]),
            uuid=found["view-uuid" if is_view else "table-uuid"],
            is_view=is_view,
            updated_ms=max(times) if is_view else found["last-updated-ms"],
            location=found["location"],
            previous=tuple(
                os.path.basename(entry["metadata-file"]) for entry in found.get("metadata-log", [])
            ),
            head=head if head not in (None, -1) else None,
            reads={table: frozenset(ids) for table, ids in reads.items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def newest_of(files: Iterable[MetadataFile], named: Iterable[int] = ()) -> MetadataFile | None:
    """The file of a table or view that counts; None without any.

    Of commits made from the same commit at most one was committed: the commit that another table
    or a version names, else the last one written, since its writer found the earlier commits
    undone.

    Args:
        files: all that lie in one folder.
        named: snapshot ids that other tables or versions name.
    """
    known = list(files)
    if not known:
        return None
    uuid = max(known, key=lambda file: file.updated_ms).uuid
    own = [file for file in known if file.uuid == uuid]
    superseded = {name for file in own for name in file.previous}
    heads = set(named)
    return max(
        (file for file in own if file.name not in superseded),
        key=lambda file: (file.number, file.head in heads, file.updated_ms, file.name),
    )


def _listed(catalog: Any, identifier: Any) -> tuple[bool, Any]:
    """Whether a catalog lists a table, and the metadata that it names; None where there is none.

    An old catalog may name a file that later commits have deleted.
    """
    try:
        if not catalog.tableExists(identifier):
            return False, None
        return True, catalog.loadTable(identifier).operations().current()
    except Exception as exc:
        if "NotFoundException" not in str(exc):
            raise
        return True, None


class Recovery:
    """The operation register_tables."""

    def __init__(
        self,
        warehouse: Warehouse,
        store: VersionStore,
        lease: HeldLease,
        *,
        writer: OneWriter,
        place: Place,
        versions: Versions,
        copies: Copies,
    ) -> None:
        self._warehouse = warehouse
        self._store = store
        self._lease = lease
        self._writer = writer
        self._place = place
        self._versions = versions
        self._copies = copies

    def register_tables(self, context: dict[str, Any]) -> list[str]:
        """Bring tables that the catalog doesn't know back from their newest metadata files, and
        the project's views; a line for each table, and for each that is not certain.

        Where the catalog is older than the tables, those that it knows are brought up as well.
        """
        root = self._copies.check_is_a_folder("register_tables")
        if os.path.exists(os.path.join(root, UNFINISHED)):
            raise DbtRuntimeError(
                f"{root} is a copy of a warehouse that was not finished. Delete the folder and "
                "copy again."
            )
        published = self._warehouse.credentials.published_schema
        files: dict[str, list[MetadataFile]] = {}
        for schema, name, folder in folders_of_tables(root):
            if schema == published:  # made of meta_version
                continue
            metadata = os.path.join(folder, "metadata")
            read = [
                read_metadata(os.path.join(metadata, file_name))
                for file_name in sorted(os.listdir(metadata))
                if file_name.endswith(METADATA) and not file_name.startswith(".")
            ]
            files[f"{schema}.{name}"] = [file for file in read if file is not None]
        for name, found in files.items():
            newest = newest_of(found)
            if newest is not None:
                self._place.check_location(f"Table {name}", newest.location)
        if not files:
            return [f"{root} holds no tables."]
        marked = self._place.marked_generation()  # before the lease, see generation_check
        holder = self._holder()
        is_behind = holder is None or marked > holder.generation
        lines: list[str] = []
        if is_behind:
            lines += self._register(self._lease.table, files, {}, True)
            lines += self._drop_without_files(self._lease.table, files)
        with self._writer.writing(is_recovery=True):
            lines += self._register(self._store.version_table, files, {}, is_behind)
            named = self._named(files)
            for table in sorted(files.keys() - {self._lease.table, self._store.version_table}):
                lines += self._register(table, files, named, is_behind)
            lines += self._register_views(files, context)
            newest_version = self._store.version()
            if newest_version is not None:
                self._versions.views.write_views(newest_version, newest_version.queries)
                lines.append(f"The newest version is {newest_version.version}.")
        return lines

    def _holder(self) -> Holder | None:
        """The holder of the lease; None where no lease can be read."""
        try:
            return Lease(self._warehouse.session, self._lease.table, "").holder()
        except LostFileError:
            return None

    def _drop_without_files(self, table: str, files: Mapping[str, list[MetadataFile]]) -> list[str]:
        """Take a table that the next command makes again out of the catalog, where none of its
        metadata is there; lines for the user."""
        identifier = java_identifier(self._warehouse.session(), table)
        catalog = self._copies.iceberg_catalog()
        is_listed, current = _listed(catalog, identifier)
        if files.get(table) or not is_listed or current is not None:
            return []
        catalog.dropTable(identifier, False)
        return [f"{table}: none of its metadata files is there, so it is made again."]

    def _named(self, files: Mapping[str, list[MetadataFile]]) -> dict[str, set[int]]:
        """Table -> snapshots that the newest commits of other tables, or versions, name."""
        named: dict[str, set[int]] = {}
        for found in files.values():
            newest = newest_of(found)
            for table, ids in (newest.reads if newest is not None else {}).items():
                named.setdefault(table, set()).update(ids)
        try:
            rows = (
                self._warehouse.session()
                .sql(f"select snapshots from {self._store.version_table}")
                .collect()
            )
        except Exception as exc:
            if not is_absent(exc):
                raise
            rows = []
        for row in rows:
            for table, snapshot in row.snapshots.items():
                named.setdefault(table, set()).add(snapshot)
        return named

    def _register(
        self,
        table: str,
        files: Mapping[str, list[MetadataFile]],
        named: Mapping[str, set[int]],
        is_behind: bool,
    ) -> list[str]:
        """Let the catalog point to the newest metadata of a table; lines for the user.

        Args:
            is_behind: whether the catalog is known to be older than the tables, so that what it
                states of a table may be too.
        """
        session, catalog = self._warehouse.session(), self._copies.iceberg_catalog()
        found, heads = files.get(table, []), named.get(table, set())
        newest = newest_of(found, heads)
        if newest is None or newest.is_view:
            return []
        identifier = java_identifier(session, table)
        is_listed, current = _listed(catalog, identifier)
        if current is not None:
            name = os.path.basename(current.metadataFileLocation())
            if not is_behind or name == newest.name:
                return []
            if current.lastUpdatedMillis() > newest.updated_ms:
                return []
        schema = java_namespace(session, table.rpartition(".")[0])
        if not catalog.namespaceExists(schema):
            catalog.createNamespace(schema)
        lines, by_name = [], {file.name: file for file in found}
        while True:
            if is_listed:
                catalog.dropTable(identifier, False)  # its files stay
            catalog.registerTable(identifier, newest.path)
            is_listed = True
            missing = self._missing_files(table)
            before = by_name.get(newest.previous[-1]) if newest.previous else None
            is_certain = newest.head is None or newest.head in heads
            if not missing or is_certain or before is None:
                break
            lines.append(
                f"{table}: the commit of {newest.name} was not finished, {missing} of its files "
                "are missing. It doesn't count."
            )
            newest = before
        lines.append(f"{table} was registered from {newest.name}.")
        if missing:
            lines.append(
                f"{table}: {missing} files of its newest commit are missing, reading them fails. "
                "Restore them from a copy."
            )
        elif not is_certain and table not in (self._lease.table, self._store.version_table):
            lines.append(
                f"{table}: no version and no other table has read its newest commit, so it isn't "
                "certain that the commit was finished. All of its files are there, and it counts."
            )
        return lines

    def _missing_files(self, table: str) -> int:
        """How many files of a table's newest commit aren't there; 1 where no list of them is."""
        try:
            rows = self._warehouse.session().sql(f"select file_path from {table}.files").collect()
        except Exception:
            return 1
        return sum(not os.path.exists(local_path(row.file_path) or "") for row in rows)

    def _register_views(
        self, files: Mapping[str, list[MetadataFile]], context: dict[str, Any]
    ) -> list[str]:
        session, catalog = self._warehouse.session(), self._copies.iceberg_catalog()
        lines = []
        for node in context["graph"]["nodes"].values():
            if node["config"].get("materialized") not in ("view", FOLDED):
                continue
            name = self._warehouse.relation_of_node(node).render().replace("`", "")
            newest = newest_of(files.get(name, []))
            identifier = java_identifier(session, name)
            if newest is None or not newest.is_view or catalog.viewExists(identifier):
                continue
            catalog.registerView(identifier, newest.path)
            lines.append(f"View {name} was registered; the next run writes it again.")
        return lines
