"""The decoding of each log format beside a bare from_json of the same lines.

The same changes of shop.order_info are written as Maxwell, Canal and Debezium write them; MongoDB's
are of its own collection. Each format has a warehouse and processes of its own.

Decode alone, nothing is written (`noop`). Both sides read the messages out of ods_binlog:

    bare      from_json into structs of the columns, both images, and casts to their types
    envelope  what ods_binlog adds to a raw message
    typed     what the typed model makes of its messages: images, typed, each value checked, by
              Spark alone
    workers   the same, decoded by Python workers where the format is theirs, and handed back
    in place  what workers do that write the files too, but for writing: they read the messages at
              their places in the log's files and decode them

These take turns, the first turn is left out, and the median of the others counts. They are given in
rows per core-second: seconds of CPU that Spark's process and its workers took, which a busy machine
moves less than the clock.

With their writes, by the clock: `dbt run` of ods_binlog and of the typed model, and a bare job
that reads the landed files, does what `bare` does and writes an Iceberg table. Each is the first
work of its process.

    python -m benchmarks.bench_formats --rows 400000
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import (
    ROOT,
    SCRATCH,
    processor_seconds_of,
    run_dbt,
    run_module,
    session,
)
from benchmarks.generate_maxwell import generate
from benchmarks.generate_mongodb import lines as mongodb_lines
from python_udfs.ingestion.declared.table_settings import table_settings
from python_udfs.ingestion.formats.maxwell import LAST_ROW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay

FOLDER = SCRATCH / "formats"
ORDERS, PROFILES = "ods_shop__order_info", "ods_app__user_profile"
TYPED = {"maxwell": ORDERS, "canal": ORDERS, "debezium": ORDERS, "mongodb": PROFILES}
TOPICS = {"maxwell": "maxwell", "canal": "canal", "debezium": "debezium", "mongodb": "mongo_app"}
# what the generator's orders hold: column -> its type in MySQL, and in the bare job
COLUMNS = {
    "order_id": ("bigint unsigned", "decimal(20,0)"),
    "user_id": ("bigint unsigned", "decimal(20,0)"),
    "product_type": ("varchar(20)", "string"),
    "plat_name": ("varchar(40)", "string"),
    "ref_id": ("bigint", "bigint"),
    "amount": ("decimal(12,2)", "decimal(12,2)"),
    "order_status": ("bigint", "bigint"),
    "biz_status": ("varchar(30)", "string"),
    "comment": ("text", "string"),
    "create_time": ("datetime(3)", "timestamp_ntz"),
    "update_time": ("datetime(3)", "timestamp_ntz"),
    "dispatch_time": ("datetime(3)", "timestamp_ntz"),
    "decision_time": ("datetime(3)", "timestamp_ntz"),
    "finish_time": ("datetime", "timestamp_ntz"),
}
TURNS = 4  # the first one warms up
# an event of MongoDB is decoded several times as slowly: fewer of them measure as well
MONGODB_SHARE = 4

Row = dict[str, Any]


def canal_line(row: Row) -> str:
    """A Maxwell row (decimals as texts) as Canal writes it: a message of one row, all texts."""

    def texts(values: Row) -> dict[str, str | None]:
        return {name: None if value is None else str(value) for name, value in values.items()}

    message = {
        "data": [texts(row["data"])],
        "database": row["database"],
        "es": row["ts"] * 1000,
        "id": row["xid"],
        "isDdl": False,
        "mysqlType": {name: kind for name, (kind, _) in COLUMNS.items()},
        "old": [texts(row["old"])] if row["type"] == "update" else None,
        "pkNames": ["order_id"],
        "sql": "",
        "table": row["table"],
        "ts": row["ts"] * 1000 + 200,
        "type": row["type"].upper(),
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def debezium_line(row: Row) -> str:
    """A Maxwell row (decimals as texts) as Debezium writes it by its defaults, without schema."""

    def encoded(values: Row) -> Row:
        found = dict(values)
        for name, (kind, _) in COLUMNS.items():
            if found[name] is None:
                continue
            if kind.startswith("datetime"):
                wall = datetime.fromisoformat(found[name]).replace(tzinfo=UTC)
                found[name] = round(wall.timestamp() * 1000)
            elif kind.startswith("decimal"):
                unscaled = int(Decimal(found[name]).scaleb(2))
                size = unscaled.bit_length() // 8 + 1
                found[name] = base64.b64encode(unscaled.to_bytes(size, signed=True)).decode()
        return found

    file, _, position = row["position"].partition(":")
    # the last row of a transaction has no xoffset; it may share its position with others
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
        "row": row.get("xoffset", LAST_ROW),
    }
    op = {"insert": "c", "update": "u", "delete": "d"}[row["type"]]
    before = row["data"] | row.get("old", {})
    message = {
        "before": None if op == "c" else encoded(before),
        "after": None if op == "d" else encoded(row["data"]),
        "source": source,
        "op": op,
        "ts_ms": row["ts"] * 1000 + 200,
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def write_log(name: str, landing: Path, rows: int) -> tuple[int, int]:
    """Land a log of the format; returns its messages and their bytes."""
    topic = TOPICS[name]
    if name == "mongodb":
        file = landing / "topics" / topic / "partition=0" / f"{topic}+0+0000000000.jsonl"
        file.parent.mkdir(parents=True)
        changes = rows // MONGODB_SHARE
        # a minute apart at most: a model has a file for each day that it writes
        events = mongodb_lines(users=2000, changes=changes, longest_gap_ms=60_000)
        content = b"".join(event + b"\n" for event in events)
        file.write_bytes(content)
        return content.count(b"\n"), len(content)
    if name == "maxwell":
        made = generate(landing, rows)
        return made.rows, made.size
    convert = {"canal": canal_line, "debezium": debezium_line}[name]
    plain = landing / "plain"
    # Canal has no position: what came first is known within a partition only
    generate(plain, rows, partitions=1 if name == "canal" else 4)
    messages = size = 0
    for path in sorted((plain / "topics" / "maxwell").rglob("*.jsonl")):
        file = landing / "topics" / topic / path.parent.name / path.name.replace("maxwell", topic)
        file.parent.mkdir(parents=True, exist_ok=True)
        with path.open(encoding="utf-8", newline="\n") as log:
            # a decimal stays text: a float would lose digits
            made = [convert(json.loads(line, parse_float=str)) + "\n" for line in log]
        file.write_text("".join(made), encoding="utf-8", newline="\n")
        messages, size = messages + len(made), size + file.stat().st_size
    shutil.rmtree(plain)
    return messages, size


def bare(lines: DataFrame, name: str) -> DataFrame:
    """What a plain job makes of the lines: `op` and both images in their types. No check.

    Args:
        lines: with the column `payload`, text.
    """
    from pyspark.sql import functions as F

    def parsed(schema: str) -> DataFrame:
        return lines.select(F.from_json("payload", schema).alias("row")).select("row.*")

    def row_of(kinds: dict[str, str]) -> str:
        return f"struct<{', '.join(f'{item} {kind}' for item, kind in kinds.items())}>"

    def cast(image: str, value: Callable[[Column, str], Column]) -> Column:
        values = [
            value(F.col(image)[column], kind).alias(column) for column, (_, kind) in COLUMNS.items()
        ]
        return F.when(F.col(image).isNotNull(), F.struct(*values)).alias(image)

    if name == "maxwell":
        row = row_of({column: kind for column, (_, kind) in COLUMNS.items()})
        return parsed(f"struct<type string, data {row}, old {row}>")
    if name == "canal":
        row = row_of(dict.fromkeys(COLUMNS, "string"))
        frame = parsed(f"struct<type string, data array<{row}>, old array<{row}>>")
        rows = frame.select("type", "old", F.posexplode("data").alias("place", "data"))
        rows = rows.withColumn("old", F.get("old", F.col("place")))
        casts = [cast(item, lambda raw, kind: raw.try_cast(kind)) for item in ("data", "old")]
        return rows.select("type", *casts)
    if name == "debezium":
        raw_kinds = {"timestamp_ntz": "bigint", "decimal(12,2)": "binary"}
        row = row_of({column: raw_kinds.get(kind, kind) for column, (_, kind) in COLUMNS.items()})

        def value(raw: Column, kind: str) -> Column:
            if kind == "timestamp_ntz":
                return F.timestamp_millis(raw)
            if kind == "decimal(12,2)":  # right for what isn't negative
                return (F.conv(F.hex(raw), 16, 10).cast("decimal(14,0)") / 100).cast(kind)
            return raw

        frame = parsed(f"struct<op string, before {row}, after {row}>")
        return frame.select("op", cast("before", value), cast("after", value))
    document = (
        "struct<_id struct<`$oid` string>, name string, email string, status string, level int, "
        "balance struct<`$numberDecimal` decimal(12,2)>, address struct<city string>, "
        "created_at struct<`$date` timestamp>, updated_at struct<`$date` timestamp>>"
    )
    return parsed(
        f"struct<operationType string, documentKey struct<_id struct<`$oid` string>>, "
        f"fullDocument {document}, fullDocumentBeforeChange {document}, updateDescription string>"
    )


def settings_of_project() -> dict[str, str]:
    """Settings of the profile, and of a typed model's run, that Spark's defaults differ from."""
    import yaml

    profile = yaml.safe_load((ROOT / "profiles" / "profiles.yml").read_text(encoding="utf-8"))
    given = profile["binlog_warehouse"]["outputs"]["local"]["server_side_parameters"]
    return {
        "spark.sql.codegen.hugeMethodLimit": given["spark.sql.codegen.hugeMethodLimit"],
        "spark.sql.constraintPropagation.enabled": "false",  # see table_changes
    }


def decode_jobs(spark: SparkSession, name: str, meta: dict[str, Any]) -> dict[str, Callable]:
    """The jobs that take turns: name -> maker of what it computes from ods_binlog.

    Args:
        meta: config meta of the typed model.
    """
    from pyspark.sql import functions as F

    from python_udfs.ingestion.declared.table_source import table_source
    from python_udfs.ingestion.fast.settings import WorkerSettings
    from python_udfs.ingestion.fast.workers import FORMATS as WORKERS_FORMATS
    from python_udfs.ingestion.formats.envelope import ROW_OPS
    from python_udfs.ingestion.formats.registry import with_envelope
    from python_udfs.ingestion.landing.spark import RAW_SCHEMA
    from python_udfs.ingestion.log.names import columns_without_message, has_all_columns
    from python_udfs.ingestion.typed.business_date import BusinessDay
    from python_udfs.ingestion.typed.proven import InWorkers
    from python_udfs.ingestion.typed.rows import decoded

    declared = table_source(TYPED[name], meta["source"])
    day = BusinessDay(declared, meta["business_zone"], int(meta["cut_time_max_ahead_hours"]))
    binlog = spark.table("dw.ods_binlog")
    raw = [
        F.col(column).cast(kind).alias(column)
        for column, kind in (part.split() for part in RAW_SCHEMA.split(", "))
    ]
    changes = binlog.where(
        (F.col("table_name") == declared.table)
        & F.col("op").isin(*ROW_OPS)
        & F.col("reject_reason").isNull()
    )
    if has_all_columns(name):
        # table_changes looks this up for the columns that its few sampled messages lack
        _, unnamed = columns_without_message(changes, declared, declared.columns)
        declared = replace(declared, unnamed=frozenset(unnamed))
    is_theirs = name in WORKERS_FORMATS
    return {
        "bare": lambda: bare(binlog.select("payload"), name),
        "envelope": lambda: with_envelope(binlog.select(*raw), name),
        "typed": lambda: decoded(changes, declared, day),
        "workers": lambda: InWorkers(WorkerSettings(0, 1000)).decoded(0, changes, declared, day),
        "in_place": lambda: (decoded_in_place if is_theirs else decoded)(changes, declared, day),
    }


def decoded_in_place(changes: DataFrame, source: TableSource, day: BusinessDay) -> DataFrame:
    """How many messages the workers prove, each task by itself."""
    import pyarrow as pa

    from python_udfs.ingestion.fast.log_places import with_lines
    from python_udfs.ingestion.fast.workers import FORMATS, TaskDecoder, layout_of

    layout = layout_of(changes.sparkSession, source, day.zone, day.max_ahead_hours)
    lines, decode = with_lines(changes), FORMATS[source.format].decode
    read = lines.read

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder, found = TaskDecoder(partial(decode, layout)), 0
        for batch in read(batches):
            sent = (batch[name] for name in ("payload", "op", "event_time"))
            found += len(decoder.decoded(len(batch), *sent)[0])
        yield pa.RecordBatch.from_pydict({"proven": [found]})

    return lines.frame.mapInArrow(count, "proven long")


def measure(name: str, warehouse: Path, landing: Path, meta: dict[str, Any]) -> dict[str, float]:
    """Seconds of the bare job with its write, by the clock; core-seconds of each decode job."""
    from pyspark.sql import functions as F

    plain = session(warehouse / "bare")
    plain.sql("create schema if not exists dw")
    begin = time.perf_counter()
    lines = plain.read.text(str(landing / "topics" / "*" / "*" / "*.jsonl"))
    bare(lines.select(F.col("value").alias("payload")), name).writeTo("dw.rows").createOrReplace()
    found = {"bare_write": time.perf_counter() - begin}
    spark = session(warehouse)
    defaults = {key: spark.conf.get(key) for key in settings_of_project()}
    times: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for job, frame in decode_jobs(spark, name, meta).items():
            for key, value in (defaults if job == "bare" else settings_of_project()).items():
                spark.conf.set(key, value)
            begun = processor_seconds_of(os.getpid())
            frame().write.format("noop").mode("overwrite").save()
            times.setdefault(job, []).append(processor_seconds_of(os.getpid()) - begun)
    return found | {job: statistics.median(some[1:]) for job, some in times.items()}


def check(warehouse: Path, table: str, messages: int) -> None:
    """End the benchmark where a message or change was lost or refused: it measured other work."""
    spark = session(warehouse)
    for name in ("ods_binlog", table):
        counts = "count(*) as all_rows, count(reject_reason) as refused"
        all_rows, refused = spark.sql(f"select {counts} from dw.{name}").first()
        # MongoDB's log begins with two statements
        if refused or not messages - 2 <= all_rows <= messages:
            sys.exit(f"bench: {name} has {all_rows} of {messages} rows, {refused} were refused")


def results(name: str, rows: int) -> dict[str, float]:
    """All figures of a format: seconds of each job, `messages` and `size` in bytes."""
    landing, warehouse = FOLDER / name / "landing", FOLDER / name / "warehouse"
    messages, size = write_log(name, landing, rows)
    topics = [f"{TOPICS[name]}*"]
    shop = {} if name == "mongodb" else {"shop_format": name, "shop_topics": topics}
    dbt = run_dbt(landing, warehouse, f"ods_binlog {TYPED[name]}", shop)
    manifest = json.loads((SCRATCH / "dbt_target" / "manifest.json").read_text())
    own, of_log = (
        manifest["nodes"][f"model.binlog_warehouse.{item}"]["config"]["meta"]
        for item in (TYPED[name], "ods_binlog")
    )
    meta = own | table_settings(own, of_log)
    asked = json.dumps([name, str(warehouse), str(landing), meta, messages])
    measured = run_module("bench_formats", "--measure", asked)
    found = json.loads(measured.output.splitlines()[-1])
    written = {"ods_binlog": dbt["ods_binlog"], "model": dbt[TYPED[name]]}
    return found | written | {"messages": messages, "size": size}


def table_row(name: str, found: dict[str, float]) -> str:
    """A line of the table: rates of the bare sides, and of the others their share of these."""
    messages, plain, write = found["messages"], found["bare"], found["bare_write"]
    both = found["envelope"] + found["workers"]
    shares = [plain / found[job] for job in ("envelope", "typed", "workers", "in_place")]
    shares.append(plain / both)
    written = [write / found[name] for name in ("ods_binlog", "model")]
    cells = [
        name,
        f"{messages:,.0f}",
        f"{found['size'] / messages:.0f}",
        f"{messages / plain:,.0f}",
        *[f"{share:.2f}" for share in shares],
        f"{messages / write:,.0f}",
        *[f"{messages / found[name]:,.0f}" for name in ("ods_binlog", "model")],
        *[f"{share:.2f}" for share in written],
    ]
    return f"| {' | '.join(cells)} |"


HEAD = (
    "format",
    "messages",
    "bytes each",
    "bare, rows a core-second",
    "envelope, of bare",
    "typed by Spark, of bare",
    "by workers, of bare",
    "by workers in place, of bare",
    "envelope and workers, of bare",
    "bare job with write, rows/s",
    "ods_binlog, rows/s",
    "typed model, rows/s",
    "ods_binlog, of the bare job",
    "typed model, of the bare job",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--formats", nargs="*", default=list(TYPED), choices=list(TYPED))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, warehouse, landing, meta, messages = json.loads(options.measure)
        # measured first: the bare job has to be the process's first work, as dbt's models are
        found = measure(name, Path(warehouse), Path(landing), meta)
        check(Path(warehouse), TYPED[name], messages)
        print(json.dumps(found))
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for name in options.formats:
        lines.append(table_row(name, results(name, options.rows)))
        print(f"\n{lines[-1]}\n", flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
