"""Iceberg's own objects behind the tables, through Spark's Java process.

What a query of a metadata table takes a Spark job for, they tell at once. A remote session has no
Java process here: callers then ask by SQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dbt.adapters.sparksession.session import is_remote, message_of
from dbt.adapters.sparksession.sql import is_absent
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JError

LOST_FILE = re.compile(r"NotFoundException: Failed to open input stream for file: (\S+)")
# milliseconds that Iceberg lets a commit be dated before the commit before it
CLOCK_MAY_LAG = 60_000


class LostFileError(DbtRuntimeError):
    """The catalog names a metadata file that is gone."""


def loaded(session: Any, catalog: str, table: str) -> Any:
    """Iceberg's table object of `table` (schema.name); None on a remote session.

    Raises:
        LostFileError: the catalog names a file of it that is gone.
        DbtRuntimeError: there is no such table (see is_absent), or it can't be read.
    """
    if is_remote(session):
        return None
    util = session._jvm.org.apache.iceberg.spark.Spark3Util
    with active(session):
        try:
            return util.loadIcebergTable(session._jsparkSession, f"{catalog}.{table}")
        except Exception as exc:
            raise _unread(table, exc) from exc


@contextmanager
def active(session: Any) -> Iterator[None]:
    """Within it catalogs are opened by the settings of this session, which may not be the thread's
    own."""
    sessions = session._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _unread(table: str, exc: Exception) -> DbtRuntimeError:
    """The error of a table that can't be read."""
    text = message_of(exc)
    lost = LOST_FILE.search(text)
    if lost is None:
        return DbtRuntimeError(text)
    return LostFileError(
        f"{table} can't be read: the catalog names its file {lost[1]}, which is gone. The catalog "
        "and the folder `data` of a warehouse belong together: restore both from one backup, or "
        "bring the catalog up to the tables by dbt run-operation register_tables."
    )


def metadata(session: Any, table: Any) -> dict[str, Any]:
    """The newest metadata file of a table object, see Iceberg's table spec."""
    parser = session._jvm.org.apache.iceberg.TableMetadataParser
    return json.loads(parser.toJson(table.operations().current()))


def metadata_of_tables(session: Any, catalog: str, schema: str) -> dict[str, dict[str, Any]]:
    """Name of each table of a schema -> its newest metadata, see `metadata`; {} where there is no
    such schema. A remote session has no Java process to ask: callers look at is_remote.

    Raises:
        LostFileError: the catalog names a file of a table that is gone.
        DbtRuntimeError: the catalog or a table can't be read.
    """
    java = session._jvm.org.apache.iceberg
    found: dict[str, dict[str, Any]] = {}
    table = schema
    with active(session):
        try:
            opened = java.spark.Spark3Util.loadIcebergCatalog(session._jsparkSession, catalog)
            space = java_namespace(session, schema)
            for identifier in list(opened.listTables(space)):
                table = str(identifier)
                try:
                    held = opened.loadTable(identifier)
                except Py4JError as exc:
                    if is_absent(exc):  # dropped since it was listed
                        continue
                    raise
                found[str(identifier.name())] = metadata(session, held)
        except Py4JError as exc:
            if not found and is_absent(exc):
                return {}
            raise _unread(table, exc) from exc
    return found


def java_texts(session: Any, texts: Sequence[str]) -> Any:
    """Java's array of these."""
    array = session.sparkContext._gateway.new_array(session._jvm.java.lang.String, len(texts))
    for place, text in enumerate(texts):
        array[place] = text
    return array


def java_namespace(session: Any, schema: str) -> Any:
    """Iceberg's Namespace of a schema's name."""
    levels = java_texts(session, schema.split("."))
    return session._jvm.org.apache.iceberg.catalog.Namespace.of(levels)


def is_null_free(session: Any, table: Any, column: str) -> bool:
    """Whether the metrics of a table object's files prove that no row has a null in a column.

    Iceberg leaves a file out of such a scan only where its count of nulls is known to be 0, as it
    does for a query of Spark: the manifests are read, no file is opened.

    Args:
        column: a top-level column of the table, in any case.
    """
    java = session._jvm.org.apache.iceberg
    scan = table.newScan().caseSensitive(False)
    files = scan.filter(java.expressions.Expressions.isNull(column)).planFiles()
    try:
        return not files.iterator().hasNext()
    finally:
        files.close()


def has_same_columns(table: Any, snapshot: int) -> bool:
    """Whether the columns of a table object are those that it had at a snapshot, of the same names
    and types."""
    then, now = table.schemas().get(table.snapshot(snapshot).schemaId()), table.schema()
    for column in then.columns():
        same = now.findField(column.fieldId())
        if same is None or same.name() != column.name() or not same.type().equals(column.type()):
            return False
    return bool(then.columns().size() == now.columns().size())


def dated(table_metadata: dict[str, Any], now: int) -> dict[str, Any]:
    """A table's metadata with nothing in it that is later than `now` (milliseconds).

    >>> dated({"last-updated-ms": 9, "snapshots": [{"snapshot-id": 8, "timestamp-ms": 7}]}, 5)
    {'last-updated-ms': 5, 'snapshots': [{'snapshot-id': 8, 'timestamp-ms': 5}]}
    """
    lists = ("snapshots", "snapshot-log", "metadata-log")
    found = table_metadata | {"last-updated-ms": min(table_metadata["last-updated-ms"], now)}
    for name in lists:
        if name in table_metadata:
            found[name] = [
                entry | {"timestamp-ms": min(entry["timestamp-ms"], now)}
                for entry in table_metadata[name]
            ]
    return found


def put_to_now(session: Any, table: Any) -> float:
    """Let commits of a table that are dated ahead of the clock be dated now; seconds it was ahead.

    Where a clock had jumped ahead and is right again, Iceberg refuses each further commit until the
    clock has caught up. The commits stay what they are, in their order.
    """
    operations = table.operations()
    before = operations.current()
    now = session._jvm.java.lang.System.currentTimeMillis()
    ahead = before.lastUpdatedMillis() - now
    if ahead <= CLOCK_MAY_LAG:
        return 0.0
    text = json.dumps(dated(metadata(session, table), now))
    parser = session._jvm.org.apache.iceberg.TableMetadataParser
    operations.commit(before, parser.fromJson(text))
    return ahead / 1000
