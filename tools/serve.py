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
        unreadable: name of a relation that Spark can't read -> Spark's reason. It isn't listed.

    Args:
        session: Spark's.
        catalog: the warehouse's.
        schema: that readers have there, and the database that the server lists.
    """

    def __init__(self, session: Any, catalog: str, schema: str) -> None:
        self._session, self._source = session, f"{catalog}.{schema}"
        self._target = f"{LISTED}.{schema}"
        self.unlisted: list[str] = []
        self.unreadable: dict[str, str] = {}
        session.sql(f"create database if not exists {self._target}")
        # a view reads names without a catalog in the catalog in which it was made
        session.sql(f"use {self._source}")

    def update(self) -> int:
        """List what is published now; how many relations are listed.

        Names with other signs than letters, digits and _ are none that the server can list. What
        can't be read isn't listed either, and keeps nothing else from being listed.
        """
        found, listed = self._names(self._source), self._names(self._target)
        listable = {name for name in found if LISTABLE.fullmatch(name)}
        self.unlisted, self.unreadable = sorted(found - listable), {}
        wanted = {}
        for name in sorted(listable):
            try:
                wanted[name] = self._columns(self._source, name)
            except Exception as exc:
                self.unreadable[name] = _first_line(exc)
        for name in listed - wanted.keys():
            self._session.sql(f"drop view if exists {self._target}.{quoted(name)}")
        for name, columns in wanted.items():
            if name not in listed or columns != self._listed_columns(name):
                source, target = (
                    f"{place}.{quoted(name)}" for place in (self._source, self._target)
                )
                self._session.sql(f"create or replace view {target} as select * from {source}")
        return len(wanted)

    def _names(self, schema: str) -> set[str]:
        rows = self._session.sql(f"show views in {schema}").collect()
        return {row.viewName for row in rows if not row.isTemporary}

    def _columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        """Names and types."""
        fields = self._session.table(f"{schema}.{quoted(name)}").schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def _listed_columns(self, name: str) -> list[tuple[str, str]]:
        """Names and types; [] where the listed view no longer fits what it reads."""
        try:
            return self._columns(self._target, name)
        except Exception:  # of a view whose columns are gone; it is made again
            return []


def _first_line(exc: BaseException) -> str:
    """Spark's reason without its causes."""
    return message_of(exc).partition("\n")[0]


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
        reason = _first_line(exc)
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
    if not count and not names.unreadable:
        raise DbtRuntimeError("Nothing is published yet: `make run` publishes a first version.")
    stopped = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stopped.set())
    server, own_port = start_server(session)
    print(
        f"{count} table{'' if count == 1 else 's'} at jdbc:hive2://{HOST}:{own_port}/{schema}, "
        "without a password, to read; Ctrl-C ends it.",
        flush=True,
    )
    for name in names.unlisted:
        print(f"Not listed for its name: {credentials.catalog}.{schema}.{quoted(name)}", flush=True)
    known: dict[str, str] = {}
    while True:
        for name, reason in names.unreadable.items() - known.items():
            place = f"{credentials.catalog}.{schema}.{quoted(name)}"
            print(f"Not listed, as Spark can't read it: {place}: {reason}", flush=True)
        known = names.unreadable
        if stopped.wait(SECONDS_BETWEEN_LOOKS):
            break
        try:
            names.update()
        except Exception as exc:  # a version may be published just now; the next look shows it
            print(f"The list of tables is as it was: {_first_line(exc)}", flush=True)
    server.stop()
    return 0
