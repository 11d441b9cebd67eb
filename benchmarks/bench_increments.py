"""A small batch of page views on a month of them, beside making the summaries again.

    python -m benchmarks.bench_increments --sessions 240000

Thirty days of page views are generated, landed and built, but for the batches: the `newest`
views of the last day, and `late` views, of one past day and of three. Each batch lands and is run.
For each model the seconds of dbt and, by its commit, how many files it added and removed of those
there were, and in how many partitions. In the end the models are rebuilt by --full-refresh from
the same log, and must hold the same rows as the runs left.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from datetime import timedelta
from typing import Any

from benchmarks.common import SCRATCH, run_dbt, session
from benchmarks.generate_traffic import START, TOPIC, Collector, encoded

DAYS = 30
LANDING, WAREHOUSE = SCRATCH / "landing", SCRATCH / "warehouse"
MODELS = ("dwd_traffic__page_view", "dwd_traffic__visitor_session", "dws_traffic__page_view_5m")
LINES_PER_FILE = 50_000
SEED = 7
COUNTS = ("added-data-files", "deleted-data-files", "total-data-files", "changed-partition-count")


def batches(sessions: int, size: int) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """The month's events without the batches', and the batches by name, `size` events each."""
    events = Collector(SEED, visitors=max(900, sessions // 10)).run(sessions, days=DAYS, bad=0)
    rng = random.Random(SEED)
    taken = {"newest": set(range(len(events) - size, len(events)))}
    for name, days in {"late, of one day": (17, 18), "late, of three days": (9, 12)}.items():
        first, end = (int((START + timedelta(days=day)).timestamp() * 1000) for day in days)
        places = [
            place
            for place, event in enumerate(events[:-size])
            if first <= event["received_at"] < end
        ]
        taken[name] = set(rng.sample(places, size))
    held_back = set().union(*taken.values())
    history = [event for place, event in enumerate(events) if place not in held_back]
    return history, {name: [events[at] for at in sorted(some)] for name, some in taken.items()}


def land(events: list[dict[str, Any]], first_offset: int) -> int:
    """Land events as files of one partition; the offset behind them."""
    folder = LANDING / "topics" / TOPIC / "partition=0"
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(events), LINES_PER_FILE):
        lines = encoded(events[start : start + LINES_PER_FILE])
        path = folder / f"{TOPIC}+0+{first_offset + start:010d}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return first_offset + len(events)


def run(*arguments: str) -> dict[str, float]:
    """Seconds of each model, of `dbt run` of what the summaries are made of."""
    chosen = " ".join(f"+{model}" for model in MODELS)
    return run_dbt(LANDING, WAREHOUSE, chosen, arguments=arguments)


def commits() -> dict[str, dict[str, int]]:
    """Model -> what its newest commit did, see COUNTS."""
    spark, found = session(WAREHOUSE), {}
    for model in MODELS:
        (row,) = spark.sql(
            f"select summary from dw.{model}.snapshots order by committed_at desc limit 1"
        ).collect()
        found[model] = {name: int(row.summary.get(name, 0)) for name in COUNTS}
    return found


def contents() -> dict[str, tuple]:
    """Model -> number of its rows and a sum over them that distinguishes other rows."""
    spark, found = session(WAREHOUSE), {}
    for model in MODELS:
        names = [
            column
            for column in spark.table(f"dw.{model}").columns
            if not column.endswith("_sketch")
        ]
        hashed = f"sum(cast(xxhash64({', '.join(names)}) as decimal(38, 0)))"
        found[model] = tuple(spark.sql(f"select count(*), {hashed} from dw.{model}").collect()[0])
    return found


def show(name: str, rows: int, seconds: dict[str, float], did: dict[str, dict[str, int]]) -> None:
    for model in MODELS:
        added, removed, total, partitions = did[model].values()
        print(
            f"| {name} | {rows:,} | {model} | {seconds[model]:.1f} | {added:,} | {removed:,} "
            f"| {total:,} | {partitions:,} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sessions", type=int, default=240_000)
    parser.add_argument("--batch", type=int, default=10_000)
    options = parser.parse_args()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    history, increments = batches(options.sessions, options.batch)
    print(f"{len(history):,} page views of {DAYS} days")
    print("\n| batch | events | model | seconds | files added | removed | in all | partitions |")
    print("|---|---|---|---|---|---|---|---|")
    end = land(history, 0)
    show("the month", len(history), run(), commits())
    for name, events in increments.items():
        end = land(events, end)
        show(name, len(events), run(), commits())
    left = contents()
    show("again", end, run("--full-refresh"), commits())
    if contents() != left:
        sys.exit(f"bench: rebuilt the models hold {contents()}, the runs left {left}")
    print("\nMade again the models hold the same rows as the runs left.")
    shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    main()
