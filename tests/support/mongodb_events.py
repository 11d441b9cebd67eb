"""Change events of MongoDB, as change streams and Debezium write them."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.landing.spark import RAW_SCHEMA
from python_udfs.ingestion.tables.source import TableSource
from tests.support.lines import source

T = 1772416800  # 2026-03-02 02:00:00 UTC
UUID_BYTES = "5A1004448A9E1A91724ECA875AAFA40773D05C"
COLUMNS = {
    "id": "varchar(40)",
    "status": "varchar(20)",
    "amount": "decimal(12,2)",
    "n": "bigint",
    "ratio": "double",
    "paid": "tinyint",
    "at": "timestamp(3)",
    "city": "varchar(20)",
    "tags": "json",
    "raw": "varbinary(20)",
}
META = {"aliases": {"id": "_id", "city": ["address.city", "town"]}, "format": "mongodb"}


def declared(
    columns: dict[str, str] | None = None, full_document: str = "lookup", **more: Any
) -> TableSource:
    options = {"options": {"full_document": full_document}}
    return source(columns or COLUMNS, **(META | options | more))


def token(t: int = T, i: int = 1, place: int = 0, key: str = "00", version: int = 2) -> str:
    """A resume token as the server builds it: a KeyString in hex."""
    number = "29"
    if place:
        size = 1 if place < 2**7 else 2 if place < 2**15 else 3
        number = f"{0x2A + size:02X}{place * 2:0{2 * size}X}"
    head = f"82{t:08X}{i:08X}" + ("29" if version == 0 else f"2B{2 * version:02X}2C0100")
    return head + number + ("" if version == 0 else "6E") + UUID_BYTES + "46" + key + "04"


def stream(kind: str = "insert", **fields: Any) -> dict[str, Any]:
    """A change event, of document 1 unless reported otherwise."""
    event = {
        "_id": {"_data": token()},
        "operationType": kind,
        "clusterTime": {"$timestamp": {"t": T, "i": 1}},
        "wallTime": {"$date": "2026-03-02T02:00:00.123Z"},
        "ns": {"db": "shop", "coll": "o"},
        "documentKey": {"_id": 1},
    }
    return {name: field for name, field in (event | fields).items() if field is not ...}


def debezium(op: str = "c", **fields: Any) -> dict[str, Any]:
    """Debezium's message; documents become text, as it writes them."""
    origin = {"db": "shop", "collection": "o", "ts_ms": T * 1000, "ord": 1}
    message = {"op": op, "source": origin, "ts_ms": T * 1000 + 900} | fields
    for name in ("after", "before"):
        if isinstance(message.get(name), dict):
            message[name] = json.dumps(message[name])
    patch = message.get("updateDescription")
    if patch and isinstance(patch.get("updatedFields"), dict):
        patch = patch | {"updatedFields": json.dumps(patch["updatedFields"])}
        message["updateDescription"] = patch
    return message


def key(document_id: Any = 1) -> str:
    """Debezium's message key: the _id as JSON text."""
    return json.dumps({"id": json.dumps(document_id)})


Message = dict[str, Any] | str | tuple[dict[str, Any] | str, str | None]


def enveloped(spark: SparkSession, messages: list[Message]) -> DataFrame:
    """The messages, or (message, message key), as rows of ods_binlog."""
    rows = []
    for offset, message in enumerate(messages):
        value, name = message if isinstance(message, tuple) else (message, None)
        text = value if isinstance(value, str) else json.dumps(value)
        as_bytes = name.encode() if name is not None else None
        rows.append((LIVE, "t", 0, offset, 0, as_bytes, text.encode(), None))
    raw = spark.createDataFrame(rows, RAW_SCHEMA)
    return with_envelope(raw, "mongodb").localCheckpoint(eager=False)
