"""A standalone cluster on this machine, and the same run on it and in the process itself.

    python -m benchmarks.bench_standalone

The sample is run up to the counts to date, each time from nothing: with Spark in the process on two
cores, with one executor of two cores, and with two executors of one. The executors see the same
disk: what is measured is what they cost by themselves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from dbt.adapters.sparksession.java import find_java

from benchmarks.common import ROOT, SCRATCH, run_dbt

HOME = Path(pyspark.__file__).parent
STARTS_SECONDS = 60
SELECTED = "+dws_trade__user_status_td"
PLACES = {"in the process": 0, "1 executor of 2 cores": 1, "2 executors of 1 core": 2}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server(kind: str, name: str, *arguments: str) -> Iterator[None]:
    """A master or a worker, within it."""
    folder = SCRATCH / "standalone"
    folder.mkdir(parents=True, exist_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    env |= {"SPARK_HOME": str(HOME), "JAVA_HOME": find_java(), "SPARK_DAEMON_MEMORY": "256m"}
    log = folder / f"{name}.log"
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command], cwd=folder, env=env, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        wanted = "I have been elected leader" if name == "master" else "Successfully registered"
        until = time.monotonic() + STARTS_SECONDS
        while wanted not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the {name} didn't start, see {log}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()  # a worker ends its executors then
        process.wait(20)


@contextmanager
def place(executors: int) -> Iterator[dict[str, str]]:
    """Environment of a dbt that runs on two cores of so many executors; 0: in its own process."""
    if not executors:
        yield {"SPARK_MASTER": "local[2]"}
        return
    port, host = free_port(), "127.0.0.1"
    master, cores = f"spark://{host}:{port}", str(2 // executors)
    own = ("--host", host, "--webui-port", "0")
    with ExitStack() as stack:
        stack.enter_context(server("master.Master", "master", *own, "--port", str(port)))
        for number in range(executors):
            size = ("--cores", cores, "--memory", "2g", master)
            stack.enter_context(server("worker.Worker", f"worker{number}", *own, *size))
        yield {
            "DBT_TARGET": "cluster",
            "SPARK_MASTER": master,
            "SPARK_DRIVER_HOST": host,
            "SPARK_EXECUTOR_MEMORY": "1500m",
            "SPARK_EXECUTOR_CORES": cores,
            "SPARK_SHUFFLE_PARTITIONS": "8",
        }


def measured(executors: int, repeats: int) -> list[dict[str, float]]:
    """The runs in one place, see run_dbt."""
    found, warehouse = [], SCRATCH / "warehouse"
    with place(executors) as env:
        for _ in range(repeats):
            shutil.rmtree(warehouse, ignore_errors=True)
            found.append(run_dbt(ROOT / "landing", warehouse, SELECTED, env=env))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    lines = ["| Spark | s | of the first | GiB |", "|---|---|---|---|"]
    first = None
    for name, executors in PLACES.items():
        best = min(measured(executors, options.repeats), key=lambda run: run["wall"])
        first = first or best["wall"]
        ratio = best["wall"] / first
        lines.append(f"| {name} | {best['wall']:.1f} | {ratio:.2f} | {best['peak']:.1f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
