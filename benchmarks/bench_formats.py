"""Decoding of each log format beside a bare from_json of the same lines, in one run.

The same changes of shop.order_info are written in each relational format; MongoDB's are of its
own sample, over and over. Per format three jobs read the same messages from one Parquet file and
write nothing (`noop`):

    bare      from_json of the payload into the format's own shape with typed columns; no check
    envelope  what ods_binlog adds to a raw message
    typed     what a typed model adds to a row of ods_binlog: both images, typed, each value checked

Each is run twice and the faster one counts. Ratios are rows per second over those of `bare`.

    python -m benchmarks.bench_formats --rows 300000
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bench_daily_cut import ROW, SCRATCH, session
from benchmarks.generate_maxwell import generate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = {
    "order_id": "bigint unsigned",
    "user_id": "bigint unsigned",
    "product_type": "varchar(20)",
    "plat_name": "varchar(40)",
    "ref_id": "bigint",
    "amount": "decimal(12,2)",
    "order_status": "bigint",
    "biz_status": "varchar(30)",
    "comment": "text",
    "create_time": "datetime(3)",
    "update_time": "datetime(3)",
    "dispatch_time": "datetime(3)",
    "decision_time": "datetime(3)",
    "finish_time": "datetime",
}
ORDERS = {
    "database": "shop",
    "table": "order_info",
    "primary_key": ["order_id"],
    "cut_column": "update_time",
    "columns_of_interest": ["user_id", "biz_status", "amount"],
    "columns": COLUMNS,
}
PROFILES = {
    "database": "app",
    "table": "user_profile",
    "primary_key": ["user_id"],
    "cut_column": "updated_at",
    "aliases": {"user_id": "_id"},
    "columns": {
        "user_id": "char(24)",
        "name": "varchar(80)",
        "email": "varchar(120)",
        "status": "varchar(20)",
        "level": "int",
        "balance": "decimal(12,2)",
        "created_at": "timestamp(3)",
        "updated_at": "timestamp(3)",
    },
}
TEXTS = "map<string, string>"
PROFILE = "struct<_id string, name string, email string, status string, level string>"
# how each format's rows stand in its messages
SHAPES = {
    "maxwell": f"struct<database string, `table` string, type string, data {ROW}, old {ROW}>",
    "canal": f"struct<database string, type string, data array<{TEXTS}>, old array<{TEXTS}>>",
    "debezium": f"struct<op string, source {TEXTS}, before {TEXTS}, after {TEXTS}>",
    "mongodb": f"struct<operationType string, fullDocument {PROFILE}, updateDescription string>",
}


def maxwell_lines(folder: Path, rows: int) -> Iterator[str]:
    generate(folder, rows=rows)
    for path in sorted(folder.rglob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            yield from (line.rstrip("\n") for line in file)


def canal_line(row: dict[str, Any]) -> str:
    """A Maxwell row as Canal writes it: all values as text."""

    def texts(values: dict[str, Any]) -> dict[str, str | None]:
        return {name: None if value is None else str(value) for name, value in values.items()}

    message = {
        "data": [texts(row["data"])],
        "database": row["database"],
        "es": row["ts"] * 1000,
        "id": 1,
        "isDdl": False,
        "mysqlType": COLUMNS,
        "old": [texts(row["old"])] if row["type"] == "update" else None,
        "pkNames": ["order_id"],
        "sql": "",
        "table": row["table"],
        "ts": row["ts"] * 1000 + 200,
        "type": row["type"].upper(),
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def debezium_line(row: dict[str, Any]) -> str:
    """A Maxwell row as Debezium writes it, with decimal.handling.mode=string."""

    def encoded(values: dict[str, Any]) -> dict[str, Any]:
        found = dict(values)
        for name, kind in COLUMNS.items():
            if found.get(name) is not None and kind.startswith("datetime"):
                wall = datetime.fromisoformat(found[name]).replace(tzinfo=UTC)
                found[name] = round(wall.timestamp() * 1000)
        if found.get("amount") is not None:
            found["amount"] = str(found["amount"])
        return found

    file, _, position = row["position"].partition(":")
    op = {"insert": "c", "update": "u", "delete": "d"}[row["type"]]
    source = {
        "version": "3.5.0.Final",
        "connector": "mysql",
        "name": "shop",
        "ts_ms": row["ts"] * 1000,
        "snapshot": "false",
        "db": row["database"],
        "table": row["table"],
        "server_id": 1,
        "file": file,
        "pos": int(position),
        "row": row.get("xoffset", 0),
    }
    before = row["data"] | row.get("old", {})
    message = {
        "before": None if op == "c" else encoded(before),
        "after": None if op == "d" else encoded(row["data"]),
        "source": source,
        "op": op,
        "ts_ms": row["ts"] * 1000 + 200,
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def messages_of(name: str, maxwell: Path, rows: int) -> Iterator[str]:
    """The lines of a format, made from Maxwell's file (one line a change)."""
    if name == "mongodb":
        from benchmarks.generate_mongodb import lines

        sample = [one.decode() for one in lines()]
        yield from (sample[number % len(sample)] for number in range(rows))
        return
    convert = {"canal": canal_line, "debezium": debezium_line}.get(name)
    with gzip.open(maxwell, "rt", encoding="utf-8") as file:
        for line in file:
            # decimals stay texts: a float would lose digits
            yield convert(json.loads(line, parse_float=str)) if convert else line.rstrip("\n")


