"""What the benchmarks share: dbt runs, sessions, child processes whose memory is watched, and free
ports for servers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / ".bench"  # not below target/, where no warehouse may lie
PACKAGES = [
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.53.0.0",
]
SAMPLE_SECONDS = 0.5
# number of groups, orders and amount of a table of daily counts
DAYS = (
    "select count(*), sum(order_count_change), sum(amount_sum_change) from {table} "
    "where order_count_change <> 0 or amount_sum_change <> 0"
)
Answer = tuple[Decimal, ...]


@dataclass(frozen=True)
class Ran:
    """What a child process took.

    Attributes:
        seconds: wall clock.
        peak: most memory that it and its descendants had at one time, GiB; see `memory_of`.
        output: its standard output; empty where that was shown.
    """

    seconds: float
    peak: float
    output: str = ""


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [socket.getsockname()[1] for socket in sockets]
    for item in sockets:
        item.close()
    return ports


def run_child(
    command: Sequence[object], env: dict[str, str] | None = None, show: bool = False
) -> Ran:
    """Run `command` in the project's folder to its end; stop the benchmark where it fails.

    Args:
        env: environment variables besides this process's own.
        show: let it write to the screen.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        streams = {} if show else {"stdout": out, "stderr": err}
        start = time.perf_counter()
        child = subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, env=os.environ | (env or {}), **streams
        )
        peak = highest = 0
        while child.poll() is None:
            resident = resident_of(child.pid)
            # exact sizes cost the kernel a walk over all pages: only where there may be a new peak
            if resident > 1.02 * highest:
                highest, peak = resident, max(peak, memory_of(child.pid))
            try:
                child.wait(SAMPLE_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        seconds = time.perf_counter() - start
        out.seek(0)
        err.seek(0)
        if child.returncode:
            output = "see above" if show else f"its output:\n{(out.read() + err.read())[-3000:]}"
            sys.exit(f"bench: {' '.join(map(str, command[:4]))} .. failed, {output}")
        return Ran(seconds, peak / 2**30, out.read())


def run_module(name: str, *arguments: object, python: object = sys.executable, **options) -> Ran:
    """Run a module of this folder by an interpreter, see run_child."""
    return run_child([python, "-m", f"benchmarks.{name}", *arguments], **options)


def memory_of(root: int) -> int:
    """Bytes of memory of a process and its descendants: the sum of their proportional sets, in
    which a page that n processes share counts 1/n for each. 0 where the system doesn't count them.
    """
    return int(_total(root, lambda process: getattr(process.memory_full_info(), "pss", 0)))


def resident_of(root: int) -> int:
    """The same with shared pages counted for each process: more, but cheap to ask for."""
    return int(_total(root, lambda process: process.memory_info().rss))


def processor_seconds_of(root: int) -> float:
    """Seconds of processor time that a process and its descendants have taken so far: what else
    runs on the machine moves them less than the clock's."""

    def seconds(process: psutil.Process) -> float:
        times = process.cpu_times()
        return times.user + times.system

    return _total(root, seconds)


def _total(root: int, measure: Callable[[psutil.Process], float]) -> float:
    """Sum of a measure over a process and its descendants, without those that end meanwhile."""
    tree = []
    with suppress(psutil.Error):
        first = psutil.Process(root)
        tree = [first, *first.children(recursive=True)]
    total = 0.0
    for process in tree:
        with suppress(psutil.Error):
            total += measure(process)
    return total


def run_dbt(
    landing: Path,
    warehouse: Path | str,
    select: str,
    variables: dict[str, object] | None = None,
    arguments: Sequence[str] = (),
    env: dict[str, str] | None = None,
) -> dict[str, float]:
    """Run `dbt run`.

    Args:
        warehouse: a folder, or the URI of one in a store.

    Returns:
        Seconds: `wall`, and those of each model by its name. `peak` is memory, GiB.
    """
    target = SCRATCH / "dbt_target"
    command = [Path(sys.executable).parent / "dbt", "run", "--select", *select.split()]
    command += ["--vars", json.dumps(variables or {}), *arguments]
    settings = {
        "LANDING": str(landing),
        "WAREHOUSE": str(warehouse),
        "DBT_TARGET_PATH": str(target),
        "DBT_LOG_PATH": str(SCRATCH / "dbt_logs"),
        "DBT_PROFILES_DIR": str(ROOT / "profiles"),
    }
    ran = run_child(command, settings | (env or {}), show=True)
    results = json.loads((target / "run_results.json").read_text())["results"]
    seconds = {result["unique_id"].split(".")[-1]: result["execution_time"] for result in results}
    return {"wall": ran.seconds, "peak": ran.peak} | seconds


def settings_below(folder: Path) -> dict[str, str]:
    """Environment of dbt for a small project of a benchmark: its warehouse, target and logs lie in
    a folder, its profile and jars are the project's."""
    return {
        "WAREHOUSE": str(folder / "warehouse"),
        "DBT_TARGET_PATH": str(folder / "target"),
        "DBT_LOG_PATH": str(folder / "logs"),
        "DBT_PROFILES_DIR": str(ROOT / "profiles"),
        "JARS_DIR": str(ROOT / ".jars"),
        "JARS_LOCK": str(ROOT / "jars.lock"),
    }


def session(warehouse: Path) -> SparkSession:
    """A session with the project's settings on `warehouse`."""
    from dbt.adapters.sparksession.connections import SparkSessionCredentials
    from dbt.adapters.sparksession.session import own_session

    credentials = SparkSessionCredentials(
        schema="dw",
        warehouse=str(warehouse),
        packages=PACKAGES,
        jars_dir=os.environ.get("JARS_DIR", ".jars"),
        server_side_parameters={
            "spark.master": os.environ.get("SPARK_MASTER", "local[*]"),
            "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "4g"),
            "spark.sql.shuffle.partitions": "8",
        },
    )
    credentials.project_root = str(ROOT)
    warehouse.mkdir(parents=True, exist_ok=True)
    return own_session(credentials).session


def answer(values: list | tuple) -> Answer:
    """The numbers of an answer, whatever types an engine gives them."""
    return tuple(Decimal(str(value)) for value in values)


def ask_spark(warehouse: Path, sql: str, table: str) -> Answer:
    """The rows of a query of {table} in a warehouse."""
    return answer(session(warehouse).sql(sql.format(table=f"dw.{table}")).collect()[0])
