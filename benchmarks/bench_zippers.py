"""What a day costs a zipper and a temporal join, on histories of different length.

    python -m benchmarks.bench_zippers --days 50 500

A day brings new orders and updates of orders, most of the last days and a few of any, and changes
of prices, some of them late. The history lies in ten runs, as days that were built before leave it.
Then some days are run by themselves; of their seconds the median counts. Beside them: the zipper
made again from all changes, and a dbt snapshot (timestamp strategy) of the latest prices, each of
the same days.

Seconds are dbt's own of the model. What was opened and read comes from Spark's event
log, as in bench_history. Then WARM_DAYS more share a process, as those of `make follow` do, and the
last WARM_COUNTED of them count. Then a day in the middle of the history is rebuilt in the zipper,
and the join follows. At the end the join is rebuilt and must be what the days made of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.bench_history import FILES, READ_BYTES, event_log, logged_reads
from benchmarks.common import ROOT, SCRATCH, run_child, run_module, session, settings_below

FOLDER = SCRATCH / "zippers"
PROJECT, INPUT, WAREHOUSE = (FOLDER / name for name in ("project", "input", "warehouse"))
PRODUCTS = 5_000
ORDERS_A_DAY, UPDATES_A_DAY, OLD_UPDATES_A_DAY = 10_000, 500, 20
CHANGES_A_DAY, LATE_CHANGES_A_DAY = 1_000, 20
CHUNKS = 10
MEASURED_DAYS = 3
WARM_DAYS, WARM_COUNTED = 12, 3  # Java has compiled what it will by then
FILES_OF = {
    "dbt_project.yml": f"""
        name: zippers
        version: "1.0"
        config-version: 2
        profile: binlog_warehouse
        macro-paths: ["{ROOT / "macros"}"]
        flags: {{send_anonymous_usage_stats: false}}
    """,
    "models/price_zip.sql": """
        {{ config(
            materialized='folded',
            unique_key='product_id',
            zipper={'sequence': 'place', 'time': 'changed_at'},
        ) }}
        select * from parquet.`{{ var('changes') }}`
    """,
    "models/latest_price.sql": """
        {{ config(materialized='folded', unique_key='product_id', fold={'sequence': 'place'}) }}
        select * from parquet.`{{ var('changes') }}`
    """,
    "models/orders.sql": """
        {{ config(materialized='folded', unique_key='order_id', fold={'sequence': 'version'}) }}
        select * from parquet.`{{ var('orders') }}`
    """,
    "models/priced.sql": """
        {{ config(
            materialized='folded',
            unique_key=['order_id', 'priced_product_id', 'valid_from'],
            fold={'sequence': 'commit_number', 'row_kind': 'row_kind'},
        ) }}
        {{ temporal_join(
            left={
                'relation': ref('orders'),
                'key': 'order_id',
                'columns': ['order_id', 'product_id', 'created_at', 'status'],
                'time': 'created_at',
            },
            right={
                'relation': ref('price_zip'),
                'key': ['product_id', 'valid_from'],
                'columns': {
                    'product_id': 'priced_product_id',
                    'valid_from': 'valid_from',
                    'price': 'price',
                },
            },
            on={'product_id': 'product_id'},
            kind='left',
        ) }}
    """,
    "snapshots/prices.yml": """
        snapshots:
          - name: price_snapshot
            relation: ref('latest_price')
            config:
              {unique_key: product_id, strategy: timestamp, updated_at: changed_at}
    """,
}
ZIP, JOIN = "price_zip", "priced"
NAMES = ("orders", "changes")  # of the inputs
WRITTEN, WRITTEN_BYTES = "files written", "bytes written"
WARM, RESTATED = "warm", "restated"
SETTINGS = settings_below(FOLDER)


# ---- the input -------------------------------------------------------------------------------


def write_input(days: int) -> None:
    """Parquet files of orders and changes: CHUNKS of the history, then the measured days."""
    spark = session(FOLDER / "scratch")
    per_chunk = days // CHUNKS
    parts = [(f"chunk{n}", n * per_chunk, (n + 1) * per_chunk) for n in range(CHUNKS)]
    parts += [(f"day{n}", days + n, days + n + 1) for n in range(MEASURED_DAYS + WARM_DAYS)]
    for name, first, end in parts:
        for table, sql in (
            ("orders", orders_sql(first, end)),
            ("changes", changes_sql(first, end)),
        ):
            spark.sql(sql).repartition(2).write.mode("overwrite").parquet(
                str(INPUT / table / "parts" / name)
            )


def hashed(text: str, below: str) -> str:
    """SQL of a whole number from 0, the same for the same text and id."""
    return f"pmod(xxhash64('{text}', id), cast({below} as bigint))"


def order_columns(order_id: str, version: str) -> str:
    """SQL columns of an order: its values follow from its id and version."""
    return (
        f"{order_id} as order_id, {version} as version, "
        f"pmod(xxhash64('product', {order_id}), {PRODUCTS}) as product_id, "
        "timestamp'2020-01-01' + make_dt_interval(0, 0, 0, "
        f"cast({order_id} * {86_400 / ORDERS_A_DAY} as decimal(18, 6))) as created_at, "
        f"concat('status ', {version}) as status"
    )


def orders_sql(first: int, end: int) -> str:
    """New orders of the days [first, end), updates of the three days before each and of any."""
    ids = f"range({first * ORDERS_A_DAY}, {end * ORDERS_A_DAY})"
    new = f"select {order_columns('id', '0')} from {ids}"
    day = f"cast({first} + id % {end - first} as bigint)"
    recent = f"greatest(0, ({day} - 2) * {ORDERS_A_DAY}) + {hashed('recent', 2 * ORDERS_A_DAY)}"
    old = hashed("old", f"({day} + 1) * {ORDERS_A_DAY}")
    parts = [new]
    for which, count in ((recent, UPDATES_A_DAY), (old, OLD_UPDATES_A_DAY)):
        rows = f"select least({which}, {end * ORDERS_A_DAY - 1}) as order_id, {day} + 1 as version"
        rows += f" from range({(end - first) * count})"
        parts.append(f"select {order_columns('order_id', 'version')} from ({rows})")
    return " union all ".join(parts)


def changes_sql(first: int, end: int) -> str:
    """Changes of prices of the days [first, end); late changes are of the three days before."""
    second = f"{first * 86_400} + {hashed('second', (end - first) * 86_400)}"
    late = f"{(end - 3) * 86_400} + {hashed('late', 2 * 86_400)}"
    parts = []
    for which, count in ((second, CHANGES_A_DAY), (late, LATE_CHANGES_A_DAY)):
        rows = f"select id, greatest(0, {which}) as at from range({(end - first) * count})"
        parts.append(
            f"select {hashed(f'price of {first}', PRODUCTS)} as product_id, "
            f"at * 1000000 + pmod(xxhash64({first}, id, at), 1000000) as place, "
            "timestamp'2020-01-01' + make_dt_interval(0, 0, 0, at) as changed_at, "
            f"cast({hashed('amount', 100_000)} / 100 as decimal(12, 2)) as price from ({rows})"
        )
    return " union all ".join(parts)


# ---- the runs --------------------------------------------------------------------------------


def write_project() -> None:
    for path, text in FILES_OF.items():
        (PROJECT / path).parent.mkdir(parents=True, exist_ok=True)
        lines = text.strip("\n").split("\n")
        indent = len(lines[0]) - len(lines[0].lstrip())
        (PROJECT / path).write_text("\n".join(line[indent:] for line in lines) + "\n")


def dbt(
    part: str, *arguments: str, log: Path | None = None, more: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Seconds of each node by its name, of a dbt command over a part of the input; "*": of all.

    Args:
        log: folder in which Spark keeps an event log.
        more: further vars.
    """
    command = [Path(sys.executable).parent / "dbt", *command_line(part, *arguments, more=more)]
    run_child(command, SETTINGS | (event_log(log) if log else {}), show=True)
    results = json.loads((FOLDER / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[-1]: result["execution_time"] for result in results}


def command_line(part: str, *arguments: str, more: Mapping[str, Any] | None = None) -> list[str]:
    """Arguments of a dbt command over a part of the input, with further vars."""
    variables = json.dumps(bring(part) | dict(more or {}))
    return ["--quiet", *arguments, "--project-dir", str(PROJECT), "--vars", variables]


def run_warm() -> None:
    """Run days in this process and print medians of the last: seconds of the models, as JSON."""
    os.environ.update(SETTINGS)
    from dbt.cli.main import dbtRunner

    found: dict[str, list[float]] = {ZIP: [], JOIN: []}
    for number in range(MEASURED_DAYS, MEASURED_DAYS + WARM_DAYS):
        for select in (["orders", "latest_price"], [ZIP], [JOIN]):
            command = command_line(f"day{number}", "run", "--select", *select)
            done = dbtRunner().invoke(command)
            if not done.success:
                sys.exit(f"bench: a warm day failed: {done.exception or done.result}")
            for result in done.result.results:
                if result.node.name in found:
                    found[result.node.name].append(result.execution_time)
    medians = {
        f"{name}: {WARM}": statistics.median(seconds[-WARM_COUNTED:])
        for name, seconds in found.items()
    }
    print(json.dumps(medians))


def bring(part: str) -> dict[str, str]:
    """Let a part of the input, or "*" all parts, be what the models read; dbt's vars for it, the
    same for each part: rows of other vars would be of another definition."""
    for name in NAMES:
        now = INPUT / name / "now"
        shutil.rmtree(now, ignore_errors=True)
        now.mkdir(parents=True)
        for folder in (INPUT / name / "parts").glob(part):
            (now / folder.name).symlink_to(folder)
    return {name: str(INPUT / name / "now" / "*") for name in NAMES}


def measure(days: int) -> dict[str, float]:
    """Medians over the measured days, and what stands beside them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_project()
    run_module("bench_zippers", "--write", days)
    for number in range(CHUNKS):
        dbt(f"chunk{number}", "run")
        print(f"{days} days: part {number + 1} of {CHUNKS}", file=sys.stderr, flush=True)
    dbt(f"chunk{CHUNKS - 1}", "snapshot")
    found: dict[str, list[float]] = {}
    for number in range(MEASURED_DAYS):
        day = f"day{number}"
        reported = dbt(day, "run", "--select", "orders", "latest_price")
        for name in (ZIP, JOIN):
            log = FOLDER / "events" / f"{name}{number}"
            held = data_files()
            reported |= dbt(day, "run", "--select", name, log=log)
            written = [size for path, size in data_files().items() if path not in held]
            reported |= {
                f"{name}: {WRITTEN}": len(written),
                f"{name}: {WRITTEN_BYTES}": sum(written),
            }
            reported |= {f"{name}: {what}": value for what, value in logged_reads(log).items()}
        reported |= dbt(day, "snapshot")
        for name, value in reported.items():
            found.setdefault(name, []).append(value)
    medians = {name: statistics.median(values) for name, values in found.items()}
    medians |= json.loads(run_module("bench_zippers", "--warm").output.splitlines()[-1])
    first = datetime(2020, 1, 1) + timedelta(days=days // 2)
    span = {"from": str(first), "to": str(first + timedelta(days=1))}
    part = f"chunk{CHUNKS // 2}"  # it begins with this day, and no other has changes of it
    restated = dbt(part, "run", "--select", ZIP, more={"rebuild": span})
    restated[JOIN] = dbt(part, "run", "--select", JOIN)[JOIN]
    medians |= {f"{name}: {RESTATED}": restated[name] for name in (ZIP, JOIN)}
    answer = run_module("bench_zippers", "--answer").output
    refreshed = dbt("*", "run", "--full-refresh", "--select", ZIP, JOIN)
    if run_module("bench_zippers", "--answer").output != answer:
        sys.exit("bench: the join rebuilt is another join than the days made")
    return medians | {"zipper again": refreshed[ZIP], "join again": refreshed[JOIN]}


def data_files() -> dict[Path, int]:
    """Bytes of each data file in the warehouse."""
    return {path: path.stat().st_size for path in WAREHOUSE.rglob("*.parquet")}


def show_answer() -> None:
    """Number, prices and versions of the joined orders."""
    sql = (
        "select count(*), sum(price), count(valid_from), sum(xxhash64(order_id, status, price, "
        f"string(valid_from)) % 1000000) from dw.{JOIN}"
    )
    print(session(WAREHOUSE).sql(sql).collect()[0])


def report(found: dict[int, dict[str, float]]) -> str:
    """A Markdown table; its last line is how each grew."""
    columns = {
        "zipper, s": (ZIP, 1),
        "zipper warm": (f"{ZIP}: {WARM}", 1),
        "its files opened": (f"{ZIP}: {FILES}", 1),
        "its files written": (f"{ZIP}: {WRITTEN}", 1),
        "its MB written": (f"{ZIP}: {WRITTEN_BYTES}", 1e6),
        "join, s": (JOIN, 1),
        "join warm": (f"{JOIN}: {WARM}", 1),
        "files opened": (f"{JOIN}: {FILES}", 1),
        "MB read": (f"{JOIN}: {READ_BYTES}", 1e6),
        "files written": (f"{JOIN}: {WRITTEN}", 1),
        "MB written": (f"{JOIN}: {WRITTEN_BYTES}", 1e6),
        "dbt snapshot, s": ("price_snapshot", 1),
        "a day restated, s": (f"{ZIP}: {RESTATED}", 1),
        "join behind it, s": (f"{JOIN}: {RESTATED}", 1),
        "zipper again, s": ("zipper again", 1),
        "join again, s": ("join again", 1),
    }
    lines = [["days of history", *columns], ["---"] * (len(columns) + 1)]
    for days, item in found.items():
        cells = [f"{item[key] / unit:,.1f}" for key, unit in columns.values()]
        lines.append([str(days), *cells])
    first, last = min(found.items())[1], max(found.items())[1]
    if len(found) > 1:
        growth = [
            f"{last[key] / first[key]:.2f}" if first[key] else "-" for key, _ in columns.values()
        ]
        lines.append(["growth", *growth])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--days", type=int, nargs="+", default=[50, 500], help="of history")
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--warm", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write_input(given.write)
    elif given.warm:
        run_warm()
    elif given.answer:
        show_answer()
    else:
        print(report({days: measure(days) for days in given.days}))


if __name__ == "__main__":
    main()
