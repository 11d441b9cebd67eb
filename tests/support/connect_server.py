"""A Spark Connect server beside the tests, from pyspark's own wheel."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from dbt.adapters.sparksession.connections import EXTENSIONS
from dbt.adapters.sparksession.java import find_java

from tests.support.dbt_project import REPO
from tests.support.jvm import free_ports

STARTS_SECONDS = 120


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A server on a free port of 127.0.0.1 with the jars of the project; its URL, for SPARK_REMOTE.

    Args:
        folder: for its log and all that it writes.
    """
    home, (port,) = Path(pyspark.__file__).parent, free_ports(1)
    jars = sorted(map(str, (REPO / ".jars" / "jars").glob("*.jar")))
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.enabled": "false",
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--jars", ",".join(jars)]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"} | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": find_java(),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
    log = folder / "server.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _wait_for(server: subprocess.Popen, port: int, log: Path) -> None:
    until = time.monotonic() + STARTS_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"The Spark Connect server didn't start: {log.read_text()[-3000:]}")
