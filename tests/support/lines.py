"""Maxwell's lines for the tests, and the way they take: raw bytes -> envelope -> typed rows."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.formats.registry import FORMATS, with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.landing.spark import RAW_SCHEMA
from python_udfs.ingestion.tables.source import TableSource
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.rows import typed_rows

ROOT = Path(__file__).parents[2]
LANDED = sorted((ROOT / "landing" / "topics" / "maxwell" / "partition=0").iterdir())
ROW_IMAGES = ROOT / "tests" / "fixtures" / "rowimage" / "maxwell.jsonl.gz"
ZONE = "+08:00"
TS = 1772416800  # 2026-03-02 02:00:00 UTC, 10:00:00 in ZONE

# JSON text of each field: so that a test decides how a value is written, not json.dumps
HEAD = {
    "database": '"shop"',
    "table": '"o"',
    "type": '"insert"',
    "ts": str(TS),
    "xid": "7",
    "xoffset": "0",
    "position": '"bin.000007:9580"',
    "data": '{"id":1}',
}


def json_object(fields: dict[str, str | None]) -> str:
    """An object of JSON texts; a field of None is left out."""
    return "{" + ",".join(f'"{k}":{v}' for k, v in fields.items() if v is not None) + "}"


def line(**fields: str | None) -> str:
    """A Maxwell message: HEAD with these fields set, or left out where None."""
    return json_object(HEAD | fields)


def numbered(lines: Iterable[str]) -> list[str]:
    """The lines of `line`, each at a binlog position of its own, from 1000 in steps of 10."""
    return [
        line.replace("bin.000007:9580", f"bin.000007:{1000 + 10 * number}")
        for number, line in enumerate(lines)
    ]


def raw_lines(path: Path) -> list[bytes]:
    """The lines of a packed file."""
    with gzip.open(path, "rb") as stream:
        return [item.rstrip(b"\n") for item in stream]


def raw_messages(spark: SparkSession, payloads: Sequence[bytes | str | None]) -> DataFrame:
    """The payloads as `read_messages` gives them: topic t, partition 3, offsets from 100."""
    rows = [
        (
            LIVE,
            "t",
            3,
            100 + i,
            100,
            None,
            payload.encode() if isinstance(payload, str) else payload,
            None,
        )
        for i, payload in enumerate(payloads)
    ]
    return spark.createDataFrame(rows, RAW_SCHEMA)


def envelopes(
    spark: SparkSession, payloads: Sequence[bytes | str | None], format_name: str = "maxwell"
) -> list[Row]:
    """Rows of ods_binlog, in the order of the payloads."""
    rows = with_envelope(raw_messages(spark, payloads), format_name).collect()
    assert [row.message_offset for row in rows] == list(range(100, 100 + len(payloads)))
    return rows


def source(columns: dict[str, str], **more: Any) -> TableSource:
    """Declaration of shop.o, with key `id` unless stated otherwise."""
    meta = {"database": "shop", "table": "o", "primary_key": ["id"], "columns": columns}
    return table_source("ods_shop__o", meta | more)


def typed_frame(
    spark: SparkSession,
    payloads: Sequence[bytes | str],
    declared: TableSource,
    zone: str = ZONE,
) -> DataFrame:
    """Rows of the typed ODS model, repeats not taken out.

    A checkpoint stands for the table ods_binlog: without it Spark would push the filter into the
    envelope's expressions, and parse each message dozens of times.
    """
    binlog = with_envelope(raw_messages(spark, payloads), declared.format).localCheckpoint(
        eager=False
    )
    mine = binlog.where(
        (F.col("database_name") == declared.database)
        & (F.col("table_name") == declared.table)
        & F.col("op").isin("insert", "update", "delete")
        & F.col("reject_reason").isNull()
    ).withColumn("load_id", F.lit("load"))
    images = FORMATS[declared.format].images(mine, declared)
    return typed_rows(images, declared, BusinessDay(declared, zone, 24))


def typed(
    spark: SparkSession,
    payloads: Sequence[bytes | str],
    declared: TableSource,
    zone: str = ZONE,
) -> list[Row]:
    """`typed_frame` as rows in the order of the payloads."""
    return sorted(
        typed_frame(spark, payloads, declared, zone).collect(),
        key=lambda row: (row.message_offset, row.row_number or 0),
    )
