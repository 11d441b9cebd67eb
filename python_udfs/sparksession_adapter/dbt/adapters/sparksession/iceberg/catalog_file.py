"""A catalog that is a file of SQLite, and metadata in local files, read without Spark.

The catalog's row is what Iceberg reads before anything else: it names a table's newest metadata
file, and such a file never changes. What this can't read, Iceberg is asked for.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlparse

URI_START = "jdbc:sqlite:"
ONE_ROW = (
    "select metadata_location, iceberg_type from iceberg_tables "
    "where catalog_name = ? and table_namespace = ? and table_name = ?"
)
ALL_ROWS = (
    "select table_namespace || '.' || table_name, metadata_location from iceberg_tables "
    "where catalog_name = ? and metadata_location is not null order by 1"
)
BUSY_SECONDS = 1.0  # that a writer may hold the file; then Iceberg is asked, which waits longer
GZIP_START = b"\x1f\x8b"


def local_path(location: str) -> str | None:
    """Real path of a place in the local file system, else None.

    >>> local_path("file:/tmp/../a%20b")
    '/a%20b'
    """
    scheme = urlparse(location).scheme
    if scheme == "file":
        location = "/" + location[len("file:") :].lstrip("/")
    elif scheme:
        return None
    return os.path.realpath(location)


def metadata_at(location: str) -> dict[str, Any]:
    """The content of a metadata file, see Iceberg's table and view specs.

    Raises:
        OSError, ValueError: it isn't there or can't be read.
    """
    path = local_path(location)
    if path is None:
        raise ValueError(f"{location} is no local file")
    with open(path, "rb") as file:
        content = file.read()
    return json.loads(gzip.decompress(content) if content.startswith(GZIP_START) else content)


@dataclass(frozen=True)
class CatalogFile:
    """
    Attributes:
        path: of the SQLite file.
        catalog: the catalog's name in it.
    """

    path: str
    catalog: str

    @classmethod
    def of_settings(cls, settings: Mapping[str, str], catalog: str) -> CatalogFile | None:
        """The file of a catalog by Spark's settings; None where it is no file of SQLite."""
        lake = f"spark.sql.catalog.{catalog}"
        uri = settings.get(f"{lake}.uri", "")
        if settings.get(f"{lake}.type") != "jdbc" or not uri.startswith(URI_START):
            return None
        return cls(uri.removeprefix(URI_START).partition("?")[0], catalog)

    def location_of(self, table: str, kind: str = "TABLE") -> str | None:
        """Place of the newest metadata of a table or view; None where there is no such.

        Args:
            table: schema.name.
            kind: TABLE or VIEW.

        Raises:
            LookupError: the file can't be read, or `table` is no plain name.
        """
        schema, _, name = table.partition(".")
        if not schema or not name or "." in name or "`" in table:
            raise LookupError(table)
        try:
            rows = self._rows(ONE_ROW, schema, name)
        except sqlite3.Error as exc:
            raise LookupError(table) from exc
        return rows[0][0] if rows and (rows[0][1] or "TABLE") == kind else None

    def places(self) -> list[tuple[str, str]]:
        """schema.name of each table and view, with the place of its metadata; [] where the file
        can't be read."""
        try:
            return self._rows(ALL_ROWS)
        except sqlite3.Error:
            return []

    def _rows(self, asked: str, *values: str) -> list[tuple[Any, ...]]:
        # opened for each question: another file may have its name by then
        place = f"file:{quote(self.path)}?mode=ro"
        with closing(sqlite3.connect(place, timeout=BUSY_SECONDS, uri=True)) as opened:
            return opened.execute(asked, [self.catalog, *values]).fetchall()
