"""A day's run, and a read of one user's totals, on histories of different length.

    python -m benchmarks.bench_history --day-rows 200000 --history 1 10 100

A run should cost what its day brought, and a point read a few files, however many changes the
warehouse holds. For each size of history: `dbt run -s +dws_trade__user_status_td` of a day that
has landed (its seconds, and what Spark and Iceberg say was read), the read of one user's row of
the totals, and, beside it, the counts computed again from the whole changelog
(`--full-refresh` of the days, months and years).

How the history comes about: a first day is landed and built by dbt. Its rows are then multiplied
by SQL in ods_binlog and ods_shop__order_info, with keys, places in the log, offsets and dates of
their own, over `--history-days` days before it, a commit for each 30 days of them. 10 x the history
is 10 x as many rows on the same days. The commits say what was read for them, as a run's own do.
Then a second day is landed and run: it makes the days, months and years of the whole history, and
leaves the tables as runs leave them. The days behind it are measured, one run each; of the seconds
the median counts. All sizes are measured with the same days' files.

Where this differs from years of daily runs: the payloads of the multiplied messages are the first
day's, byte by byte; a day of history is one file in the changelog's table; there are some forty
commits in a table, not a thousand; the users stay the same.

What was read comes from Spark's event log, kept during the measured runs. `MB read` is what the
tasks read of all tables' data files. `files opened` and their size are as Iceberg planned its
scans; of scans of new rows only, as those of ods_binlog are, it has none. Landed files, which
Python workers read, and the tables' metadata are in neither.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import SCRATCH, run_dbt, run_module, session
from benchmarks.generate_maxwell import generate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

TOTALS = "dws_trade__user_status_td"
LEVELS = [f"dws_trade__user_status_{level}" for level in ("1d", "1m", "1y")]
SHOWN = ["ods_binlog", "ods_shop__order_info", *LEVELS]
LANDING, WAREHOUSE, FIRST_DAY = (SCRATCH / name for name in ("landing", "warehouse", "first_day"))
LOG = SCRATCH / "log"
PARTITIONS = 4
ROWS_PER_FILE = 50_000
# The generated log begins here: places before it are free for history
FIRST_OFFSET = 10**9
FIRST_BINLOG = 900_000
# Binlog files that a day may have; one holds some 2.5 million changes
FILES_A_DAY = 4
DAYS_PER_COMMIT = 30
POINT = "point read"
FILES, FILE_BYTES, READ_BYTES = "files", "bytes of the files", "bytes read"
METRICS = {"number of result data files": FILES, "total data file size (bytes)": FILE_BYTES}


# ---- the log ---------------------------------------------------------------------------------


def write_log(day_rows: int, days: int) -> list[list[Path]]:
    """Generate the days' files; return them by day."""
    per_day = max(1, round(day_rows / PARTITIONS / ROWS_PER_FILE))
    generate(LOG, day_rows * days, days=days, files=PARTITIONS * per_day * days)
    found: list[list[Path]] = [[] for _ in range(days)]
    for folder in sorted(LOG.glob("topics/*/*")):
        for index, path in enumerate(sorted(folder.iterdir())):
            found[index // per_day].append(path)
    return found


def land(files: Iterable[Path]) -> None:
    """Put files of the log where dbt looks for them, behind the places of the history."""
    for path in files:
        topic, partition, rest = path.name.split("+")
        offset, _, suffix = rest.partition(".")
        folder = LANDING / path.parent.relative_to(LOG)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{topic}+{partition}+{int(offset) + FIRST_OFFSET:010d}.{suffix}"
        head = b'"position":"bin.%03d' % (FIRST_BINLOG // 1000)
        (folder / name).write_bytes(path.read_bytes().replace(b'"position":"bin.000', head))


# ---- the history -----------------------------------------------------------------------------


def fill(times: int, day_rows: int, history_days: int) -> None:
    """Multiply the first day's rows in the two ODS tables, over the days before it.

    Args:
        times: rows of the history, in days.
    """
    spark = session(WAREHOUSE)
    one_partition = day_rows // PARTITIONS
    commits = -(-history_days // DAYS_PER_COMMIT)
    for table, key in (
        ("ods_binlog", ["partition_number", "message_offset"]),
        ("ods_shop__order_info", ["order_id"]),
    ):
        first_day = head_of(spark, table)
        properties = {}
        if table != "ods_binlog":
            properties["dbt.input.dw.ods_binlog"] = str(head_of(spark, "ods_binlog"))
        for commit in range(commits):
            rows = copies(
                spark,
                table,
                first_day,
                key,
                times=times,
                commit=commit,
                commits=commits,
                history_days=history_days,
            )
            # the last three columns say where a copy goes
            rows = rows.select(*[in_history(field, one_partition) for field in rows.schema[:-3]])
            if table != "ods_binlog":
                # one file a day, as a small day's run leaves it
                rows = rows.repartition(8, "cut_date")
            writer = rows.writeTo(f"dw.{table}")
            for name, value in properties.items():
                writer = writer.option(f"snapshot-property.{name}", value)
            writer.append()


def head_of(spark: SparkSession, table: str) -> int:
    """The snapshot that a table stands at."""
    sql = f"select snapshot_id from dw.{table}.refs where name = 'main'"
    return spark.sql(sql).collect()[0].snapshot_id


def copies(
    spark: SparkSession,
    table: str,
    snapshot: int,
    key: list[str],
    *,
    times: int,
    commit: int,
    commits: int,
    history_days: int,
) -> DataFrame:
    """A commit's share of the rows that a snapshot has, each `times` times.

    Rows of one key go to one day, another day for each copy.

    Returns:
        The table's columns, and behind them: _copy (from 0), _back (days before the first day),
        _file (number of the copy's binlog file, unique for copy, day and file).
    """
    from pyspark.sql import functions as F

    share = F.pmod(F.hash(*key), F.lit(commits)) == commit
    first = commit * DAYS_PER_COMMIT
    width = min(DAYS_PER_COMMIT, history_days - first)
    rows = spark.sql(f"select * from dw.{table} version as of {snapshot}").where(share)
    # a small day is one task's work, its copies aren't
    rows = rows.repartition(spark.sparkContext.defaultParallelism)
    rows = rows.withColumn("_copy", F.explode(F.sequence(F.lit(0), F.lit(times - 1))))
    back = F.lit(first + 1) + F.pmod(F.hash(F.lit("day"), *key, "_copy"), F.lit(width))
    rows = rows.withColumn("_back", back.cast("int"))
    # as many files of a day as there are copies and files of the first day, in the days' order
    day = (F.lit(history_days) - F.col("_back")).cast("long")
    old = F.col("binlog_file_number") - FIRST_BINLOG
    number = ((day * times + F.col("_copy")) * FILES_A_DAY + old).cast("long")
    return rows.withColumn("_file", number)


def in_history(field: StructField, one_partition: int) -> Column:
    """A column's value in a copy of its row (see copies).

    Args:
        one_partition: messages of the first day in one partition of the topic.
    """
    from pyspark.sql import functions as F

    name = field.name
    if name == "before":
        parts = [
            moved(F.col("before")[named.name], named).alias(named.name) for named in field.dataType
        ]
        return F.when(F.col("before").isNotNull(), F.struct(*parts)).alias(name)
    if name == "message_offset":
        new = F.col(name) - FIRST_OFFSET + F.col("_copy").cast("long") * one_partition
    elif name == "run_offset":
        # one run from the first message on, which the log's own messages don't join
        new = F.lit(0).cast("long")
    elif name == "binlog_file":
        new = F.format_string("bin.%06d", "_file")
    elif name == "binlog_file_number":
        new = F.col("_file")
    elif name == "unique_key":
        place = (F.format_string("bin.%06d", "_file"), F.col("binlog_position"))
        new = F.concat_ws(":", *place, F.col("row_number"))
    elif name == "cut_date":
        new = F.date_sub(name, F.col("_back"))
    else:
        new = moved(F.col(name), field)
    return new.alias(name)


def moved(value: Column, field: StructField) -> Column:
    """A value of a row's image in a copy: times lie back, an order has a key of its own."""
    from pyspark.sql import functions as F

    kind = field.dataType.typeName()
    if field.name == "order_id":
        return (value + F.col("_copy").cast("decimal(10, 0)") * F.lit(10**9)).cast(field.dataType)
    if kind.startswith("timestamp"):
        return value - F.make_dt_interval(F.col("_back"))
    return value


# ---- what was read ---------------------------------------------------------------------------


def event_log(folder: Path) -> dict[str, str]:
    """Environment in which Spark keeps an event log in a new folder."""
    folder.mkdir(parents=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    options = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    return {"PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"}


def logged_reads(folder: Path, description: str | None = None) -> Counter[str]:
    """What was read by the event log in a folder: FILES, FILE_BYTES and READ_BYTES.

    Args:
        description: count only the queries of this job description.
    """
    names: dict[int, str] = {}
    values: dict[int, int] = {}
    wanted: set[int] = set()
    stages: set[int] = set()
    of_tables: set[int] = set()  # what is kept between two queries counts as read, too
    read = Counter({FILES: 0, FILE_BYTES: 0, READ_BYTES: 0})
    for event in _events(folder):
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerSQLExecutionStart" and (
            description is None or event["description"] == description
        ):
            wanted.add(event["executionId"])
        if kind in ("SparkListenerSQLExecutionStart", "SparkListenerSQLAdaptiveExecutionUpdate"):
            names.update(_scan_metrics(event["sparkPlanInfo"]))
        elif kind == "SparkListenerDriverAccumUpdates" and event["executionId"] in wanted:
            values.update(event["accumUpdates"])
        elif kind == "SparkListenerJobStart":
            execution = event["Properties"].get("spark.sql.execution.id")
            if execution is not None and int(execution) in wanted:
                stages.update(event["Stage IDs"])
                of_tables.update(_stages_of_tables(event["Stage Infos"]))
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in stages & of_tables:
            read[READ_BYTES] += event["Task Metrics"]["Input Metrics"]["Bytes Read"]
    for metric, value in values.items():
        if metric in names:
            read[names[metric]] += value
    return read


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.iterdir():
        with path.open() as lines:
            for line in lines:
                if line.endswith("\n"):  # else the process ended within it
                    yield json.loads(line)


def _stages_of_tables(stages: list[dict[str, Any]]) -> Iterator[int]:
    """Those that scan a table."""
    for stage in stages:
        if any(row["Name"] in ("DataSourceRDD", "FileScanRDD") for row in stage["RDD Info"]):
            yield stage["Stage ID"]


def _scan_metrics(plan: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """(accumulator, one of METRICS' values) of a plan's scans. Writes have such names as well."""
    for metric in plan["metrics"] if plan["nodeName"].startswith("BatchScan") else ():
        if metric["name"] in METRICS:
            yield metric["accumulatorId"], METRICS[metric["name"]]
    for child in plan["children"]:
        yield from _scan_metrics(child)


# ---- the measured things ---------------------------------------------------------------------


def read_point(user: int) -> dict[str, Any]:
    """Read a user's totals.

    Returns:
        {"table files", "table bytes": of the levels, "answer": groups, orders and amount of all
        users, as texts}
    """
    spark = session(WAREHOUSE)
    found: dict[str, Any] = {"table files": 0, "table bytes": 0}
    for level in LEVELS:
        sql = f"select count(*), sum(file_size_in_bytes) from dw.{level}.files"
        files, size = spark.sql(sql).collect()[0]
        found["table files"] += files
        found["table bytes"] += size or 0
    sql = f"select count(*), sum(order_count), sum(amount_sum) from dw.{TOTALS}"
    found["answer"] = list(map(str, spark.sql(sql).collect()[0]))
    # by its description the read is distinguished from the queries before it
    spark.sparkContext.setJobDescription(POINT)
    spark.sql(f"select * from dw.{TOTALS} where user_id = {user}").collect()
    return found


def measure(times: int, files: list[list[Path]], options: argparse.Namespace) -> dict[str, Any]:
    """All of one size of history.

    Returns:
        {"runs": seconds and reads of the measured runs, "refresh": of the counts rebuilt,
        "point": reads of the point read, and read_point's answer}
    """
    shutil.rmtree(WAREHOUSE, ignore_errors=True)
    shutil.rmtree(LANDING, ignore_errors=True)
    shutil.copytree(FIRST_DAY, WAREHOUSE)
    land(files[0])
    asked = json.dumps([times, options.day_rows, options.history_days])
    seconds = run_module("bench_history", "--fill", asked).seconds
    print(f"{times * options.day_rows:,} rows of history written in {seconds:.0f} s", flush=True)
    land(files[1])
    run_dbt(LANDING, WAREHOUSE, f"+{TOTALS}")
    logs = SCRATCH / "events" / str(times)
    runs = []
    for number, day in enumerate(files[2:]):
        land(day)
        log = logs / f"run{number}"
        run = run_dbt(LANDING, WAREHOUSE, f"+{TOTALS}", env=event_log(log))
        runs.append(run | logged_reads(log))
    log = logs / "point"
    point = point_read(options.user, log) | logged_reads(log, POINT)
    log = logs / "rebuilt"
    levels, full_refresh = " ".join(LEVELS), ["--full-refresh"]
    refresh = run_dbt(LANDING, WAREHOUSE, levels, arguments=full_refresh, env=event_log(log))
    refresh |= logged_reads(log)
    rebuilt = point_read(options.user, logs / "point_rebuilt")["answer"]
    if rebuilt != point["answer"]:
        sys.exit(f"bench: the totals are {point['answer']}, rebuilt they are {rebuilt}")
    return {"runs": runs, "refresh": refresh, "point": point}


def point_read(user: int, log: Path) -> dict[str, Any]:
    """read_point's answer, in a process of its own with an event log."""
    ran = run_module("bench_history", "--point", user, env=event_log(log))
    return json.loads(ran.output.splitlines()[-1])


def report(found: dict[int, dict[str, Any]], day_rows: int) -> str:
    """Markdown tables of the seconds and of the reads; their last lines say how both grew."""
    mega, kilo = 1e6, 1e3
    seconds = [("the day's run, s", "run", "wall", 1)]
    seconds += [(f"{name.removeprefix('dws_trade__')}, s", "run", name, 1) for name in SHOWN]
    seconds += [("counts rebuilt, s", "refresh", "wall", 1), ("memory, GiB", "run", "peak", 1)]
    reads = [
        ("run: files opened", "run", FILES, 1),
        ("their MB", "run", FILE_BYTES, mega),
        ("run: MB read", "run", READ_BYTES, mega),
        ("again: files opened", "refresh", FILES, 1),
        ("again: MB read", "refresh", READ_BYTES, mega),
        ("point read: files of the levels", "point", "table files", 1),
        ("their MB", "point", "table bytes", mega),
        ("files opened", "point", FILES, 1),
        ("their kB", "point", FILE_BYTES, kilo),
        ("kB read", "point", READ_BYTES, kilo),
    ]
    return "\n\n".join(_table(found, day_rows, columns) for columns in (seconds, reads))


def _table(
    found: dict[int, dict[str, Any]], day_rows: int, columns: list[tuple[str, str, str, float]]
) -> str:
    """One table; a column is (heading, part of what was measured, key in it, unit)."""
    numbers = []
    for item in found.values():
        runs = item["runs"]
        run = {key: statistics.median(each[key] for each in runs) for key in runs[0]}
        parts = item | {"run": run}
        numbers.append([parts[part][key] / unit for _, part, key, unit in columns])
    lines = [["rows of history", *(heading for heading, *_ in columns)]]
    lines.append(["---"] * len(lines[0]))
    for times, row in zip(found, numbers, strict=True):
        cells = [f"{item:,.0f}" if item == int(item) else f"{item:,.1f}" for item in row]
        lines.append([f"{times * day_rows:,}", *cells])
    if len(found) > 1:
        pairs = zip(numbers[0], numbers[-1], strict=True)
        growth = [f"{last / first:.2f}" if first else "-" for first, last in pairs]
        lines.append([f"{list(found)[-1] / next(iter(found)):g} x the history", *growth])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--day-rows", type=int, default=200_000, help="changes of one day")
    parser.add_argument(
        "--history", type=int, nargs="+", default=[1, 10, 100], help="sizes, in --day-rows"
    )
    parser.add_argument(
        "--history-days", type=int, default=1095, help="days that it is spread over"
    )
    parser.add_argument("--repeats", type=int, default=3, help="days that are measured")
    parser.add_argument("--user", type=int, default=1000, help="whose totals are read")
    parser.add_argument("--fill", help=argparse.SUPPRESS)
    parser.add_argument("--point", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        fill(*json.loads(options.fill))
        return
    if options.point is not None:
        print(json.dumps(read_point(options.point)))
        return
    if options.day_rows % PARTITIONS:
        sys.exit(f"bench: --day-rows must be a multiple of {PARTITIONS}")
    longest = FIRST_BINLOG // (options.history_days * FILES_A_DAY)
    if max(options.history) > longest:  # its binlog files would meet the log's
        sys.exit(f"bench: --history must be at most {longest} on {options.history_days} days")
    shutil.rmtree(SCRATCH, ignore_errors=True)
    files = write_log(options.day_rows, 2 + options.repeats)
    land(files[0])
    run_dbt(LANDING, WAREHOUSE, f"+{TOTALS}")
    WAREHOUSE.rename(FIRST_DAY)
    found = {}
    for times in options.history:
        found[times] = measure(times, files, options)
        print(f"\n{report(found, options.day_rows)}\n", flush=True)


if __name__ == "__main__":
    main()
