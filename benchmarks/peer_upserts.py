"""Upserts by key into one kind of table, and reads of it. A child of bench_upserts.

    <python> -m benchmarks.peer_upserts <system> <folder> <jars> --input <folder> --keys 1000000

Needs pyspark 3.5 or newer alone, so that it runs where the project's other requirements don't.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLE = "bench.upserts"
COLUMNS = "id bigint, seq bigint, user_id bigint, status string, amount decimal(12,2), note string"
POINTS, RANGES, RANGE_KEYS, FULL_READS = 20, 20, 1_000, 3
CHECK = "select count(*), sum(seq), sum(amount) from {}"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.defaultCatalog": "lake",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
HUDI = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "hoodie.spark.sql.insert.into.operation": "upsert",  # of two rows that of the higher seq
}
PAIMON = {
    "spark.sql.catalog.lake": "org.apache.paimon.spark.SparkCatalog",
    "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
    "spark.sql.defaultCatalog": "lake",
}
MERGE = (
    f"merge into {TABLE} as t using (select * from batch) as s on t.id = s.id "
    "when matched and s.seq >= t.seq then update set * when not matched then insert *"
)
# where the table itself knows its key and its sequence. MERGE with a condition on the target loses
# rows of Hudi's merge-on-read tables (1.1.1), and doesn't fail
UPSERT = f"insert into {TABLE} select * from batch"


def iceberg_table(mode: str) -> str:
    """As a dbt model of strategy merge would have it, in buckets of its key."""
    modes = ", ".join(f"'write.{item}.mode'='{mode}'" for item in ("merge", "update", "delete"))
    return (
        f"create table {TABLE} ({COLUMNS}) using iceberg partitioned by (bucket(4, id)) "
        f"tblproperties ('format-version'='2', {modes})"
    )


def hudi_table(kind: str) -> str:
    """Merge-on-read compacts every eighth batch, as the folded model does; its own habit is every
    fifth. Without it, 524 logs took more than ten minutes to be read."""
    every = "'hoodie.compact.inline'='true', 'hoodie.compact.inline.max.delta.commits'='8'"
    compaction = f", {every}" if kind == "mor" else ""
    return (
        f"create table {TABLE} ({COLUMNS}) using hudi tblproperties (type='{kind}', "
        "primaryKey='id', preCombineField='seq', 'hoodie.metadata.enable'='true', "
        f"'hoodie.index.type'='BUCKET', 'hoodie.bucket.index.num.buckets'='4'{compaction})"
    )


SYSTEMS: dict[str, dict[str, Any]] = {
    "iceberg_cow": {
        "settings": ICEBERG,
        "create": iceberg_table("copy-on-write"),
        "compact": "call lake.system.rewrite_data_files(table => 'bench.upserts', "
        "options => map('rewrite-all', 'true'))",
    },
    "iceberg_mor": {
        "settings": ICEBERG,
        "create": iceberg_table("merge-on-read"),
        "compact": "call lake.system.rewrite_data_files(table => 'bench.upserts', "
        "options => map('rewrite-all', 'true', 'delete-file-threshold', '1'))",
    },
    "delta": {
        "settings": DELTA,
        "create": f"create table {TABLE} ({COLUMNS}) using delta",
        "compact": f"optimize {TABLE} zorder by (id)",
    },
    "hudi_cow": {"settings": HUDI, "create": hudi_table("cow"), "upsert": UPSERT},
    "hudi_mor": {
        "settings": HUDI,
        "create": hudi_table("mor"),
        "upsert": UPSERT,
        "compact": f"call run_compaction(op => 'scheduleAndExecute', table => '{TABLE}', "
        "options => 'hoodie.compact.inline.max.delta.commits=1')",
    },
    "paimon": {
        "settings": PAIMON,
        "create": f"create table {TABLE} ({COLUMNS}) tblproperties ('primary-key'='id', "
        "'bucket'='4', 'sequence.field'='seq')",
        "upsert": UPSERT,
        "compact": "call lake.sys.compact(table => 'bench.upserts')",
    },
}


def batch_query(batch: int, rows: int, keys: int) -> str:
    """Query of one batch's upserts: each key once, its highest seq."""
    first = batch * rows
    return (
        "select id, max(seq) as seq, max_by(user_id, seq) as user_id, max_by(status, seq) as "
        "status, max_by(amount, seq) as amount, max_by(note, seq) as note from (select "
        f"pmod(xxhash64(seq), {keys}) as id, seq, pmod(xxhash64(seq, 1), 50000) as user_id, "
        "concat('status ', pmod(xxhash64(seq, 2), 9)) as status, "
        "cast(pmod(xxhash64(seq, 3), 100000) / 100 as decimal(12,2)) as amount, "
        "sha2(cast(seq as string), 256) as note "
        f"from (select id as seq from range({first}, {first + rows}))) group by id"
    )


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def reads(spark: Any, table: str, keys: int) -> dict[str, float]:
    """Seconds of a point read, a read of a range of keys, and a read of all rows (the median)."""
    rng = random.Random(1)
    points = [rng.randrange(keys) for _ in range(POINTS + 1)]
    firsts = [rng.randrange(keys - RANGE_KEYS) for _ in range(RANGES + 1)]

    def point(key: int) -> None:
        spark.sql(f"select * from {table} where id = {key}").collect()

    def span(first: int) -> None:
        last = first + RANGE_KEYS - 1
        where = f"id between {first} and {last}"
        spark.sql(f"select count(*), sum(amount) from {table} where {where}").collect()

    def whole() -> None:
        spark.sql(f"select count(*), sum(amount), max(note) from {table}").collect()

    point(points.pop())
    span(firsts.pop())
    whole()
    full = sorted(timed(whole) for _ in range(FULL_READS))
    return {
        "point": sum(timed(lambda key=key: point(key)) for key in points) / POINTS,
        "range": sum(timed(lambda first=first: span(first)) for first in firsts) / RANGES,
        "full": full[len(full) // 2],
    }


def session(settings: dict[str, str], folder: Path, jars: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    own = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.jars": jars}
    if "spark.sql.catalog.lake" in settings:
        own["spark.sql.catalog.lake.warehouse"] = str(folder / "lake")
    for key, value in (SETTINGS | settings | own).items():
        if value:
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def held_query(keys: int) -> str:
    """Query of rows that a table holds before the first batch: each key once."""
    return (
        "select id, -1L as seq, pmod(xxhash64(id, 1), 50000) as user_id, 'held' as status, "
        "cast(pmod(xxhash64(id, 3), 100000) / 100 as decimal(12,2)) as amount, "
        f"sha2(cast(id as string), 256) as note from range(0, {keys})"
    )


def generate(folder: Path, batches: int, rows: int, keys: int) -> None:
    """Write the batches' rows as Parquet, and as `held` rows of all keys from before them."""
    spark = session({}, folder, "")
    for batch in range(batches):
        query = batch_query(batch, rows, keys)
        spark.sql(query).coalesce(2).write.parquet(str(folder / f"{batch:03d}"))
    spark.sql(held_query(keys)).coalesce(4).write.parquet(str(folder / "held"))


def inputs(folder: Path, held: bool) -> list[Path]:
    """The folders that `generate` wrote, in their order."""
    found = sorted(path for path in folder.iterdir() if path.name.isdigit())
    return [folder / "held", *found] if held else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=[*SYSTEMS, "generate"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("jars")
    parser.add_argument("--input", type=Path)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--batches", type=int, default=0)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--held", action="store_true", help="the table holds all keys before")
    given = parser.parse_args()
    if given.system == "generate":
        generate(given.folder, given.batches, given.rows, given.keys)
        return
    system = SYSTEMS[given.system]
    spark = session(system["settings"], given.folder, given.jars)
    spark.sql("create database if not exists bench")
    spark.sql(system["create"])
    seconds = []
    for path in inputs(given.input, given.held):
        spark.read.parquet(str(path)).createOrReplaceTempView("batch")
        upsert = system.get("upsert", MERGE)
        seconds.append(timed(lambda upsert=upsert: spark.sql(upsert).collect()))
        print(f"{given.system}: {path.name}, {seconds[-1]:.1f} s", file=sys.stderr)

    def compact() -> None:
        spark.sql(system["compact"]).collect()

    reported = measured(spark, TABLE, given.keys, seconds, compact if "compact" in system else None)
    print(json.dumps(reported))


def measured(
    spark: Any, table: str, keys: int, seconds: list[float], compact: Callable[[], None] | None
) -> dict[str, Any]:
    """What a child prints: the batches' seconds, reads before and after a compaction, the answer.

    Raises:
        SystemExit: the compaction changed the answer.
    """
    spark.catalog.refreshTable(table)  # some keep what they have listed
    reported: dict[str, Any] = {"seconds": seconds, "check": answer(spark, table)}
    reported["open"] = reads(spark, table, keys)
    if compact is not None:
        reported["compaction"] = timed(compact)
        reported["compacted"] = reads(spark, table, keys)
        again = answer(spark, table)
        if again != reported["check"]:
            sys.exit(f"compaction changed the answer: {reported['check']} -> {again}")
    return reported


def answer(spark: Any, table: str) -> list[str]:
    return list(map(str, spark.sql(CHECK.format(table)).first()))


if __name__ == "__main__":
    main()
