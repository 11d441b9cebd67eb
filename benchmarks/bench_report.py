"""`make report` of a warehouse of one day, and of a thousand days.

    python -m benchmarks.bench_report --history-days 1000

The log is that of bench_history, whose way of multiplying a day gives the history. All models are
built on it. Then the report is made as a process of its own, each time from nothing, and beside it
Spark is started alone: what the report takes beyond that is what counts, and the size of its page.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys

from benchmarks.bench_history import LANDING, WAREHOUSE, land, write_log
from benchmarks.common import ROOT, SCRATCH, run_child, run_module, session

TARGET = SCRATCH / "dbt_target"


def environment() -> dict[str, str]:
    return {
        "LANDING": str(LANDING),
        "WAREHOUSE": str(WAREHOUSE),
        "DBT_TARGET_PATH": str(TARGET),
        "DBT_LOG_PATH": str(SCRATCH / "dbt_logs"),
        "DBT_PROFILES_DIR": str(ROOT / "profiles"),
    }


def build() -> None:
    """Build and publish everything: the report asks the meta models and the versions."""
    run_child([sys.executable, "-m", "tools", "run"], environment())


def reported(repeats: int) -> dict[str, float]:
    """Seconds of the report, of Spark's start alone, and the page's size in MB."""
    seconds, start = [], []
    for _ in range(repeats):
        start.append(run_module("bench_report", "--start", env=environment()).seconds)
        made = run_child([sys.executable, "-m", "tools", "report"], env=environment())
        seconds.append(made.seconds)
    size = (TARGET / "report.html").stat().st_size
    return {
        "report": statistics.median(seconds),
        "start": statistics.median(start),
        "size": size / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--day-rows", type=int, default=2_000, help="changes of one day")
    parser.add_argument("--history", type=int, default=200, help="size, in --day-rows")
    parser.add_argument("--history-days", type=int, default=1_000, help="that it is spread over")
    parser.add_argument(
        "--repeats", type=int, default=3, help="reports, of which the median counts"
    )
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.start:
        session(WAREHOUSE).sql("select 1").collect()
        return
    shutil.rmtree(SCRATCH, ignore_errors=True)
    files = write_log(chosen.day_rows, 2)
    land(files[0])
    build()
    found = {1: reported(chosen.repeats)}
    asked = json.dumps([chosen.history, chosen.day_rows, chosen.history_days])
    run_module("bench_history", "--fill", asked)
    land(files[1])
    build()
    rows = chosen.history * chosen.day_rows
    found[chosen.history_days] = reported(chosen.repeats)
    print(f"\n{rows:,} changes of history on {chosen.history_days:,} days\n")
    print(
        "| days | report, s | Spark's start, s | beyond it, s | page, MB |\n|---|---|---|---|---|"
    )
    for days, each in found.items():
        beyond = each["report"] - each["start"]
        print(
            f"| {days:,} | {each['report']:.1f} | {each['start']:.1f} | {beyond:.1f} "
            f"| {each['size']:.2f} |"
        )


if __name__ == "__main__":
    main()
