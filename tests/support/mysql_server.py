"""A real MySQL server for tests, with a binlog, and clients of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.common import free_ports
from tests.support.histories import ZONE
from tests.support.jvm import lab_folder, start_jvm
from tests.support.sql_client import SqlClient, SqlError

OPTIONS = """
--no-defaults
--bind-address=127.0.0.1
--skip-name-resolve
--server-id=1
--binlog-format=ROW
--binlog-row-image=FULL
--character-set-server=utf8mb4
--collation-server=utf8mb4_bin
--default-time-zone=+00:00
--sql-mode=NO_ENGINE_SUBSTITUTION,STRICT_TRANS_TABLES
--explicit-defaults-for-timestamp
--transaction-isolation=READ-COMMITTED
--innodb-flush-log-at-trx-commit=2
--sync-binlog=0
"""
USER, PASSWORD = "app", "word-of-the-app"
START_SECONDS = 60


def mysql_folder() -> Path | None:
    """Folder of a MySQL 5.6 server and its empty data: mysql56/package/server in CDC_LAB."""
    return lab_folder("mysql56", "package", "server", holds="mysqld")


def mysql_client() -> Path | None:
    """The jar of a JDBC driver that speaks with MySQL 5.6: mysql-connector/lib in CDC_LAB."""
    lib = lab_folder("mysql-connector", "lib", holds="mysql-connector-j-*.jar")
    return next(lib.glob("mysql-connector-j-*.jar")) if lib else None


class MysqlClient(SqlClient):
    """One connection to MySQL."""

    def table(self, columns: Iterable[str], rest: str) -> list[dict[str, bytes | None]]:
        """Rows of `select <columns> <rest>`, exactly: name -> the value's text as bytes.

        Each row comes as one text, which is quick.
        """
        names = list(columns)
        parts = ", ".join(f"ifnull(hex(cast({name} as binary)), '-')" for name in names)
        return [
            {
                name: None if value == "-" else bytes.fromhex(value)
                for name, value in zip(names, (text or "").split(","), strict=True)
            }
            for (text,) in self.query(f"select concat_ws(',', {parts}) {rest}")
        ]


class MysqlServer:
    """MySQL on a free port of 127.0.0.1, with the user USER who may do anything.

    Args:
        folder: its own folder for data and logs.
        server: see `mysql_folder`.
        client: see `mysql_client`.

    Raises:
        RuntimeError: it did not start; the message ends with what it printed.
    """

    def __init__(self, folder: Path, server: Path, client: Path) -> None:
        [self.port] = free_ports(1)
        self._folder, self._server = folder, server
        for name in ("tmp", "binlog"):
            (folder / name).mkdir()
        self._make_data()
        users = folder / "users.sql"
        users.write_text(
            f"grant all on *.* to '{USER}'@'127.0.0.1' identified by '{PASSWORD}' "
            "with grant option;\n"
        )
        self._printed = (folder / "client.log").open("w")
        self._gateway, _ = start_jvm(str(client), ["-Xmx128m"], self._printed)
        self.start()

    def start(self) -> None:
        """Start the server; after `kill` on the data and the port that it had."""
        folder = self._folder
        with (folder / "mysqld.log").open("a") as printed:
            self._process = subprocess.Popen(
                [
                    *self._command(),
                    *(["--user=root"] if os.getuid() == 0 else []),  # else it refuses to
                    f"--datadir={folder / 'data'}",
                    f"--tmpdir={folder / 'tmp'}",
                    f"--socket={folder / 'sock'}",
                    f"--log-bin={folder / 'binlog' / 'bin'}",
                    f"--port={self.port}",
                    f"--init-file={folder / 'users.sql'}",
                ],
                env={**os.environ, "LD_LIBRARY_PATH": str(self._libraries())},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    def kill(self) -> None:
        """End the server as kill -9 does."""
        self._process.kill()
        self._process.wait()

    def _make_data(self) -> None:
        # the package keeps it writable for nobody but its owner
        shutil.copytree(self._server / "data" / "mysql", self._folder / "data")
        (self._folder / "data" / "auto.cnf").unlink(missing_ok=True)

    def _command(self) -> list[str | Path]:
        share = self._server / "share"
        own = [f"--basedir={self._server}", f"--lc-messages-dir={share}"]
        return [self._server / "mysqld", *OPTIONS.split(), *own]

    def _libraries(self) -> Path:
        return self._server

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except SqlError as exc:
                if self._process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.2)
                    continue
                self.stop()
                printed = (self._folder / "mysqld.log").read_text(errors="replace")
                raise RuntimeError(f"MySQL did not start: {exc}\n{printed[-2000:]}") from exc

    @property
    def url(self) -> str:
        return f"jdbc:mysql://127.0.0.1:{self.port}/"

    @property
    def load_settings(self) -> dict[str, str]:
        """Environment variables by which `make full-load` reads this server."""
        return {
            "MYSQL_URL": self.url,
            "MYSQL_USER": USER,
            "MYSQL_PASSWORD": PASSWORD,
            "MYSQL_JARS": str(mysql_client()),
        }

    def connect(self) -> MysqlClient:
        """A new connection, which one thread may use."""
        # rows that an update left as they were don't count as changed
        options = {"useSSL": "false", "useAffectedRows": "true"}
        client = MysqlClient(self._gateway, self.url, user=USER, password=PASSWORD, **options)
        client.execute("set names utf8mb4")
        return client

    def stop(self) -> None:
        """Stop the server and the clients' JVM."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._gateway.shutdown()
        self._printed.close()


