"""A day's run and what goes with it on ten years of history, which is there as metadata alone.

    python -m benchmarks.bench_size

The sample but its last messages is built. Then the large tables get a history before the sample's
days: the changelog, the orders' changes and events, the levels of the count, and the tables that
are kept by order or by user. It is what 23 million changes a day leave, 2 million of them new
orders: over ten years 84 billion changes of 7.3 billion orders, and a hundredth of that (of the
days and of the keys) beside. The files are only named, see benchmarks/metadata_history.py; what
opens a file that it has no need of fails. A row takes as many bytes as in the sample's table, a
file has 400 MB, or a partition's all.

For both sizes, in this order: how long the metadata take to open and a day's read to plan; the run
of the last messages, by model, without data tests and with its publication; the read of one user's
totals and of one order; `compact` and `expire_versions`.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench_follow import WAREHOUSE, environment, land, sample
from benchmarks.bench_history import FILE_BYTES, FILES, event_log, logged_reads
from benchmarks.common import SCRATCH, run_child, run_module, session
from benchmarks.metadata_history import Bound, History, Piece

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = SCRATCH / "base"
DAY_CHANGES, DAY_ORDERS, USERS = 23_000_000, 2_000_000, 20_000_000
FIRST_DAY = date(2026, 3, 1)  # of the sample
LEAP_DAY = date(2024, 2, 29)  # some of its orders lie so far back: a run opens that day's events
OF_A_FILE = 400 * 2**20  # bytes
DAYS_OF_A_COMMIT = 30
HELD = 1_000  # messages of the run that is measured, and of the run before it
BUCKETS = 4
COUNT = "dws_trade__user_status"
KEYED = [
    f"{name}__runs"
    for name in (
        "dwd_trade__order_wide",
        "dwd_trade__order_detail",
        "dwd_trade__order_price",
        "dwd_trade__order_customer",
        "dwd_trade__order_coupon",
        "dim_order_history_zip",
    )
]
BY_USER = "dwd_trade__order_user_index__runs"
# table -> rows that a day brings
BY_DAY = {
    "ods_shop__order_info": DAY_CHANGES,
    "dwd_trade__order_event": DAY_ORDERS,
    f"{COUNT}_1d": 2 * DAY_ORDERS,
}
LARGE = ["ods_binlog", *BY_DAY, f"{COUNT}_1m", f"{COUNT}_1y", *KEYED, BY_USER]


# ---- the history -----------------------------------------------------------------------------


def files_of(rows: int, row_bytes: float) -> int:
    """How many files hold the rows of a partition."""
    return max(1, int(rows * row_bytes / OF_A_FILE))


def day_bounds(history: History, first: date, last: date) -> dict[str, tuple[Bound, Bound]]:
    """Bounds of the columns that hold a day or a time: from one day to another."""
    found: dict[str, tuple[Bound, Bound]] = {}
    for column in history.table.schema().columns():
        kind, name = str(column.type()), str(column.name())
        if kind == "date":
            found[name] = first, last
        elif kind.startswith("timestamp"):
            found[name] = micros(first), micros(last + timedelta(1)) - 1
    return found


def micros(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 10**6


def split(least: int, greatest: int, parts: int) -> list[tuple[Decimal, Decimal]]:
    """Ranges of keys, one after the other.

    >>> split(0, 9, 2)
    [(Decimal('0'), Decimal('4')), (Decimal('5'), Decimal('9'))]
    """
    edges = [least + (greatest + 1 - least) * at // parts for at in range(parts + 1)]
    return [(Decimal(a), Decimal(b - 1)) for a, b in pairwise(edges)]


def places(back: int) -> dict[str, tuple[Bound, Bound]]:
    """Bounds of a day's places in the log: before the sample's."""
    return {
        "message_offset": (-back * DAY_CHANGES, (1 - back) * DAY_CHANGES - 1),
        "binlog_file_number": (-10 * back, 9 - 10 * back),
    }


def binlog_pieces(history: History, back: int) -> Iterator[Piece]:
    """The changelog's files of a day."""
    day = FIRST_DAY - timedelta(back)
    row = history.row_bytes
    count = files_of(DAY_CHANGES, row)
    bounds = day_bounds(history, day, day) | places(back)
    partition = "batch_id=live/topic=maxwell/partition_number=0"
    yield Piece(partition, DAY_CHANGES // count, int(DAY_CHANGES * row / count), count, bounds)


def day_pieces(history: History, back: int, rows: int) -> Iterator[Piece]:
    """A day's files in a table that is kept by day."""
    day, row = FIRST_DAY - timedelta(back), history.row_bytes
    count = files_of(rows, row)
    bounds = day_bounds(history, day, day)
    bounds |= {name: found for name, found in places(back).items() if history.has(name)}
    size = int(rows * row / count)
    is_real = day == LEAP_DAY and history.name == "dwd_trade__order_event"
    yield Piece(f"cut_date={day}", rows // count, size, count, bounds, is_real)


def level_pieces(history: History, column: str, start: date, rows: int) -> Iterator[Piece]:
    """A month's or a year's files, by user: the first is there, for the read of one user."""
    row = history.row_bytes
    ranges = split(0, USERS, files_of(rows, row))
    for at, users in enumerate(ranges):
        bounds = day_bounds(history, start, start) | {"user_id": users}
        size = int(rows * row / len(ranges))
        yield Piece(f"{column}={start}", rows // len(ranges), size, 1, bounds, is_real=at == 0)


def keyed_pieces(history: History, key: str, rows: int) -> Iterator[Piece]:
    """All files of a keyed table's old run, by key; the last are there, for the read of a key."""
    row = history.row_bytes
    ranges = split(-rows, -1, max(1, files_of(rows // BUCKETS, row)))
    size = int(rows * row / len(ranges) / BUCKETS)
    for bucket in range(BUCKETS):
        for at, keys in enumerate(ranges, 1):
            # keys grow with time: the last have the last days
            first, last = (
                FIRST_DAY - timedelta(1 + int(-key_at / DAY_ORDERS))
                for key_at in (keys[0], keys[1] + 1)
            )
            bounds = day_bounds(history, first, min(last, FIRST_DAY - timedelta(1)))
            yield Piece(
                f"run_level={level_of(rows)}/{key}_bucket={bucket}",
                rows // len(ranges) // BUCKETS,
                size,
                1,
                bounds | {key: keys},
                is_real=at == len(ranges),
            )


def user_pieces(history: History, rows: int, days: int) -> Iterator[Piece]:
    """All files of an index's old run, by user: each has orders of all days; the first are there,
    for the look at the sample's users."""
    row = history.row_bytes
    ranges = split(0, USERS, max(1, files_of(rows // BUCKETS, row)))
    size = int(rows * row / len(ranges) / BUCKETS)
    bounds = day_bounds(history, FIRST_DAY - timedelta(days), FIRST_DAY - timedelta(1))
    bounds |= {"order_id": (Decimal(-rows), Decimal(-1))}
    for bucket in range(BUCKETS):
        for at, users in enumerate(ranges):
            yield Piece(
                f"run_level={level_of(rows)}/user_id_bucket={bucket}",
                rows // len(ranges) // BUCKETS,
                size,
                1,
                bounds | {"user_id": users},
                is_real=at == 0,
            )


def level_of(rows: int) -> int:
    """Size class of a keyed table's run, with the defaults of tier_rows and tier_runs."""
    return 1 + int(math.log(rows / 100_000, 8))


def seed_level(spark: SparkSession, level: str, column: str, start: date) -> None:
    """Rows of a level that the sample's days don't reach: of one period before them."""
    spark.sql(
        f"insert into dw.{COUNT}_{level} select date '{start}' as {column}, user_id, biz_status, "
        f"order_count_change, amount_sum_change from dw.{COUNT}_1d order by user_id"
    )


def pieces_of(history: History, table: str, days: int) -> tuple[list[list[Piece]], dict[str, str]]:
    """The pieces of a table's history, by commit, and the properties of the commits."""
    backs = range(days, 0, -1)
    parts = [backs[at : at + DAYS_OF_A_COMMIT] for at in range(0, days, DAYS_OF_A_COMMIT)]
    if table == "ods_binlog":
        return [
            [*chain.from_iterable(binlog_pieces(history, back) for back in part)] for part in parts
        ], {}
    if table in BY_DAY:
        rows = BY_DAY[table]
        return [
            [*chain.from_iterable(day_pieces(history, back, rows) for back in part)]
            for part in parts
        ], {}
    if table in (*KEYED, BY_USER):
        rows, before = days * DAY_ORDERS, history.properties()
        others = [
            *json.loads(before["fold.other_runs"]),
            [int(before["fold.level"]), int(before["added-records"])],
        ]
        properties = {"fold.other_runs": json.dumps(others), "fold.level": str(level_of(rows))}
        if table == BY_USER:
            return [[*user_pieces(history, rows, days)]], properties
        return [[*keyed_pieces(history, "order_id", rows)]], properties
    is_month = table.endswith("1m")
    first = FIRST_DAY - timedelta(days)
    end = FIRST_DAY if is_month else FIRST_DAY.replace(month=1)
    starts = sorted(
        {
            day.replace(day=1) if is_month else day.replace(month=1, day=1)
            for day in (first + timedelta(at) for at in range((end - first).days))
        }
    )
    rows = (30 if is_month else 365) * BY_DAY[f"{COUNT}_1d"]
    column = "cut_month" if is_month else "cut_year"
    properties = {"level.closed_before": str(end)}
    return [[*level_pieces(history, column, start, rows)] for start in starts], properties


def fill(days: int) -> None:
    """Put the history in; print how many files it names."""
    spark = session(WAREHOUSE)
    seed_level(spark, "1m", "cut_month", date(2026, 2, 1))
    if days > 365:
        seed_level(spark, "1y", "cut_year", date(2025, 1, 1))
    named = 0
    for table in LARGE:
        if table.endswith("1y") and days <= 365:
            continue
        began, history = time.perf_counter(), History(spark, f"dw.{table}")
        commits, properties = pieces_of(history, table, days)
        found = history.add(commits, properties)
        named += found
        seconds = time.perf_counter() - began
        print(f"{table}: {found} files in {seconds:.0f} s", file=sys.stderr)
    print(json.dumps(named))


# ---- what is measured ------------------------------------------------------------------------


def median_seconds(do: Callable[[], object]) -> float:
    """The median of three, after one that warms up."""
    took = []
    for _ in range(4):
        began = time.perf_counter()
        do()
        took.append(time.perf_counter() - began)
    return statistics.median(took[1:])


def planned(spark: SparkSession, sql: str) -> None:
    """Plan a query, its files too."""
    spark.sql(sql)._jdf.queryExecution().executedPlan().execute().getNumPartitions()


def look() -> dict[str, float]:
    """What Iceberg keeps of the tables, how long it takes to open it, and to plan a day's read."""
    spark = session(WAREHOUSE)
    found: dict[str, float] = {}
    for table in ("ods_binlog", "ods_shop__order_info", f"{COUNT}_1d", KEYED[0]):
        opened = History.opened(spark, f"dw.{table}")
        manifests = list(opened.currentSnapshot().allManifests(opened.io()))
        found[f"{table}: manifests"] = len(manifests)
        found[f"{table}: their kB"] = sum(manifest.length() for manifest in manifests) / 1e3
        location = str(opened.operations().current().metadataFileLocation())
        found[f"{table}: kB of metadata.json"] = (
            Path(location.removeprefix("file:")).stat().st_size / 1e3
        )
        found[f"{table}: files"] = int(opened.currentSnapshot().summary()["total-data-files"])
        found[f"{table}: s to open"] = median_seconds(
            lambda table=table: History.opened(spark, f"dw.{table}")
        )
    for table in ("ods_shop__order_info", f"{COUNT}_1d"):
        sql = f"select * from dw.{table} where cut_date = date '2026-03-05'"
        found[f"{table}: s to plan a day"] = median_seconds(lambda sql=sql: planned(spark, sql))
    return found


POINTS = {
    "a user's totals": f"select * from dw.{COUNT}_td where user_id = 77",
    "an order": "select * from dw.dwd_trade__order_wide where order_id = -5",
}


def read_points() -> dict[str, float]:
    """Seconds of the reads of one key."""
    spark = session(WAREHOUSE)
    found = {}
    for name, sql in POINTS.items():
        spark.sparkContext.setJobDescription(name)
        spark.sql(sql).collect()  # once alone is counted by the event log
        spark.sparkContext.setJobDescription("again")
        found[f"{name}: s"] = median_seconds(lambda sql=sql: spark.sql(sql).collect())
    return found


def dbt(*arguments: str, env: dict[str, str] | None = None) -> dict[str, float]:
    """A dbt command: `wall` seconds, `peak` GiB, and the seconds of each node."""
    command = [Path(sys.executable).parent / "dbt", *arguments]
    ran = run_child(command, dict(environment(WAREHOUSE)) | (env or {}))
    nodes = {}
    if arguments[0] == "build":
        results = json.loads((SCRATCH / "dbt_target" / "run_results.json").read_text())["results"]
        nodes = {each["unique_id"].split(".", 2)[-1]: each["execution_time"] for each in results}
    return nodes | {"wall": ran.seconds, "peak": ran.peak}


BUILD = ("build", "--exclude-resource-type", "test", "unit_test")


def built_twice(messages: Sequence[bytes]) -> None:
    """Build all messages but the last, in two runs: what a first build leaves isn't what runs
    leave."""
    shutil.rmtree(BASE, ignore_errors=True)
    behind = len(messages) - 2 * HELD
    for part, offset in ((messages[:behind], 0), (messages[behind:-HELD], behind)):
        land(part, offset)
        print(f"{len(part):,} messages are built in {dbt(*BUILD)['wall']:.0f} s", flush=True)
    WAREHOUSE.rename(BASE)


def restore(messages: Sequence[bytes]) -> None:
    """The warehouse as it was before the last messages, which are landed."""
    shutil.rmtree(WAREHOUSE, ignore_errors=True)
    shutil.copytree(BASE, WAREHOUSE)
    land(messages[-HELD:], len(messages) - HELD)


def measure(days: int, messages: Sequence[bytes]) -> dict[str, float]:
    """All of one size."""
    restore(messages)
    filled = run_module("bench_size", "--fill", days)
    found = {"files named": float(filled.output.splitlines()[-1]), "s to name them": filled.seconds}
    found |= json.loads(run_module("bench_size", "--look").output.splitlines()[-1])
    log = SCRATCH / "events" / str(days)
    shutil.rmtree(log, ignore_errors=True)
    run = dbt(*BUILD, env=event_log(log / "run"))
    reads = logged_reads(log / "run")
    found["run: s"], found["run: GiB"] = run.pop("wall"), run.pop("peak")
    found["run: files opened"], found["run: their MB"] = reads[FILES], reads[FILE_BYTES] / 1e6
    for table in LARGE:
        name = table.removesuffix("__runs")
        found[f"run: {name}, s"] = run[name]
    end = [seconds for name, seconds in run.items() if "on-run-end" in name]
    found["run: publication (on-run-end), s"] = sum(end)
    points = run_module("bench_size", "--points", env=event_log(log / "points"))
    found |= json.loads(points.output.splitlines()[-1])
    for name in POINTS:
        found[f"{name}: files opened"] = logged_reads(log / "points", name)[FILES]
    for operation, arguments in (("compact", "{}"), ("expire_versions", "{keep: 1, days: 0}")):
        ran = dbt("run-operation", operation, "--args", arguments)
        found[f"{operation}: s"], found[f"{operation}: GiB"] = ran["wall"], ran["peak"]
    return found


def report(found: dict[int, dict[str, float]]) -> str:
    """A Markdown table: a line for each measure, and its ratio of the last size to the first."""
    sizes = list(found)
    heads = ["", *(f"{days:,} days" for days in sizes), "ratio"]
    lines = [heads, ["---"] * len(heads)]
    for name, first in found[sizes[0]].items():
        values = [found[days].get(name, 0.0) for days in sizes]
        cells = [f"{value:,.0f}" if value == int(value) else f"{value:,.2f}" for value in values]
        lines.append([name, *cells, f"{values[-1] / first:.2f}" if first else "-"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--days", type=int, nargs="+", default=[36, 3650], help="of history")
    parser.add_argument("--fill", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--points", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(options.fill)
        return
    if options.look or options.points:
        print(json.dumps(look() if options.look else read_points()))
        return
    messages = sample()
    built_twice(messages)
    found = {}
    for days in options.days:
        found[days] = measure(days, messages)
        print(f"\n{report(found)}\n", flush=True)


if __name__ == "__main__":
    main()
