"""A copy of a warehouse in another folder, which stands for itself: a backup, a restore, a move.

Iceberg's metadata holds absolute places, so copied files alone still belong to the original. Its
procedure rewrite_table_path writes the metadata of all kept commits for the other place; ids of
tables and commits stay, and with them versions, queries that name commits, and the records from
which the next run goes on.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from dbt.adapters.sparksession.iceberg.metadata import java_namespace
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import literal
from dbt.adapters.sparksession.versions.arguments import a_folder
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.place import METADATA, UNFINISHED, Place, lies_within
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError

CATALOG_FILE, DATA = "catalog.db", "data"
JDBC_CATALOG = "org.apache.iceberg.jdbc.JdbcCatalog"
THREADS = 4


def java_identifier(session: Any, name: str) -> Any:
    """Iceberg's TableIdentifier of schema.name."""
    schema, _, table = name.rpartition(".")
    namespace = java_namespace(session, schema)
    return session._jvm.org.apache.iceberg.catalog.TableIdentifier.of(namespace, table)


def with_checksum(path: str) -> str:
    """The file that Hadoop keeps beside a local file: its checksums."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def copy_file(source: str, target: str) -> None:
    """Copy a file with its checksums."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    if os.path.exists(with_checksum(source)):
        shutil.copyfile(with_checksum(source), with_checksum(target))


