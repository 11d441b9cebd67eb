"""Clients of the database servers of tests, by JDBC."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError


class SqlError(Exception):
    """The server refused a statement.

    Attributes:
        number: MySQL's error number, e.g. 1062 for a key that is there.
    """

    def __init__(self, exc: Py4JJavaError) -> None:
        self.number: int = exc.java_exception.getErrorCode()
        super().__init__(f"{self.number}: {exc.java_exception.getMessage()}")


class SqlClient:
    """One connection, which one thread may use. A statement is committed at once unless a
    transaction was begun.

    Args:
        gateway: to a JVM with the server's driver.
        url: the server's.
        options: of the connection, user and password among them.

    Raises:
        SqlError: the server can't be reached or refuses.
    """

    def __init__(self, gateway: Any, url: str, **options: str) -> None:
        properties = gateway.jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        try:
            self._connection = gateway.jvm.java.sql.DriverManager.getConnection(url, properties)
            self._statement = self._connection.createStatement()
        except Py4JJavaError as exc:
            raise SqlError(exc) from None

    def execute(self, sql: str) -> int:
        """Run a statement; the number of rows that it changed."""
        try:
            return self._statement.executeUpdate(sql)
        except Py4JJavaError as exc:
            raise SqlError(exc) from None

    def query(self, sql: str) -> list[tuple[str | None, ...]]:
        """The rows of a select, each value as text."""
        try:
            found = self._statement.executeQuery(sql)
            columns = range(1, found.getMetaData().getColumnCount() + 1)
            rows = []
            while found.next():
                rows.append(tuple(found.getString(column) for column in columns))
        except Py4JJavaError as exc:
            raise SqlError(exc) from None
        return rows

    def close(self) -> None:
        self._connection.close()
