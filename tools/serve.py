"""`make serve`: a server that BI tools ask, as they ask Hive (Spark's Thrift server, JDBC).

    make serve                jdbc:hive2://127.0.0.1:10000/published
    make serve PORT=10001     another port; 0 takes a free one

It only reads: the catalog's file is opened so that nothing can be written. The database
`published` has a view of each relation of the newest published version, under its own name, so
that a tool's list of tables shows them. A new version is there at once; new relations and columns
are listed within SECONDS_BETWEEN_LOOKS. Nobody is asked for a password, and who reaches the port
works as the user who started the server: it listens on 127.0.0.1 alone.
"""

from __future__ import annotations

import re
import signal
import threading
from typing import Any

from dbt.adapters.sparksession.catalogs import SQLITE
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.session import message_of, own_session
from dbt.adapters.sparksession.sql import quoted
from dbt_common.exceptions import DbtRuntimeError

from tools.sql import reading_credentials

HOST = "127.0.0.1"
LISTED = "spark_catalog"  # Spark's own catalog: the server lists no other
LISTABLE = re.compile(r"[A-Za-z0-9_]++")
SECONDS_BETWEEN_LOOKS = 30
SETTINGS = {
    "spark.hadoop.hive.server2.thrift.bind.host": HOST,
    "spark.sql.defaultCatalog": LISTED,
    # the server wants a metastore of Hive's, though it keeps nothing there: one in memory
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:serve;create=true",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
    "spark.hadoop.hive.metastore.schema.verification": "false",
}


class PublishedNames:
    """The relations of the newest version, as views that the server lists.

    Attributes:
        unlisted: names of relations that it can't list.

    Args:
        session: Spark's.
        catalog: the warehouse's.
        schema: that readers have there, and the database that the server lists.
    """

    def __init__(self, session: Any, catalog: str, schema: str) -> None:
        self._session, self._source = session, f"{catalog}.{schema}"
        self._target = f"{LISTED}.{schema}"
        self.unlisted: list[str] = []
        session.sql(f"create database if not exists {self._target}")
        # a view reads names without a catalog in the catalog in which it was made
        session.sql(f"use {self._source}")

    def update(self) -> int:
        """List what is published now; how many relations it is.

        Names with other signs than letters, digits and _ are none that the server can list.
        """
        found, listed = self._names(self._source), self._names(self._target)
        wanted = {name for name in found if LISTABLE.fullmatch(name)}
        self.unlisted = sorted(found - wanted)
        for name in listed - wanted:
            self._session.sql(f"drop view if exists {self._target}.{quoted(name)}")
        for name in sorted(wanted):
            source, target = (f"{place}.{quoted(name)}" for place in (self._source, self._target))
            if name in listed and self._columns(source) == self._columns(target):
                continue
            self._session.sql(f"create or replace view {target} as select * from {source}")
        return len(wanted)

    def _names(self, schema: str) -> set[str]:
        rows = self._session.sql(f"show views in {schema}").collect()
        return {row.viewName for row in rows if not row.isTemporary}

    def _columns(self, relation: str) -> list[tuple[str, str]]:
        """Names and types; [] where the relation no longer fits what it reads."""
        try:
            fields = self._session.table(relation).schema.fields
        except Exception:  # of a view whose columns are gone; it is made again
            return []
        return [(field.name, field.dataType.simpleString()) for field in fields]


def serving_credentials(port: int) -> SparkSessionCredentials:
    """Those of a reader, with the server's settings.

    Raises:
        DbtRuntimeError: there is no warehouse to read, or its catalog could be written.
    """
    credentials = reading_credentials()
    if credentials.catalog_type != SQLITE:
        raise DbtRuntimeError(
            f"CATALOG is {credentials.catalog_type}, which this server could write to: start "
            "Spark's own Thrift server with a login that only reads."
        )
    credentials.server_side_parameters |= SETTINGS
    credentials.server_side_parameters["spark.hadoop.hive.server2.thrift.port"] = str(port)
    return credentials


def start_server(session: Any) -> tuple[Any, int]:
    """Spark's Thrift server on a session, and its port.

    Raises:
        DbtRuntimeError: it doesn't start, as when the port is taken.
    """
    jvm, spark = session._jvm, session._jsparkSession
    # its threads load the catalog's class: the jars that Spark was given have it
    jvm.java.lang.Thread.currentThread().setContextClassLoader(spark.sharedState().jarClassLoader())
    thrift = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    try:
        server = thrift.startWithSparkSession(spark, False)
    except Exception as exc:
        reason = message_of(exc).partition("\n")[0]
        raise DbtRuntimeError(f"The server doesn't start: {reason}") from exc
    (binary,) = (item for item in server.getServices() if "Thrift" in item.getName())
    return server, binary.getPortNumber()


def main(port: int) -> int:
    """Serve until Ctrl-C or SIGTERM; the process's exit code.

    Raises:
        DbtRuntimeError: there is nothing to serve, or the server doesn't start.
    """
    credentials = serving_credentials(port)
    session = own_session(credentials).session
    schema = credentials.published_schema
    names = PublishedNames(session, credentials.catalog, schema)
    count = names.update()
    if not count:
        raise DbtRuntimeError("Nothing is published yet: `make run` publishes a first version.")
    stopped = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stopped.set())
    server, own_port = start_server(session)
    print(
        f"{count} tables at jdbc:hive2://{HOST}:{own_port}/{schema}, without a password, to read; "
        "Ctrl-C ends it.",
        flush=True,
    )
    for name in names.unlisted:
        print(f"Not listed for its name: {credentials.catalog}.{schema}.{quoted(name)}", flush=True)
    while not stopped.wait(SECONDS_BETWEEN_LOOKS):
        try:
            names.update()
        except Exception as exc:  # a version may be published just now; the next look shows it
            print(f"The list of tables is as it was: {message_of(exc).splitlines()[0]}", flush=True)
    server.stop()
    return 0
