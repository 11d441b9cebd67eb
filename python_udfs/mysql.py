"""A MySQL server as the project reads it by JDBC, beside Spark's own connections."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER = "com.mysql.cj.jdbc.Driver"
# sent at the start of each session: the server writes a TIMESTAMP in the session's zone
SESSION = "set time_zone = '+00:00'"

# a commit stands in the binlog a little before others see its rows
COMMIT_SECONDS = 2


class ServerError(Exception):
    """Why the server can't be read, in words for the user."""


def settings() -> dict[str, str]:
    """Options of JDBC from the environment: MYSQL_URL, MYSQL_USER, MYSQL_PASSWORD.

    Raises:
        ServerError: one of the first two isn't set.
    """
    missing = [one for one in ("MYSQL_URL", "MYSQL_USER") if not os.environ.get(one)]
    if missing:
        raise ServerError(
            f"Not set: {', '.join(missing)}. They say where the source database is. "
            "Example: MYSQL_URL=jdbc:mysql://host:3306/ MYSQL_USER=reader MYSQL_PASSWORD=.."
        )
    return {
        "url": os.environ["MYSQL_URL"],
        "user": os.environ["MYSQL_USER"],
        "password": os.environ.get("MYSQL_PASSWORD", ""),
    }


def is_lock_wanted() -> bool:
    """MYSQL_LOCK: writers of the table wait meanwhile."""
    return os.environ.get("MYSQL_LOCK", "").lower() in ("true", "1", "yes")


def quoted(name: str) -> str:
    """A name as MySQL's SQL has it."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A text as MySQL's SQL has it, whatever the session's mode."""
    return f"x'{text.encode().hex()}'"


class Server:
    """One connection.

    Raises:
        ServerError: the server can't be reached or refuses.
    """

    def __init__(self, session: SparkSession, options: dict[str, str]) -> None:
        self._session = session
        jvm = session._jvm
        properties = jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        try:
            self._connection = jvm.com.mysql.cj.jdbc.Driver().connect(options["url"], properties)
        except Exception as exc:
            raise told(exc, "The server can't be reached") from None
        if self._connection is None:
            raise ServerError("The URL must look like jdbc:mysql://host:port/")
        self.execute(SESSION)

    def execute(self, sql: str) -> None:
        try:
            self._connection.createStatement().execute(sql)
        except Exception as exc:
            raise told(exc, "The server refused") from None

    def change(self, sql: str) -> int:
        """Run an insert, update or delete; the rows that the server says it touched."""
        try:
            return self._connection.createStatement().executeUpdate(sql)
        except Exception as exc:
            raise told(exc, "The server refused") from None

    def query(self, sql: str) -> list[tuple[str | None, ...]]:
        """Rows of a select as texts."""
        try:
            found = self._connection.createStatement().executeQuery(sql)
            columns = range(1, found.getMetaData().getColumnCount() + 1)
            rows = []
            while found.next():
                rows.append(tuple(found.getString(one) for one in columns))
        except Exception as exc:
            raise told(exc, "The server refused") from None
        return rows

    def frame(self, sql: str, names: list[str]) -> DataFrame:
        """Rows of a select of texts as a DataFrame, by way of this connection.

        They pass through the driver's memory, but not through Python.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.types import StringType, StructField, StructType

        jvm = self._session._jvm
        schema = StructType([StructField(name, StringType()) for name in names])
        java_schema = self._session._jsparkSession.parseDataType(schema.json())
        try:
            found = self._connection.createStatement().executeQuery(sql)
            utils = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
            rows = utils.resultSetToRows(found, java_schema)
            listed = jvm.scala.jdk.javaapi.CollectionConverters.asJava(rows.toList())
        except Exception as exc:
            raise told(exc, "The server refused") from None
        made = self._session._jsparkSession.createDataFrame(listed, java_schema)
        return DataFrame(made, self._session)

    def position(self) -> str:
        """Where the binlog ends: file:position."""
        try:
            rows = self.query("show master status")
        except ServerError:  # as MySQL 8.4 and newer say it
            rows = self.query("show binary log status")
        if not rows:
            raise ServerError(
                "The server keeps no binlog: what is read could not be followed by its log."
            )
        return f"{rows[0][0]}:{rows[0][1]}"

    def close(self) -> None:
        self._connection.close()


def told(exc: Exception, what: str) -> ServerError:
    """The server's own words; not the connection's settings."""
    java = getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return ServerError(f"{what}: {java.getMessage() if java is not None else exc}")
