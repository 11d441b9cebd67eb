"""Iceberg's own objects behind the tables, through Spark's Java process.

What a query of a metadata table takes a Spark job for, they tell at once. A remote session has no
Java process here: callers then ask by SQL.
"""

from __future__ import annotations

import json
from typing import Any

CLOCK_MAY_LAG = 60_000  # milliseconds that Iceberg lets a commit be dated before the one before it


def is_remote(session: Any) -> bool:
    return not hasattr(session, "_jsparkSession")


def loaded(session: Any, catalog: str, table: str) -> Any:
    """Iceberg's table object of `table` (schema.name); None on a remote session.

    Raises:
        Py4JJavaError: there is no such table.
    """
    if is_remote(session):
        return None
    jvm, spark = session._jvm, session._jsparkSession
    # a catalog is opened by the settings of the thread's session, which may be another one
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark)
    try:
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark, f"{catalog}.{table}")
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def metadata(session: Any, table: Any) -> dict[str, Any]:
    """What the newest metadata file of a table object says, see Iceberg's table spec."""
    parser = session._jvm.org.apache.iceberg.TableMetadataParser
    return json.loads(parser.toJson(table.operations().current()))


def dated(told: dict[str, Any], now: int) -> dict[str, Any]:
    """A table's metadata with nothing in it that is later than `now` (milliseconds).

    >>> dated({"last-updated-ms": 9, "snapshots": [{"snapshot-id": 8, "timestamp-ms": 7}]}, 5)
    {'last-updated-ms': 5, 'snapshots': [{'snapshot-id': 8, 'timestamp-ms': 5}]}
    """
    lists = ("snapshots", "snapshot-log", "metadata-log")
    found = told | {"last-updated-ms": min(told["last-updated-ms"], now)}
    for name in lists:
        if name in told:
            found[name] = [
                one | {"timestamp-ms": min(one["timestamp-ms"], now)} for one in told[name]
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