def write_raw(spark: SparkSession, lines: Iterable[str], topic: str, path: Path) -> int:
    """The lines as raw messages in Parquet files; returns how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.mkdir(parents=True)
    batch: list[str] = []
    total = 0

    def flush() -> None:
        nonlocal total
        count = len(batch)
        table = pa.table(
            {
                "batch_id": pa.array(["live"] * count),
                "topic": pa.array([topic] * count),
                "partition_number": pa.array([0] * count, pa.int32()),
                "message_offset": pa.array(range(total, total + count), pa.int64()),
                "run_offset": pa.array([0] * count, pa.int64()),
                "message_key": pa.array([None] * count, pa.binary()),
                "payload": pa.array([one.encode() for one in batch], pa.binary()),
                "cut_reason": pa.array([None] * count, pa.string()),
            }
        )
        pq.write_table(table, path / f"{total:010d}.parquet")
        total += count
        batch.clear()

    for line in lines:
        batch.append(line)
        if len(batch) == 25_000:
            flush()
    if batch:
        flush()
    return total


def seconds_of(job: Callable[[], DataFrame]) -> float:
    """The shorter time of two runs that write nothing."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        job().write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(spark: SparkSession, name: str, raw: Path, folder: Path) -> dict[str, float]:
    """Seconds of the three jobs of a format."""
    from pyspark.sql import functions as F

    from python_udfs.deserialize.envelope import FORMATS, with_envelope
    from python_udfs.deserialize.table_source import table_source
    from python_udfs.ods import BusinessDay, typed_rows

    meta = PROFILES if name == "mongodb" else ORDERS
    options = {"debezium": {"options": {"decimal.handling.mode": "string"}}}.get(name, {})
    declared = table_source("bench", meta | {"format": name} | options)
    day = BusinessDay(declared, "+08:00", 24)

    def payload() -> Column:
        return F.col("payload").cast("string")

    def messages() -> DataFrame:
        return spark.read.parquet(str(raw))

    bare = seconds_of(lambda: messages().select(F.from_json(payload(), SHAPES[name]).alias("row")))
    envelope = seconds_of(lambda: with_envelope(messages(), name))
    binlog = str(folder / f"{name}.binlog")
    with_envelope(messages(), name).withColumn("load_id", F.lit("x")).write.parquet(binlog)
    refused = spark.read.parquet(binlog).where("reject_reason is not null").count()
    rows = spark.read.parquet(binlog).where(
        (F.col("table_name") == declared.table) & F.col("op").isin("insert", "update", "delete")
    )
    module = FORMATS[name]
    typed_refused = (
        typed_rows(module.images(rows, declared), declared, day)
        .where("reject_reason is not null")
        .count()
    )
    typed = seconds_of(lambda: typed_rows(module.images(rows, declared), declared, day))
    return {
        "bare": bare,
        "envelope": envelope,
        "typed": typed,
        "refused": refused + typed_refused,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--formats", nargs="*", default=list(SHAPES))
    arguments = parser.parse_args()
    folder = SCRATCH / "formats"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"writing {arguments.rows:,} changes ...", flush=True)
    maxwell = folder / "maxwell.jsonl.gz"
    with gzip.open(maxwell, "wt", encoding="utf-8", compresslevel=1) as file:
        for line in maxwell_lines(folder / "landing", arguments.rows):
            file.write(line + "\n")
    spark = session(folder / "warehouse")
    print("| format | messages | bare rows/s | envelope | typed | refused |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in arguments.formats:
        raw = folder / f"{name}.raw"
        count = write_raw(spark, messages_of(name, maxwell, arguments.rows), name, raw)
        found = measure(spark, name, raw, folder)
        ratios = [found["bare"] / found[job] for job in ("envelope", "typed")]
        print(
            f"| {name} | {count:,} | {count / found['bare']:,.0f} | {ratios[0]:.2f} | "
            f"{ratios[1]:.2f} | {found['refused']:,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
