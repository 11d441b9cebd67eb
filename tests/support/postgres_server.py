"""A real PostgreSQL server for tests, and clients of it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import free_ports
from tests.support.jvm import start_jvm
from tests.support.sql_client import SqlClient, SqlError

# a server that is killed leaves what it wrote to the system, whether or not it reached the disk
OPTIONS = """
-c unix_socket_directories=
-c fsync=off
-c shared_buffers=32MB
"""
USER, PASSWORD = "app", "word-of-the-app"
START_SECONDS = 60
LOCALHOST = "127.0.0.1"


def postgres_folder() -> Path | None:
    """Folder of PostgreSQL's programs: initdb and postgres, on the PATH or where Debian's packages
    put them, the newest."""
    on_path = shutil.which("initdb")
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    versions = sorted(installed, key=lambda item: float(item.parent.name), reverse=True)
    places = [*([Path(on_path).resolve().parent] if on_path else []), *versions]
    wanted = ("initdb", "postgres")
    return next(
        (place for place in places if all((place / name).is_file() for name in wanted)), None
    )


class PostgresServer:
    """PostgreSQL on a free port, with the user USER who may do anything.

    It refuses to run as root; then it is another user's, in a folder that this user may reach.

    Args:
        programs: see `postgres_folder`.
        folder: for what it prints.
        driver: jar files, separated by colons, with the JDBC driver.
        host: the address of this machine at which it listens.

    Raises:
        RuntimeError: it did not start; the message ends with what it printed.
    """

    def __init__(self, programs: Path, folder: Path, driver: str, host: str = LOCALHOST) -> None:
        [self.port] = free_ports(1)
        self._host = host
        self._programs, self._log = programs, folder / "postgres.log"
        self._own = Path(tempfile.mkdtemp(prefix="postgres"))
        self._as_user: dict[str, Any] = {"cwd": self._own}
        word = self._own / "word"
        word.write_text(PASSWORD)
        if os.getuid() == 0:
            user = _other_user()
            self._as_user |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            for path in (self._own, word):
                os.chown(path, user.pw_uid, user.pw_gid)
        subprocess.run(
            [
                programs / "initdb",
                f"--pgdata={self._own / 'data'}",
                f"--username={USER}",
                f"--pwfile={word}",
                *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"),
            ],
            **self._as_user,
            capture_output=True,
            check=True,
        )
        with (self._own / "data" / "pg_hba.conf").open("a") as logins:
            logins.write(f"host all all {host}/24 scram-sha-256\n")
        self._printed = (folder / "client.log").open("w")
        self._gateway, _ = start_jvm(driver, ["-Xmx128m"], self._printed)
        self.start()

    def start(self) -> None:
        """Start the server; after `kill` on the data and the port that it had."""
        deadline = time.monotonic() + START_SECONDS
        self._launch()
        while True:
            try:
                self.connect().close()
                return
            except SqlError as exc:
                if time.monotonic() > deadline:
                    self.stop()
                    printed = self._log.read_text(errors="replace")
                    raise RuntimeError(
                        f"PostgreSQL did not start: {exc}\n{printed[-2000:]}"
                    ) from exc
            time.sleep(0.1)
            if self._process.poll() is not None:  # what is left of a killed one goes in a moment
                self._launch()

    def _launch(self) -> None:
        with self._log.open("a") as printed:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres",
                    "-D",
                    self._own / "data",
                    f"--port={self.port}",
                    *("-c", f"listen_addresses={self._host}"),
                    *OPTIONS.split(),
                ],
                **self._as_user,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """End the server and its processes as kill -9 does."""
        of_connections = psutil.Process(self._process.pid).children()
        self._process.kill()
        for process in of_connections:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def url(self, database: str) -> str:
        return f"jdbc:postgresql://{self._host}:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> SqlClient:
        """A new connection, which one thread may use."""
        return SqlClient(self._gateway, self.url(database), user=USER, password=PASSWORD)

    def stop(self) -> None:
        """Stop the server and the clients' JVM."""
        self._process.send_signal(signal.SIGINT)  # it ends connections, and doesn't wait for them
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._gateway.shutdown()
        self._printed.close()
        shutil.rmtree(self._own, ignore_errors=True)


def _other_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError("PostgreSQL doesn't run as root, and there is no user postgres or nobody")
