"""The same runs in each place where the project runs: their seconds beside the local target's.

    python -m benchmarks.bench_places

The sample is run up to the counts to date, from nothing, and again with nothing new. The places:
Spark in dbt's own process on two cores; a standalone cluster with one executor of two cores, and
with two of one; a Spark Connect server; and the local Spark with its tables in a REST catalog
(Nessie) and an S3 store (s3mock). All servers run on this machine and share its cores, so the
seconds are what a place costs by itself; the servers start before the clock does.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import ROOT, SCRATCH, run_dbt
from benchmarks.object_store import java_of_nessie, nessie_and_s3, server_jars
from benchmarks.spark_servers import connect_server, standalone

SELECTED = "+dws_trade__user_status_td"
SETTINGS = {"SPARK_SHUFFLE_PARTITIONS": "8"}
# of executors and servers, as of the process itself: Java compiles as in production
COMPILED = {"SPARK_SUBMIT_OPTS": ""}
LOCAL = "in the process"
EXECUTORS = {"1 executor of 2 cores": 1, "2 executors of 1 core": 2}
CONNECT, STORE = "Spark Connect", "REST catalog and S3 store"
PLACES = [LOCAL, *EXECUTORS, CONNECT, STORE]


@contextmanager
def place(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of dbt runs in one of PLACES; its servers run within it."""
    if name == LOCAL:
        yield {"SPARK_MASTER": "local[2]"}
    elif name in EXECUTORS:
        number = EXECUTORS[name]
        cores = 2 // number
        with standalone(folder, workers=number, cores=cores) as cluster:
            own = {"SPARK_EXECUTOR_MEMORY": "1500m", "SPARK_EXECUTOR_CORES": str(cores)}
            yield cluster.env | own
    elif name == CONNECT:
        with connect_server(folder, memory="4g", **COMPILED) as remote:
            yield {"DBT_TARGET": "connect", "SPARK_REMOTE": remote}
    else:
        java, jars = java_of_nessie(), server_jars(folder / "jars")
        if java is None or jars is None:
            sys.exit("bench: needs a Java of 21 or later, and Nessie and s3mock from Maven")
        with nessie_and_s3(folder, jars, java) as env:
            yield {"SPARK_MASTER": "local[2]"} | env


def measured(name: str) -> tuple[float, float]:
    """Seconds of a first run and of one with nothing new, in servers that were just started."""
    folder, warehouse = SCRATCH / "places", SCRATCH / "warehouse"
    for made in (folder, warehouse):
        shutil.rmtree(made, ignore_errors=True)
    with place(name, folder) as given:
        env = SETTINGS | given | COMPILED
        where = env.pop("WAREHOUSE", str(warehouse))
        first, second = (
            run_dbt(ROOT / "landing", where, SELECTED, env=env)["wall"] for _ in range(2)
        )
        return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=2, help="rounds over all places")
    parser.add_argument("--places", nargs="+", default=PLACES, choices=PLACES)
    options = parser.parse_args()
    # in turns, so that what else runs on the machine meets all of them alike; the best of each
    rounds = [{name: measured(name) for name in options.places} for _ in range(options.repeats)]
    heads = "| place | first run, s | of local | nothing new, s | of local |"
    lines = [heads, "|---|---|---|---|---|"]
    local: tuple[float, float] | None = None
    for name in options.places:
        first, again = (min(each[name][number] for each in rounds) for number in range(2))
        local = local or (first, again)
        ratios = first / local[0], again / local[1]
        lines.append(f"| {name} | {first:.1f} | {ratios[0]:.2f} | {again:.1f} | {ratios[1]:.2f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
