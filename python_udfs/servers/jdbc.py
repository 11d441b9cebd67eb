"""JDBC client for one server: one connection, beside Spark's own.

Control statements take the driver that Spark writes the rows by: one URL, one set of options, one
store of trusted certificates for both. PyMySQL and psycopg know neither these
options nor that store, see docs/explanation/connections.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from python_udfs.servers.errors import ServerError, server_error
from python_udfs.servers.java import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class JdbcServer:
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
            for _ in range(2):  # the first call after Ctrl-C may fail, see stop_signals.is_stop
                with suppress(Exception):
                    statement.cancel()
            raise
        except Exception as exc:
            raise server_error(exc, "The server refused") from None

    def frame(self, sql: str, names: list[str]) -> DataFrame:
        """Rows of a select of texts as a DataFrame, read by this connection.

        All rows come to Python in one answer of Java: py4j takes some 0.1 ms for each value that is
        asked for by itself. XML has no place for most control characters: the select writes texts
        that may hold any in hex.
        """
        import pyarrow as pa

        jvm = jvm_of(self._session)
        try:
            rows = self._connection.createStatement().executeQuery(sql)
            writer = jvm.java.io.StringWriter()
            row_set = jvm.javax.sql.rowset.RowSetProvider.newFactory().createWebRowSet()
            row_set.writeXml(rows, writer)
        except Exception as exc:
            raise server_error(exc, "The server refused") from None
        try:
            columns = zip(*_rows_of(writer.toString()), strict=True)
        except ElementTree.ParseError:
            raise ServerError(
                "A value that was read holds a control character: write it in hex in the select"
            ) from None
        values = [list(column) for column in columns] or [[] for _ in names]
        arrays = [pa.array(column, type=pa.string()) for column in values]
        table = pa.Table.from_arrays(arrays, names=names)
        return self._session.createDataFrame(table)

    def close(self) -> None:
        self._connection.close()


def _rows_of(text: str) -> Iterator[list[str | None]]:
    """Rows of Java's WebRowSet as XML, each value a text or null."""
    space = "{http://java.sun.com/xml/ns/jdbc}"
    for row in ElementTree.fromstring(text).iter(f"{space}currentRow"):
        yield [
            None if value.find(f"{space}null") is not None else value.text or ""
            for value in row.iter(f"{space}columnValue")
        ]
