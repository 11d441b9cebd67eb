"""What a full extract costs a keyed table and a zipper that are made of extracts alone.

    python -m benchmarks.bench_extracts --days 5 50

Each day an extract of all rows lands, of which a hundredth differs from the day before, and some
are new or gone. The history is built a fifth at a time, as runs that were missed are made up for.
Then some days are run by themselves, each in a process of its own; of their seconds the median
counts. What was opened and read comes from Spark's event log, as in bench_history. At the end both
models are rebuilt from all extracts and must be what the days made of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path
from textwrap import dedent

from benchmarks.bench_history import FILES, READ_BYTES, event_log, logged_reads
from benchmarks.common import ROOT, SCRATCH, run_child, run_module, session, settings_below

FOLDER = SCRATCH / "extracts"
PROJECT, WAREHOUSE = FOLDER / "project", FOLDER / "warehouse"
ROWS = 200_000  # of an extract
DAYS_A_CHANGE = 100  # a row changes each so many days
NEW_A_DAY = 200  # and as many go
CHUNKS, MEASURED_DAYS = 5, 3
MODEL = """
    {{{{ config(materialized='folded', unique_key='product_id', {kind}={config}) }}}}
    {{{{ extract_changes(
        extracts={{
            'rows': source('shop', 'product_extract'),
            'complete': source('shop', 'product_extract_done'),
            'id': 'extract_id',
            'row_count': 'row_count',
        }},
        key='product_id',
        columns=['product_name', 'price'],
        sequence='taken_at',
        {time}
    ) }}}}
"""
ORDER = ["taken_at", "from_extract"]
SEQUENCE = {"sequence": ORDER, "row_kind": "row_kind"}
FILES_OF = {
    "dbt_project.yml": f"""
        name: extracts
        version: "1.0"
        config-version: 2
        profile: binlog_warehouse
        macro-paths: ["{ROOT / "macros"}"]
        flags: {{send_anonymous_usage_stats: false}}
    """,
    "models/_sources.yml": """
        sources:
          - name: shop
            tables: [{name: product_extract}, {name: product_extract_done}]
    """,
    "models/product.sql": MODEL.format(
        kind="fold", config=SEQUENCE | {"hidden_columns": ORDER}, time=""
    ),
    "models/product_zip.sql": MODEL.format(
        kind="zipper", config=SEQUENCE | {"time": "taken_at"}, time="time='taken_at',"
    ),
}
MODELS = {
    "product": "product_id, product_name, price",
    "product_zip": "product_id, product_name, price, valid_from, valid_to",
}
SETTINGS = settings_below(FOLDER)


def land(first: int, end: int) -> None:
    """Let the extracts of the days [first, end) land, each in files of its own."""
    spark = session(WAREHOUSE)
    spark.sql("create namespace if not exists shop")
    spark.sql(
        "create table if not exists shop.product_extract (extract_id int, product_id bigint, "
        "product_name string, price decimal(12, 2)) using iceberg"
    )
    spark.sql(
        "create table if not exists shop.product_extract_done (extract_id int, row_count bigint, "
        "taken_at timestamp) using iceberg"
    )
    for day in range(first, end):
        changed = f"greatest(-1, {day} - pmod(id + {day}, {DAYS_A_CHANGE}))"  # day of the change
        ids = f"range({day * NEW_A_DAY}, {day * NEW_A_DAY + ROWS}, 1, 2)"
        spark.sql(
            f"insert into shop.product_extract select {day}, id, concat('product ', id), "
            f"cast(pmod(xxhash64(id, {changed}), 100000) / 100 as decimal(12, 2)) from {ids}"
        )
        taken_at = f"timestamp'2020-01-01' + make_dt_interval({day})"
        spark.sql(f"insert into shop.product_extract_done select {day}, {ROWS}, {taken_at}")


def dbt(*arguments: str, log: Path | None = None) -> dict[str, float]:
    """Seconds of each node of `dbt run` by its name.

    Args:
        log: folder in which Spark keeps an event log.
    """
    command = [Path(sys.executable).parent / "dbt", "--quiet", "run", *arguments]
    env = SETTINGS | (event_log(log) if log else {})
    run_child([*command, "--project-dir", str(PROJECT)], env, show=True)
    results = json.loads((FOLDER / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[-1]: result["execution_time"] for result in results}


def measure(days: int) -> dict[str, float]:
    """Medians over the measured days, and what stands beside them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in FILES_OF.items():
        (PROJECT / path).parent.mkdir(parents=True, exist_ok=True)
        (PROJECT / path).write_text(dedent(text.strip("\n")) + "\n")
    share = days // CHUNKS
    for number in range(CHUNKS):
        run_module("bench_extracts", "--land", number * share, (number + 1) * share)
        dbt()
        print(f"{days} days: part {number + 1} of {CHUNKS}", file=sys.stderr, flush=True)
    found: dict[str, list[float]] = {}
    for number in range(MEASURED_DAYS):
        run_module("bench_extracts", "--land", days + number, days + number + 1)
        for name in MODELS:
            log = FOLDER / "events" / f"{name}{number}"
            reported = dbt("--select", name, log=log)
            reported |= {f"{name}: {what}": value for what, value in logged_reads(log).items()}
            for what, value in reported.items():
                found.setdefault(what, []).append(value)
    medians = {name: statistics.median(values) for name, values in found.items()}
    answer = run_module("bench_extracts", "--answer").output
    refreshed = dbt("--full-refresh")
    if run_module("bench_extracts", "--answer").output != answer:
        sys.exit("bench: the models rebuilt are others than the days made")
    return medians | {f"{name} again": seconds for name, seconds in refreshed.items()}


def show_answer() -> None:
    """Number and checksum of the rows of both models."""
    spark = session(WAREHOUSE)
    for name, columns in MODELS.items():
        hashes = f"sum(cast(xxhash64({columns}) as decimal(38, 0)))"
        print(spark.sql(f"select count(*), {hashes} from dw.{name}").collect()[0])


def report(found: dict[int, dict[str, float]]) -> str:
    """A Markdown table; its last line is how each grew."""
    columns = {}
    for name, label in zip(MODELS, ("table", "zipper"), strict=True):
        columns |= {
            f"{label}, s": (name, 1),
            f"{label}: files opened": (f"{name}: {FILES}", 1),
            f"{label}: MB read": (f"{name}: {READ_BYTES}", 1e6),
            f"{label} again, s": (f"{name} again", 1),
        }
    lines = [["days of history", *columns], ["---"] * (len(columns) + 1)]
    for days, item in found.items():
        lines.append([str(days), *(f"{item[key] / unit:,.1f}" for key, unit in columns.values())])
    (_, first), *_, (_, last) = sorted(found.items())
    if len(found) > 1:
        growth = (f"{last[key] / first[key]:.2f}" for key, _ in columns.values())
        lines.append(["growth", *growth])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--days", type=int, nargs="+", default=[5, 50], help="of history")
    parser.add_argument("--land", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.land:
        land(*given.land)
    elif given.answer:
        show_answer()
    else:
        print(report({days: measure(days) for days in given.days}))


if __name__ == "__main__":
    main()
