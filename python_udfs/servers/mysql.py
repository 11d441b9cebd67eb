"""JDBC client for a MySQL server: settings from the environment, times in UTC, its binlog's end."""

from __future__ import annotations

import os

from dbt.adapters.sparksession.secrets import environment

from python_udfs.servers import jdbc
from python_udfs.servers.errors import ServerError

DRIVER = "com.mysql.cj.jdbc.Driver"
# sent at the start of each session: the server writes a TIMESTAMP in the session's zone
SESSION = "set time_zone = '+00:00'"

# a commit stands in the binlog a little before others see its rows
COMMIT_SECONDS = 2


def settings() -> dict[str, str]:
    """Options of JDBC from the environment: MYSQL_URL, MYSQL_USER, MYSQL_PASSWORD.

    Raises:
        ServerError: one of the first two isn't set.
    """
    missing = [variable for variable in ("MYSQL_URL", "MYSQL_USER") if not os.environ.get(variable)]
    if missing:
        raise ServerError(
            f"Not set: {', '.join(missing)}. They name the source database. "
            "Example: MYSQL_URL=jdbc:mysql://host:3306/ MYSQL_USER=reader MYSQL_PASSWORD=.."
        )
    return {
        "url": environment("MYSQL_URL") or "",
        "user": os.environ["MYSQL_USER"],
        "password": environment("MYSQL_PASSWORD") or "",
    }


def is_lock_wanted() -> bool:
    """Whether MYSQL_LOCK asks that writers of the table wait."""
    return os.environ.get("MYSQL_LOCK", "").lower() in ("true", "1", "yes")


def quoted(name: str) -> str:
    """A name, quoted for MySQL."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A text literal of MySQL that is read the same in every sql_mode."""
    return f"x'{text.encode().hex()}'"


class MysqlServer(jdbc.JdbcServer):
    """One connection, which reads and writes times in UTC."""

    driver = DRIVER
    jars = "MYSQL_JARS"
    example = "jdbc:mysql://host:port/"
    begin = (SESSION,)

    def position(self) -> str:
        """Where the binlog ends: file:position."""
        try:
            rows = self.query("show master status")
        except ServerError:  # MySQL 8.4 and newer
            rows = self.query("show binary log status")
        if not rows:
            raise ServerError(
                "The server keeps no binlog: what is read could not be followed by its log."
            )
        return f"{rows[0][0]}:{rows[0][1]}"
