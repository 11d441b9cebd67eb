"""What pins, properties of commits and publishing cost, beside the same build without them.

    python -m benchmarks.bench_versions --rows 20000 1000000

Two warehouses are built from the same generated log, turn by turn in one warm process: one as ever,
one that publishes no version and reads its tables by their names alone, not as of a snapshot. Of
each there is a first build and a second build of as many new rows; the ratio and the difference
count for a build's models, seeds and snapshots, by the clock and by the processor's time.

That commits are looked up and say run, code and inputs can't be left out of a build: what is new is
found by it. For that the seconds count that the models' threads spend in the adapter's functions
which do so, held against all seconds of the same models: `pins`, of the builds that publish. Spark
jobs that find changed rows are no part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import os
import re
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.common import ROOT, SCRATCH, processor_seconds_of
from benchmarks.generate_maxwell import generate

FOLDER = SCRATCH / "versions"
COMMAND = ("build", "--exclude-resource-type", "unit_test", "test")
KINDS = ("model", "seed", "snapshot")
FAILED = ("error", "fail")
STEPS = ("first", "second")
ADAPTER = "dbt.adapters.sparksession"
PINNING = {
    "warehouse.Warehouse": ("history",),
    "reading.table_reads.TableReads": ("pinned", "new_rows", "record_inputs"),
    "reading.partition_reads.PartitionReads": ("changed_partitions",),
    "impl.SparkSessionAdapter": ("pre_model_hook",),
}
AS_OF = re.compile(r" version as of \d+$")


class Spent:
    """Seconds that all threads spend in some methods of classes; in calls within a call once.

    Python models reach their inputs through the same methods.
    """

    def __init__(self, methods: Mapping[type, Sequence[str]]) -> None:
        self.seconds = 0.0
        self._lock, self._thread = threading.Lock(), threading.local()
        for kind, names in methods.items():
            for name in names:
                setattr(kind, name, self._timed(getattr(kind, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._thread, "inside", False):
                return method(*args, **kwargs)
            self._thread.inside = True
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._thread.inside = False
                with self._lock:
                    self.seconds += time.perf_counter() - start

        return timed


@functools.cache
def pinning() -> Spent:
    methods = {}
    for path, names in PINNING.items():
        module, _, kind = path.rpartition(".")
        methods[getattr(importlib.import_module(f"{ADAPTER}.{module}"), kind)] = names
    return Spent(methods)


@contextlib.contextmanager
def plain_names() -> Iterator[None]:
    """Let models read their inputs by name; nobody else writes here meanwhile."""
    from dbt.adapters.sparksession.reading.table_reads import TableReads

    read = TableReads.read_table

    def read_by_name(*args: Any, **kwargs: Any) -> str:
        return AS_OF.sub("", read(*args, **kwargs))

    with mock.patch.object(TableReads, "read_table", read_by_name):
        yield


def build(warehouse: Path, landing: Path, publish: bool) -> tuple[float, float, float, float, int]:
    """One build.

    Args:
        publish: whether it publishes a version and reads its inputs as of their pinned snapshots.

    Returns:
        Its seconds, its processor seconds, the seconds of all its models, seeds and snapshots, of
        these those spent with pins and properties, and how many they are.

    Raises:
        SystemExit: the build failed.
    """
    from dbt.cli.main import dbtRunner

    os.environ |= {
        "WAREHOUSE": str(warehouse),
        "LANDING": str(landing),
        "DBT_TARGET_PATH": str(warehouse.parent / "target"),
        "DBT_PROFILES_DIR": str(ROOT / "profiles"),
    }
    start, worked = time.perf_counter(), processor_seconds_of(os.getpid())
    pins = pinning().seconds
    with contextlib.nullcontext() if publish else plain_names():
        done = dbtRunner().invoke(
            ["--quiet", *COMMAND, "--vars", f"publish_versions: {str(publish).lower()}"]
        )
    seconds = time.perf_counter() - start
    worked = processor_seconds_of(os.getpid()) - worked
    if not done.success:
        failed = [
            result for result in getattr(done.result, "results", ()) if result.status in FAILED
        ]
        message = done.exception or "; ".join(
            f"{result.node.name}: {result.message}" for result in failed
        )
        raise SystemExit(f"bench: the build in {warehouse} failed: {message}")
    nodes = [result for result in done.result.results if str(result.node.resource_type) in KINDS]
    of_nodes = sum(node.execution_time for node in nodes)
    return seconds, worked, of_nodes, pinning().seconds - pins, len(nodes)


def land(written: Path, landing: Path, half: int) -> None:
    """Land the first (0) or second (1) half of each partition's files."""
    for partition in sorted((written / "topics" / "maxwell").iterdir()):
        files = sorted(partition.iterdir())
        middle = len(files) // 2
        target = landing / partition.relative_to(written)
        target.mkdir(parents=True, exist_ok=True)
        for file in files[middle:] if half else files[:middle]:
            os.link(file, target / file.name)


def measure(rows: int, rounds: int, steps: Sequence[str]) -> None:
    """Print what builds of `rows` changes take with and without pins and publishing."""
    seconds: dict[tuple[str, bool], list[list[float]]] = {}
    nodes = 0
    written = FOLDER / "written"
    shutil.rmtree(written, ignore_errors=True)
    generate(written, rows=2 * rows, days=2)
    for number in range(rounds):
        folder = FOLDER / f"{rows}_{number}"
        shutil.rmtree(folder, ignore_errors=True)
        for place, step in enumerate(steps):
            land(written, folder / "landing", place)
            for publish in (True, False) if number % 2 else (False, True):
                warehouse = folder / str(publish) / "warehouse"
                *took, nodes = build(warehouse, folder / "landing", publish)
                seconds.setdefault((step, publish), []).append(took)
        shutil.rmtree(folder)
    for step in steps:
        for place, kind in enumerate(("clock", "processor")):
            with_it, without = (
                statistics.median(took[place] for took in seconds[step, item])
                for item in (True, False)
            )
            print(
                f"{rows:>12,} {step:<8} {kind:<10} {without:8.1f} {with_it:8.1f} "
                f"{with_it / without:8.2f} {1000 * (with_it - without) / nodes:8.0f}",
                flush=True,
            )
        of_nodes, pins = (
            statistics.median(took[place] for took in seconds[step, True]) for place in (2, 3)
        )
        print(
            f"{rows:>12,} {step:<8} {'pins':<10} {of_nodes - pins:8.1f} {of_nodes:8.1f} "
            f"{of_nodes / (of_nodes - pins):8.2f} {1000 * pins / nodes:8.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--first-only", action="store_true", help="leave the second builds out")
    arguments = parser.parse_args()
    warm = FOLDER / "warm"
    shutil.rmtree(warm, ignore_errors=True)
    generate(warm / "landing", rows=2_000)
    build(warm / "warehouse", warm / "landing", True)
    heads = ("without", "with", "ratio", "ms/model")
    columns = " ".join(f"{head:>8}" for head in heads)
    print(f"{'changes':>12} {'build':<8} {'seconds of':<10} {columns}")
    for rows in arguments.rows:
        measure(rows, arguments.rounds, STEPS[:1] if arguments.first_only else STEPS)
    shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    main()
