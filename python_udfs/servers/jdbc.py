"""JDBC client for one server: one connection, beside Spark's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.secrets import redacted

from python_udfs.servers.java import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ServerError(Exception):
    """A server can't be reached or refuses; the message is for the user."""


class Server:
    """One connection. A subclass for each make of servers sets:

    Attributes:
        driver: class of its JDBC driver.
        jars: the environment variable that names the driver's jar.
        example: what its URL looks like.
        begin: statements that are sent at the start of each session.

    Raises:
        ServerError: the server can't be reached or refuses, or Spark has no jar with the driver.
    """

    driver: str
    jars: str
    example: str
    begin: tuple[str, ...] = ()

    def __init__(self, session: SparkSession, options: dict[str, str]) -> None:
        self._session = session
        jvm = jvm_of(session)
        properties = jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        try:
            driver = reduce(getattr, self.driver.split("."), jvm)()
        except TypeError:  # py4j takes an unknown class for a package, which can't be called
            raise ServerError(
                f"The jar of its JDBC driver isn't there, {self.jars} names it"
            ) from None
        try:
            self._connection = driver.connect(options["url"], properties)
        except Exception as exc:
            raise server_error(exc, "The server can't be reached") from None
        if self._connection is None:
            raise ServerError(f"The URL must look like {self.example}")
        for sql in self.begin:
            self.execute(sql)

    def execute(self, sql: str) -> None:
        with self._statement() as statement:
            statement.execute(sql)

    def change(self, sql: str) -> int:
        """Run an insert, update or delete; the number of rows that the server reports."""
        with self._statement() as statement:
            changed: int = statement.executeUpdate(sql)
        return changed

    def query(self, sql: str) -> list[tuple[str | None, ...]]:
        """Rows of a select, each value as text."""
        with self._statement() as statement:
            found = statement.executeQuery(sql)
            columns = range(1, found.getMetaData().getColumnCount() + 1)
            rows = []
            while found.next():
                rows.append(tuple(found.getString(number) for number in columns))
        return rows

    @contextmanager
    def _statement(self) -> Iterator[Any]:
        """A statement. Where Ctrl-C comes while the server works on it, the server stops: else it
        would go on behind a process that has ended, and keep what it has locked.

        Raises:
            ServerError: the server refuses.
        """
        statement: Any = None
        try:
            statement = self._connection.createStatement()
            yield statement
        except KeyboardInterrupt:
            with suppress(Exception):
                statement.cancel()
            raise
        except Exception as exc:
            raise server_error(exc, "The server refused") from None

    def frame(self, sql: str, names: list[str]) -> DataFrame:
        """Rows of a select of texts as a DataFrame, read by this connection.

        They pass through the driver's memory, but not through Python.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.types import StringType, StructField, StructType

        jvm = jvm_of(self._session)
        schema = StructType([StructField(name, StringType()) for name in names])
        java_schema = self._session._jsparkSession.parseDataType(schema.json())
        try:
            found = self._connection.createStatement().executeQuery(sql)
            utils = jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
            rows = utils.resultSetToRows(found, java_schema)
            listed = jvm.scala.jdk.javaapi.CollectionConverters.asJava(rows.toList())
        except Exception as exc:
            raise server_error(exc, "The server refused") from None
        made = self._session._jsparkSession.createDataFrame(listed, java_schema)
        return DataFrame(made, self._session)

    def close(self) -> None:
        self._connection.close()


def server_error(exc: Exception, what: str) -> ServerError:
    """The error with the server's own message, without the connection's settings.

    Args:
        exc: of py4j or Spark; the message of its innermost cause is taken.
        what: how the text begins.
    """
    java = getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
    message = str(exc) if java is None else "it said nothing"
    while java is not None:  # the innermost cause with a message
        message, java = java.getMessage() or message, java.getCause()
    return ServerError(redacted(f"{what}: {message}"))