def mariadb_folder() -> Path | None:
    """Folder of a MariaDB server (`sbin`, `bin`, `share`, `lib`): mariadb/usr in CDC_LAB, else
    the system's own."""
    installed = Path("/usr")
    found = lab_folder("mariadb", "usr", holds="sbin/mariadbd")
    return found or (installed if (installed / "sbin" / "mariadbd").is_file() else None)


class MariadbServer(MysqlServer):
    """The same of MariaDB; `server`: see `mariadb_folder`."""

    def _make_data(self) -> None:
        subprocess.run(
            [
                self._server / "bin" / "mariadb-install-db",
                "--no-defaults",
                f"--basedir={self._server}",
                f"--datadir={self._folder / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            env={**os.environ, "LD_LIBRARY_PATH": str(self._libraries())},
            capture_output=True,
            check=True,
        )

    def _command(self) -> list[str | Path]:
        options = [part for part in OPTIONS.split() if "defaults-for" not in part]
        return [self._server / "sbin" / "mariadbd", *options, f"--basedir={self._server}"]

    def _libraries(self) -> Path:
        return next((self._server / "lib").glob("*-linux-gnu"), self._server)


def rows_of(client: MysqlClient, table: str, kinds: dict[str, str]) -> list[dict[str, Any]]:
    """A table's rows, as the warehouse has them; see `value_of`."""
    expressions = {}
    for name, kind in kinds.items():
        column = f"`{name.replace('`', '``')}`"
        # by themselves their bytes are no number, not the whole number and no UTF-8
        if kind.startswith("bit"):
            column += " + 0"
        elif kind == "float":
            column += " + 0e0"
        elif kind.startswith("varchar"):
            column = f"convert({column} using utf8mb4)"
        expressions[name] = column
    return [
        {name: value_of(kind, row[expressions[name]]) for name, kind in kinds.items()}
        for row in client.table(expressions.values(), f"from {table}")
    ]


def value_of(kind: str, text: bytes | None) -> Any:
    """A value that `MysqlClient.table` gave, as the warehouse has it.

    Times are in UTC (a DATETIME is one of ZONE), dates and times that are zero null.

    Args:
        kind: the column's type; a float must have been asked for as a double.
    """
    if text is None:
        return None
    if "binary" in kind or "blob" in kind:
        return text
    plain = text.decode()
    if "int" in kind or kind.startswith(("bit", "year")):
        return int(plain)
    if kind.startswith("decimal"):
        return Decimal(plain)
    if kind in ("float", "double"):
        return float(plain)
    if kind.startswith(("date", "timestamp")):
        if plain.startswith("0000"):
            return None
        if kind == "date":
            return date.fromisoformat(plain)
        ahead = ZONE if kind.startswith("datetime") else ZONE * 0
        return (datetime.fromisoformat(plain) - ahead).replace(tzinfo=UTC)
    return plain
