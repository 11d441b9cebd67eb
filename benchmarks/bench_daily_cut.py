"""The dbt run beside a bare Spark job that does the same work, in one run.

Both read the same generated Maxwell files, decode and type every row, expand updates into retract
rows and write daily counts per user and status. The dbt run besides keeps the log as it came,
refuses what doesn't fit, leaves out repeats, records its inputs and prints what it did.

    python -m benchmarks.bench_daily_cut --rows 2000000
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from benchmarks.common import DAYS, SCRATCH, ask_spark, run_dbt, run_module, session
from benchmarks.generate_maxwell import generate

MODELS = ("ods_binlog", "ods_shop__order_info", "dws_trade__user_status_1d")
ROW = (
    "struct<order_id decimal(20,0), user_id decimal(20,0), product_type string, "
    "plat_name string, ref_id bigint, amount decimal(12,2), order_status bigint, "
    "biz_status string, comment string, create_time timestamp_ntz, update_time timestamp_ntz, "
    "dispatch_time timestamp_ntz, decision_time timestamp_ntz, finish_time timestamp_ntz>"
)


def run_bare(landing: Path, warehouse: Path) -> dict[str, float]:
    """Seconds of the bare job: `wall` with the start of Spark, `work` without; `peak` GiB."""
    ran = run_module("bench_daily_cut", "--bare", landing, warehouse)
    work = json.loads(ran.output.splitlines()[-1])["work"]
    return {"wall": ran.seconds, "peak": ran.peak, "work": work}


def bare_job(landing: Path, warehouse: Path) -> float:
    """The same work in plain Spark; returns its seconds."""
    from pyspark.sql import functions as F

    spark = session(warehouse)
    spark.sql("create schema if not exists dw")
    start = time.perf_counter()
    schema = (
        f"struct<database string, `table` string, type string, ts bigint, position string, "
        f"xoffset bigint, data {ROW}, old {ROW}>"
    )
    old_map = F.from_json("value", "struct<old map<string, string>>")["old"]
    may_hold_null = F.expr("locate('null', value, locate('\"old\":', value)) > 0")
    parsed = (
        spark.read.text(str(landing / "topics" / "*" / "*" / "*.jsonl*"))
        .withColumn("row", F.from_json("value", schema))
        .where("row.database = 'shop' and row.table = 'order_info'")
        .withColumn(
            "nulls",
            F.when(may_hold_null, F.map_keys(F.map_filter(old_map, lambda _, v: v.isNull()))),
        )
    )
    names = parsed.select("row.data.*").columns
    before = F.struct(
        *[
            F.when(F.col(f"row.old.{name}").isNotNull(), F.col(f"row.old.{name}"))
            .when(F.array_contains(F.coalesce("nulls", F.array()), name), F.lit(None))
            .otherwise(F.col(f"row.data.{name}"))
            .alias(name)
            for name in names
        ]
    )
    event_day = F.to_date(F.from_utc_timestamp(F.timestamp_seconds("row.ts"), "+08:00"))
    cut = F.when(F.col("row.type") == "delete", event_day).otherwise(
        F.coalesce(F.to_date("row.data.update_time"), event_day)
    )
    parsed.select(
        "row.data.*",
        F.when(F.col("row.type") != "insert", before).alias("before"),
        F.col("row.type").alias("op_type"),
        F.col("row.position").alias("position"),
        cut.alias("cut_date"),
    ).writeTo("dw.bare_changes").partitionedBy("cut_date").createOrReplace()
    spark.sql(
        """
        create or replace table dw.bare_counts partitioned by (cut_date) as
        select cut_date, if(sign = 1, user_id, before.user_id) as user_id,
            if(sign = 1, biz_status, before.biz_status) as biz_status,
            sum(sign) as order_count_change,
            sum(sign * if(sign = 1, amount, before.amount)) as amount_sum_change
        from dw.bare_changes
        lateral view explode(case op_type when 'insert' then array(1)
            when 'update' then array(-1, 1) else array(-1) end) signs as sign
        group by all
        """
    )
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--bare", nargs=2, metavar=("LANDING", "WAREHOUSE"), type=Path)
    options = parser.parse_args()
    if options.bare:
        print(json.dumps({"work": bare_job(*options.bare)}))
        return
    shutil.rmtree(SCRATCH, ignore_errors=True)
    landing, warehouse, plain = (SCRATCH / item for item in ("landing", "warehouse", "bare"))
    made = generate(landing, options.rows, days=options.days)
    print(f"{made.rows:,} rows, {made.size / 1e6:,.0f} MB in {made.files} files")
    bare = run_bare(landing, plain)
    dbt = run_dbt(landing, warehouse, "+dws_trade__user_status_td")
    again = run_dbt(landing, warehouse, "+dws_trade__user_status_td")
    if ask_spark(warehouse, DAYS, MODELS[-1]) != ask_spark(plain, DAYS, "bare_counts"):
        sys.exit("bench: the two answers differ")
    work = sum(dbt[model] for model in MODELS)
    print("\n| what | seconds | rows/s | of the bare job |\n|---|---|---|---|")
    for name, seconds, base in (
        ("bare Spark job, its work alone", bare["work"], bare["work"]),
        *((f"dbt, {model}", dbt[model], bare["work"]) for model in MODELS),
        ("dbt, the three models", work, bare["work"]),
        ("bare Spark job as a process", bare["wall"], bare["wall"]),
        ("dbt run as a process", dbt["wall"], bare["wall"]),
        ("dbt run again, nothing new", again["wall"], bare["wall"]),
    ):
        rate = made.rows / seconds
        print(f"| {name} | {seconds:.1f} | {rate:,.0f} | {seconds / base:.2f} |")


if __name__ == "__main__":
    main()
