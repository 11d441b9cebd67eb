"""Spark in processes of its own, for benchmarks and tests, from pyspark's own wheel: a standalone
cluster whose worker may stand in for another host, and a Spark Connect server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyspark
from dbt.adapters.sparksession.connections import EXTENSIONS
from dbt.adapters.sparksession.java import find_java

from benchmarks.common import ROOT, free_ports

HOME = Path(pyspark.__file__).parent
STARTS_SECONDS = 120
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
LOCALHOST = "127.0.0.1"


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster.

    Attributes:
        master: for SPARK_MASTER.
        driver: the address at which the worker reaches this host.
    """

    master: str
    driver: str

    @property
    def env(self) -> dict[str, str]:
        """Environment of a dbt that runs there."""
        return {
            "DBT_TARGET": "cluster",
            "SPARK_MASTER": self.master,
            "SPARK_DRIVER_HOST": self.driver,
            "SPARK_EXECUTOR_MEMORY": "800m",
            "SPARK_SUBMIT_OPTS": QUICK,
        }


def _environment(folder: Path) -> dict[str, str]:
    given = {
        key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSP"))
    }
    return given | {
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": find_java(),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
    }


@contextmanager
def _server(command: Sequence[str], folder: Path, name: str, env: dict[str, str]) -> Iterator[Path]:
    """A process that runs within it; its log."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield log
    finally:
        process.terminate()  # a worker ends its executors then
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(log: Path, text: str) -> None:
    until = time.monotonic() + STARTS_SECONDS
    while time.monotonic() < until:
        if text in log.read_text(errors="replace"):
            return
        time.sleep(0.1)
    raise AssertionError(f"{log.stem} didn't start: {log.read_text(errors='replace')[-3000:]}")


@cache
def can_isolate() -> bool:
    """Whether this user may make network and mount namespaces."""
    name = f"probe{os.getpid()}"
    made = shutil.which("ip") and shutil.which("unshare")
    if not made or subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return False
    subprocess.run(["ip", "netns", "del", name], check=True)
    link = ["ip", "link", "add", f"v{name}"[:15], "type", "veth", "peer", "name", f"w{name}"[:15]]
    if subprocess.run(link, capture_output=True).returncode:
        return False
    subprocess.run(["ip", "link", "del", f"v{name}"[:15]], check=True)
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@contextmanager
def _another_host() -> Iterator[tuple[str, str, str]]:
    """A network namespace; its name, and the addresses of both ends of a link to it."""
    number = os.getpid() % 16000
    name, ours, theirs = f"worker{number}", f"vd{number}", f"vw{number}"
    net = f"10.{64 + number // 256}.{number % 256}"
    inside = ["ip", "netns", "exec", name]
    for command in (
        ["ip", "netns", "add", name],
        ["ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name],
        ["ip", "address", "add", f"{net}.1/24", "dev", ours],
        ["ip", "link", "set", ours, "up"],
        [*inside, "ip", "address", "add", f"{net}.2/24", "dev", theirs],
        [*inside, "ip", "link", "set", theirs, "up"],
        [*inside, "ip", "link", "set", "lo", "up"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    try:
        yield name, f"{net}.1", f"{net}.2"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True, capture_output=True)


@contextmanager
def standalone(
    folder: Path,
    workers: int = 1,
    cores: int = 2,
    another_host: bool = False,
    hidden: Sequence[Path] = (),
) -> Iterator[Cluster]:
    """A master and workers.

    Args:
        folder: for their logs and what they write.
        cores: of each worker.
        another_host: whether the workers have a network and a file system of their own.
        hidden: folders that the workers then don't see.
    """
    env, (port, ui, *uis) = _environment(folder), free_ports(2 + workers)
    env |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK}
    env |= {"SPARK_WORKER_CORES": str(cores), "SPARK_WORKER_MEMORY": "2g"}
    if not another_host:
        with _standalone(folder, (LOCALHOST, LOCALHOST), [port, ui, *uis], [], env) as cluster:
            yield cluster
        return
    with _another_host() as (name, ours, theirs):
        mounts = (f"mount -t tmpfs none '{below}'" for below in hidden)
        hide = " && ".join([*mounts, 'exec "$@"'])
        inside = ["ip", "netns", "exec", name, "unshare", "-m", "sh", "-c", hide, "worker"]
        with _standalone(folder, (ours, theirs), [port, ui, *uis], inside, env) as cluster:
            yield cluster


@contextmanager
def _standalone(
    folder: Path,
    addresses: tuple[str, str],
    ports: Sequence[int],
    inside: Sequence[str],
    env: dict[str, str],
) -> Iterator[Cluster]:
    here, there = addresses
    spark_class, (port, ui, *uis) = str(HOME / "bin" / "spark-class"), ports
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", here]
    master += ["--port", str(port), "--webui-port", str(ui)]
    with _server(master, folder, "master", env) as log:
        _wait_for(log, "I have been elected leader")
        cluster = Cluster(f"spark://{here}:{port}", here)
        with _workers(cluster, folder, there, uis, inside, env):
            yield cluster


@contextmanager
def _workers(
    cluster: Cluster,
    folder: Path,
    there: str,
    uis: Sequence[int],
    inside: Sequence[str],
    env: dict[str, str],
) -> Iterator[None]:
    if not uis:
        yield
        return
    worker = [*inside, str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker"]
    worker += ["--host", there, "--webui-port", str(uis[0])]
    worker += ["--work-dir", str(folder / f"work{len(uis)}"), cluster.master]
    with _server(worker, folder, f"worker{len(uis)}", env) as log:
        _wait_for(log, "Successfully registered with master")
        with _workers(cluster, folder, there, uis[1:], inside, env):
            yield


@contextmanager
def connect_server(
    folder: Path,
    *,
    memory: str = "1g",
    with_jars: bool = True,
    with_extensions: bool = True,
    **env: str,
) -> Iterator[str]:
    """A Spark Connect server on a free port of 127.0.0.1; its URL, for SPARK_REMOTE.

    Args:
        folder: for its log and all that it writes.
        memory: of its Java.
        with_jars, with_extensions: whether it can read and write Iceberg tables.
        env: further environment variables, such as PYSPARK_PYTHON.
    """
    (port,) = free_ports(1)
    jars = sorted(map(str, (ROOT / ".jars" / "jars").glob("*.jar")))
    settings = {
        "spark.connect.grpc.binding.address": LOCALHOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": LOCALHOST,
        "spark.driver.bindAddress": LOCALHOST,
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "scratch"),
    }
    if with_extensions:
        settings["spark.sql.extensions"] = EXTENSIONS
    command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]"]
    command += ["--driver-memory", memory]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--jars", ",".join(jars)] if with_jars else []
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    around = _environment(folder) | {"PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": QUICK}
    with _server([*command, "spark-internal"], folder, "connect", around | env) as log:
        until = time.monotonic() + STARTS_SECONDS
        while True:
            try:
                socket.create_connection((LOCALHOST, port), 1).close()
                break
            except OSError:
                text = log.read_text(errors="replace")
                assert "Exception in thread" not in text, text[-3000:]
                assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
                time.sleep(0.2)
        yield f"sc://{LOCALHOST}:{port}"
