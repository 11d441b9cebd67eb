"""`make run`: build the whole warehouse and say what was built."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dbt.cli.main import dbtRunner, dbtRunnerResult
from rich.console import Console

from python_udfs.ingestion.landing.object_stores import is_uri
from tools.profile import credentials_of_profile
from tools.report.history import record
from tools.report.places import kept_folder, target_folder
from tools.screen import QUIET, Screen

ROOT = Path(__file__).parents[1]
SMALL_LOG = 64 * 2**20  # bytes of landed files
# its own default for the code, 48 MB, is too small for Spark: once it is full Spark stops
QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"

COUNTS = """
select biz_status, sum(order_count) as orders, sum(amount_sum) as amount,
    count(distinct user_id) as users
from {{ ref('dws_trade__user_status_td') }}
group by biz_status
order by orders desc, biz_status
"""
NEXT = """Where to look next
  make report                         the state of the warehouse as a page: target/report.html
  make docs                           these tables, columns, lineage and the pages as a site
  .venv/bin/dbt show --profiles-dir profiles --inline \\
    "select * from {{ ref('dws_trade__user_status_td') }} where user_id = 77"
  logs/dbt.log, logs/spark.log        what happened, in full
"""


def java_options(landing: Path) -> str:
    """Options of Java for a run over a landing folder; SPARK_SUBMIT_OPTS goes before them.

    A small log is read before Java's second compiler has paid for itself: half of the processor's
    time went into it.
    """
    landed = 0
    for file in landing.rglob("*"):
        landed += file.stat().st_size if file.is_file() else 0
        if landed > SMALL_LOG:
            return ""
    return QUICK_COMPILER


def keep_summary(root: Path) -> None:
    """Keep what the build did for `make report`: dbt keeps the last command alone."""
    target = target_folder(root)
    try:
        record(target, kept_folder(credentials_of_profile(root), target))
    except OSError as exc:  # the build counts
        print(f"The report won't show this run: {exc}", file=sys.stderr)


def build(runner: dbtRunner, verbose: bool) -> dbtRunnerResult:
    """Build everything; on a terminal a line a model, else, or with `verbose`, as dbt prints it."""
    command = ["build", "--exclude-resource-type", "unit_test"]
    console = Console()
    if verbose or not console.is_terminal:
        return runner.invoke(command)
    with Screen(console) as screen:
        built = dbtRunner(callbacks=[screen.take]).invoke([*QUIET, *command])
    screen.summary(getattr(built.result, "results", None) or [])
    return built


def main(verbose: bool = False) -> int:
    """Build the warehouse and print what was built.

    Args:
        verbose: all that dbt prints, on a terminal too.
    """
    given = os.environ.get("LANDING", "landing")
    # how much a broker or a store has isn't known beforehand
    if not os.environ.get("KAFKA_SERVERS") and not is_uri(given):
        landing = Path(given).expanduser()
        os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options(landing))
    runner = dbtRunner()
    built = build(runner, verbose)
    if built.exception is not None:
        print(f"The run failed: {built.exception}", file=sys.stderr)
        return 2
    print("\nOrders by business status, to date")
    shown = runner.invoke(
        ["--quiet", "--no-write-json", "show", "--inline", COUNTS, "--limit", "-1"]
    )
    keep_summary(ROOT)
    print(NEXT)
    return 0 if built.success and shown.success else 1
