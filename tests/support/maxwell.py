"""A real Maxwell for tests, that reads a MySQL server's binlog and writes to Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.jvm import JAVA, lab_folder
from tests.support.mysql_server import PASSWORD, USER, MysqlClient, MysqlServer

PROPERTIES = """
host=127.0.0.1
port={port}
user={user}
password={password}
jdbc_options=useSSL=false
producer=kafka
kafka.bootstrap.servers={servers}
kafka.acks=all
kafka.retries=1000
kafka.request.timeout.ms=5000
kafka_topic={topic}
producer_partition_by=primary_key
output_binlog_position=true
output_xoffset=true
# else it goes on behind a message that the broker didn't take
ignore_producer_error=false
# else it keeps a table's changes in its memory while it loads the table: a kill loses them, and
# those that come through have numbers of their own, by which nobody knows them again
bootstrapper=sync
filter={filter}
"""


def maxwell_lib() -> Path | None:
    """Folder of Maxwell's jars: maxwell/lib in the folder that CDC_LAB names."""
    return lab_folder("maxwell", "lib", holds="maxwell-*.jar")


class Maxwell:
    """Maxwell between a server and a broker. It keeps its position in the server's own database.

    Attributes:
        log: what it printed.
        starts: how often it was started.

    Args:
        folder: its own folder, for its log.
        lib: folder of its jars. Classes in `stub` beside it are put on the class path too (Java
            15 and newer lack one that it names).
        servers: the broker's address.
        filter: Maxwell's filter: which tables come out.
    """

    def __init__(
        self, folder: Path, lib: Path, mysql: MysqlServer, servers: str, topic: str, filter: str
    ) -> None:
        self.log = folder / "maxwell.log"
        self.starts = 0
        settings = folder / "config.properties"
        settings.write_text(
            PROPERTIES.format(
                port=mysql.port,
                user=USER,
                password=PASSWORD,
                servers=servers,
                topic=topic,
                filter=filter,
            )
        )
        self._command = [
            *(JAVA, "-Xmx256m", "-Dfile.encoding=UTF-8"),
            *("-cp", f"{lib}/*:{lib.parent / 'stub'}", "com.zendesk.maxwell.Maxwell"),
            f"--config={settings}",
        ]
        self.start()

    def start(self) -> None:
        """Start it where it left off."""
        self.starts += 1
        with self.log.open("a") as printed:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
            )

    def noted(self, client: MysqlClient) -> tuple[int, int]:
        """The position that it would go on from: the broker has what was sent before it."""
        [noted] = client.query("select binlog_file, binlog_position from maxwell.positions")
        return place(*noted)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


def place(file: str | None, position: str | None) -> tuple[int, int]:
    """A binlog position that compares as it should."""
    return int((file or "").rpartition(".")[2]), int(position or 0)
