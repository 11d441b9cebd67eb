"""One day of changes by the dbt run, and by others on the same lines and the same cores.

    python -m benchmarks.bench_peers --rows 2000000 \\
        --duckdb-python <venv>/bin/python --flink-python <venv>/bin/python

Each is a process of its own, one after the other, that reads the same generated Maxwell files of
one business day. Their answers (number of groups, orders and amount, of the day and to date) are
compared, and the benchmark fails where they differ. Beside the times stands the most memory that
the process and its descendants had at one time (Linux; sampled every half second, shared pages
counted once).

- dbt: `dbt run -s +dws_trade__user_status_td`, all that it does besides as in bench_daily_cut.
- bare Spark: bench_daily_cut.bare_job, typed changes and counts written as tables.
- DuckDB: the same work as the bare job, 2 threads, 4 GB, see peer_duckdb.
- Flink SQL: GROUP BY over the changelog, 2 slots, 4 GB heap, see peer_flink for what it does less
  and more. It reads the same lines, but each partition's files joined into one: its readers take
  files in any order, and GROUP BY over a changelog drops a withdrawal that comes before what it
  withdraws, so that its sums come out wrong.

DuckDB and Flink are none of the project's dependencies: they are run by the interpreters named,
and left out where those haven't got them (`pip install duckdb`, `pip install apache-flink`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from benchmarks.bench_daily_cut import MODELS, run_bare
from benchmarks.common import (
    DAYS,
    SCRATCH,
    Answer,
    answer,
    ask_spark,
    run_dbt,
    run_module,
)
from benchmarks.generate_maxwell import generate

# as DAYS, to date: of a table of totals, and of daily counts
TOTALS = "select count(*), sum(order_count), sum(amount_sum) from {table}"
TO_DATE = (
    "select count(*), sum(orders), sum(amount) from (select user_id, biz_status, "
    "sum(order_count_change) as orders, sum(amount_sum_change) as amount from {table} "
    "group by user_id, biz_status having sum(order_count_change) <> 0) as totals"
)


def has(python: str, module: str) -> bool:
    """Whether an interpreter is there and has a module."""
    try:
        return not subprocess.run(
            [python, "-c", f"import {module}"], capture_output=True
        ).returncode
    except OSError:
        return False


def join_files(landing: Path) -> None:
    """Make one file of each partition's files, in their order, in place."""
    for folder in landing.glob("topics/*/*"):
        first, *others = sorted(folder.iterdir())
        with first.open("ab") as joined:
            for path in others:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, joined, 16 << 20)
                path.unlink()


def folded(folder: Path) -> Answer:
    """The answer that the changelog which Flink wrote comes to: inserts less deletes."""
    total = [0, 0, Decimal(0)]
    for path in folder.iterdir():
        with path.open() as lines:
            for line in lines:
                # whole numbers may be written as 2.53E+3
                change = json.loads(line, parse_float=Decimal)
                sign = 1 if change["type"] == "insert" else -1
                row = change["data"]
                total[0] += sign
                total[1] += sign * int(row["order_count"])
                total[2] += sign * Decimal(row["amount_sum"])
    return answer(total)


def run_duckdb(python: str, landing: Path) -> tuple[dict, Answer, Answer]:
    """What DuckDB took, and its answers."""
    folder = SCRATCH / "duckdb"
    folder.mkdir()
    asked = [landing, folder / "counts.db", DAYS, TO_DATE]
    ran = run_module("peer_duckdb", *asked, python=python)
    parsed = json.loads(ran.output.splitlines()[-1])
    found = {"wall": ran.seconds, "peak": ran.peak} | parsed
    return found, answer(parsed["days"]), answer(parsed["to_date"])


def run_flink(python: str, landing: Path) -> tuple[dict, Answer]:
    """What Flink took, and its answer."""
    from dbt.adapters.sparksession.java import find_java

    folder = SCRATCH / "flink"
    folder.mkdir()
    env = {"JAVA_HOME": find_java(), "JVM_ARGS": "-Xmx4g", "FLINK_LOG_DIR": str(folder)}
    ran = run_module("peer_flink", landing, folder / "counts", python=python, env=env)
    answer = json.loads(ran.output.splitlines()[-1])
    return {"wall": ran.seconds, "peak": ran.peak} | answer, folded(folder / "counts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--duckdb-python", default=sys.executable, help="one that has duckdb")
    parser.add_argument("--flink-python", default=sys.executable, help="one that has apache-flink")
    options = parser.parse_args()
    shutil.rmtree(SCRATCH, ignore_errors=True)
    landing, warehouse, plain = (SCRATCH / item for item in ("landing", "warehouse", "bare"))
    made = generate(landing, options.rows, days=1)
    print(f"{made.rows:,} rows, {made.size / 1e6:,.0f} MB in {made.files} files", flush=True)

    dbt = run_dbt(landing, warehouse, "+dws_trade__user_status_td")
    bare = run_bare(landing, plain)
    rows = [
        ("bare Spark job as a process", bare["wall"], bare["wall"], bare["peak"]),
        ("dbt run as a process", dbt["wall"], bare["wall"], dbt["peak"]),
    ]
    parts = [("bare Spark job, its work alone", bare["work"], bare["work"], None)]
    parts += [(f"dbt, {model}", dbt[model], bare["work"], None) for model in MODELS]
    days, to_date = {}, {}
    if has(options.duckdb_python, "duckdb"):
        found, days["DuckDB"], to_date["DuckDB"] = run_duckdb(options.duckdb_python, landing)
        name = f"DuckDB {found['version']}"
        rows.append((f"{name} as a process", found["wall"], bare["wall"], found["peak"]))
        parts.append((f"{name}, its work alone", found["work"], bare["work"], None))
    else:
        print("DuckDB is left out: --duckdb-python has no module duckdb.")
    if has(options.flink_python, "pyflink"):
        join_files(landing)
        found, to_date["Flink"] = run_flink(options.flink_python, landing)
        name = f"Flink {found['version']}"
        rows.append((f"{name} as a process", found["wall"], bare["wall"], found["peak"]))
        parts.append((f"{name}, its job alone", found["work"], bare["work"], None))
    else:
        print("Flink is left out: --flink-python has no module pyflink.")

    days["dbt"] = ask_spark(warehouse, DAYS, MODELS[-1])
    days["bare Spark"] = ask_spark(plain, DAYS, "bare_counts")
    to_date["dbt"] = ask_spark(warehouse, TOTALS, "dws_trade__user_status_td")
    to_date["bare Spark"] = ask_spark(plain, TO_DATE, "bare_counts")
    for answers in (days, to_date):
        if len(set(answers.values())) > 1:
            sys.exit(f"bench: the answers differ (groups, orders, amount): {answers}")
    groups, orders, amount = to_date["dbt"]
    print(f"All answers are equal: {groups:,} groups, {orders:,} orders, {amount:,} to date.")

    print(
        "\n| what | seconds | rows/s | of the bare job | peak memory, GiB |\n|---|---|---|---|---|"
    )
    for name, seconds, base, peak in rows + parts:
        reported = "" if peak is None else f"{peak:.2f}"
        rate = made.rows / seconds
        print(f"| {name} | {seconds:.1f} | {rate:,.0f} | {seconds / base:.2f} | {reported} |")


if __name__ == "__main__":
    main()