class Copies:
    """The operation copy_warehouse."""

    def __init__(
        self, warehouse: Warehouse, lease: HeldLease, writer: OneWriter, place: Place
    ) -> None:
        self._warehouse = warehouse
        self._lease = lease
        self._writer = writer
        self._place = place

    def iceberg_catalog(self) -> Any:
        """Iceberg's catalog object of this session."""
        session = self._warehouse.session()
        return session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(
            session._jsparkSession, self._warehouse.credentials.catalog
        )

    def check_is_a_folder(self, operation: str) -> str:
        """The warehouse's folder of tables.

        Raises:
            DbtRuntimeError: it is another kind of warehouse than the default one.
        """
        settings = self._warehouse.credentials.spark_settings()
        uri = settings.get(f"spark.sql.catalog.{self._warehouse.credentials.catalog}.uri", "")
        root = self._place.local_root
        if (
            is_remote(self._warehouse.session())
            or root is None
            or not uri.startswith("jdbc:sqlite:")
        ):
            raise DbtRuntimeError(
                f"{operation} is for a warehouse in a local folder with its catalog in a SQLite "
                "file. Of another catalog take the means of its server, and Iceberg's procedures "
                "rewrite_table_path and register_table."
            )
        return root

    def copy_warehouse(self, to: str) -> list[str]:
        """Copy the warehouse into an empty or new folder; a line with the numbers of tables.

        Args:
            to: the folder; relative to the project.

        Raises:
            DbtRuntimeError: the folder isn't fit.
        """
        root, to = self.check_is_a_folder("copy_warehouse"), a_folder("to", to)
        target = os.path.realpath(self._warehouse.credentials.path(to))
        own = os.path.realpath(
            self._warehouse.credentials.path(self._warehouse.credentials.warehouse)
        )
        if any(lies_within(f"{inner}/_", other) for inner, other in ((target, own), (own, target))):
            raise DbtRuntimeError(
                f"The copy must lie outside of the warehouse {own} and not around it, got {target}."
            )
        if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
            raise DbtRuntimeError(
                f"The copy must go into a folder that is new or empty, and {target} is not."
            )
        with self._writer.writing():
            tables, views = self._all_tables(), self._all_views()
            for table in tables:
                self._place.check_location(f"Table {table}", str(self._place.location_of(table)))
            os.makedirs(os.path.join(target, DATA), exist_ok=True)
            unfinished = os.path.join(target, DATA, UNFINISHED)
            with open(unfinished, "w", encoding="utf-8"):
                pass
            try:
                with ThreadPoolExecutor(THREADS) as pool:
                    files = dict(
                        zip(
                            tables,
                            pool.map(lambda table: self._copy_table(table, target), tables),
                            strict=True,
                        )
                    )
                files |= {view: self._copy_view(view, target) for view in views}
                self._make_catalog(target, tables, views, files)
            except BaseException:
                # the folder was empty: all in it is of this copy
                for name in os.listdir(target):
                    path = os.path.join(target, name)
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                raise
            os.unlink(unfinished)
        return [
            f"{len(tables)} tables and {len(views)} views of {root} were copied to {target}. "
            f"WAREHOUSE={target} names the copy."
        ]

    def _all_tables(self) -> list[str]:
        """schema.name of all tables of the catalog but the lease's: a copy has its own lease."""
        return sorted(set(self._names("listTables")) - {self._lease.table})

    def _all_views(self) -> list[str]:
        return sorted(self._names("listViews"))

    def _names(self, listing: str) -> list[str]:
        catalog = self.iceberg_catalog()
        return [
            str(identifier)
            for namespace in list(catalog.listNamespaces())
            for identifier in list(getattr(catalog, listing)(namespace))
        ]

    def _copy_table(self, table: str, target: str) -> str:
        """Copy a table's files; where its newest metadata file lies then."""
        schema, _, name = table.rpartition(".")
        stage = os.path.join(target, ".staging", table)
        place = os.path.join(target, DATA, schema, name)
        source = str(self._place.location_of(table)).rstrip("/")
        quoted_table = literal(".".join(f"`{part}`" for part in (schema, name)))
        (made,) = (
            self._warehouse.session()
            .sql(
                f"call {self._warehouse.credentials.catalog}.system.rewrite_table_path("
                f"table => {quoted_table}, source_prefix => {literal(source)}, "
                f"target_prefix => {literal(place)}, staging_location => {literal(stage)})"
            )
            .collect()
        )
        with open(made.file_list_location, newline="", encoding="utf-8") as listed:
            for wanted, there in csv.reader(listed):
                if not lies_within(there, place):
                    raise DbtRuntimeError(f"{wanted} of table {table} lies outside of its folder.")
                copy_file(wanted.removeprefix("file:"), there.removeprefix("file:"))
        shutil.rmtree(stage)
        return os.path.join(place, "metadata", os.path.basename(made.latest_version))

    def _copy_view(self, view: str, target: str) -> str:
        """Write a view's metadata for another place; the file."""
        session = self._warehouse.session()
        found = self.iceberg_catalog().loadView(java_identifier(session, view))
        parser = session._jvm.org.apache.iceberg.view.ViewMetadataParser
        schema, _, name = view.rpartition(".")
        place = os.path.join(target, DATA, schema, name)
        known = json.loads(parser.toJson(found.operations().current())) | {"location": place}
        path = os.path.join(place, "metadata", f"00000-{uuid.uuid4()}{METADATA}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(known, file)
        return path

    def _make_catalog(
        self, target: str, tables: list[str], views: list[str], files: Mapping[str, str]
    ) -> None:
        """Make the copy's catalog, which stands there once it is complete.

        Args:
            files: table or view -> its newest metadata file.
        """
        session, credentials = self._warehouse.session(), self._warehouse.credentials
        prefix = f"spark.sql.catalog.{credentials.catalog}."
        complete = os.path.join(target, CATALOG_FILE)
        made = session._jvm.java.util.HashMap()
        for key, value in replace(credentials, warehouse=target).spark_settings().items():
            if key.startswith(prefix) and key != f"{prefix}type":
                made[key.removeprefix(prefix)] = value.replace(complete, f"{complete}.partial")
        catalog = session._jvm.org.apache.iceberg.CatalogUtil.loadCatalog(
            JDBC_CATALOG,
            credentials.catalog,
            made,
            session._jsparkSession.sessionState().newHadoopConf(),
        )
        try:
            for schema in {table.rpartition(".")[0] for table in [*tables, *views]}:
                catalog.createNamespace(java_namespace(session, schema))
            for table in tables:
                catalog.registerTable(java_identifier(session, table), files[table])
            for view in views:
                catalog.registerView(java_identifier(session, view), files[view])
        finally:
            catalog.close()
        shutil.rmtree(os.path.join(target, ".staging"), ignore_errors=True)
        os.rename(f"{complete}.partial", complete)
