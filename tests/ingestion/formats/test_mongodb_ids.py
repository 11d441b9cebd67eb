"""Ids of MongoDB that differ in their type alone: two documents, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.formats.mongodb import images
from python_udfs.ingestion.formats.mongodb.values import (
    LIKE_A_DOUBLE,
    LIKE_A_NUMBER,
    LIKE_A_TIME,
    LIKE_AN_INSTANT,
    LIKE_OTHER_BYTES,
    ROUNDED_ID,
)
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.landing.spark import RAW_SCHEMA
from tests.support.lines import source

pytestmark = pytest.mark.in_turn

T = 1772416800  # 2026-03-02 02:00:00 UTC
TOKEN = "2B042C0100296E5A10044489A1E91A724ECA87AAFA40773D05C046"


def reasons(spark: SparkSession, kind: str, ids: list[Any]) -> list[str | None]:
    """Of deletes of these ids, where the column of the id is of a type: why each is refused."""
    rows = []
    for place, value in enumerate(ids, 1):
        event = {
            "_id": {"_data": f"82{T:08X}{place:08X}{TOKEN}{place:02X}04"},
            "operationType": "delete",
            "clusterTime": {"$timestamp": {"t": T, "i": place}},
            "ns": {"db": "shop", "coll": "o"},
            "documentKey": {"_id": value},
        }
        rows.append((LIVE, "t", 0, place, 0, None, json.dumps(event).encode(), None))
    raw = spark.createDataFrame(rows, RAW_SCHEMA)
    table = source({"id": kind, "n": "int"}, format="mongodb", aliases={"id": "_id"})
    found = images(with_envelope(raw, "mongodb").localCheckpoint(eager=False), table)
    kept = found.select("message_offset", "image_reason").collect()
    return [row.image_reason for row in sorted(kept, key=lambda row: row.message_offset)]


def of_bytes(base64: str, subtype: str = "00") -> dict[str, Any]:
    return {"$binary": {"base64": base64, "subType": subtype}}


INSTANT = {"$date": "2026-03-01T16:00:00Z"}
UUID = {"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}
UUID_BYTES = "ABEiM0RVZneImaq7zN3u/w=="
# type of the column -> ids, and why each is refused
IDS: dict[str, list[tuple[Any, str | None]]] = {
    "bigint": [
        (1, None),
        (True, LIKE_A_NUMBER),
        ({"$numberDouble": "1.0"}, None),
        (False, LIKE_A_NUMBER),
        ({"$numberDecimal": "1.0"}, None),
        ("1", "is no bigint"),
    ],
    "varchar(60)": [
        (0.1, None),
        ({"$numberDecimal": "0.1"}, LIKE_A_DOUBLE),
        ({"$numberDecimal": "5"}, None),
        ({"$numberLong": "5"}, None),
    ],
    "decimal(12,2)": [
        (0.1, None),
        ({"$numberDecimal": "0.1"}, LIKE_A_DOUBLE),
        ({"$numberDecimal": "5.0"}, None),
    ],
    "double": [
        (0.1, None),
        (2**53 - 1, None),
        (2**53 + 1, ROUNDED_ID),
        ({"$numberDecimal": "0.1"}, LIKE_A_DOUBLE),
    ],
    "float": [(0.5, None), (0.1, ROUNDED_ID), (2**24, None), (2**24 + 1, ROUNDED_ID)],
    "timestamp(3)": [
        (INSTANT, None),
        ("2026-03-01T16:00:00Z", LIKE_AN_INSTANT),
        ("2026-03-02T00:00:00+08:00", LIKE_AN_INSTANT),
        ("2026-03-01 16:00:00", LIKE_AN_INSTANT),
    ],
    "date": [({"$date": "2026-03-01T00:00:00Z"}, None), ("2026-03-01", LIKE_AN_INSTANT)],
    "datetime(3)": [
        ("2026-03-01 16:00:00", None),
        ("2026-03-01 16:00:00.5", None),
        ("2026-03-01 16:00:00.50", LIKE_A_TIME),
        ("2026-03-01", LIKE_A_TIME),
    ],
    "varbinary(20)": [
        (UUID, None),
        (of_bytes(UUID_BYTES, "04"), None),
        (of_bytes(UUID_BYTES), LIKE_OTHER_BYTES),
        (of_bytes(UUID_BYTES, "03"), LIKE_OTHER_BYTES),
        (of_bytes("AQID"), None),
        (of_bytes("AQID", "05"), LIKE_OTHER_BYTES),
        ({"$binary": "AQID", "$type": "00"}, None),
        ({"$binary": "AQID", "$type": "80"}, LIKE_OTHER_BYTES),
    ],
    "json": [
        *((1, None), ("1", None), (True, None), (INSTANT, None), (UUID, None)),
        *((of_bytes("AQID", "05"), None), ({"$numberDecimal": "0.1"}, None)),
    ],
}


@pytest.mark.parametrize("kind", IDS)
def test_an_id_that_may_be_another_is_refused(spark: SparkSession, kind: str) -> None:
    found = reasons(spark, kind, [value for value, _ in IDS[kind]])

    for reason, (value, wanted) in zip(found, IDS[kind], strict=True):
        assert (reason is None) == (wanted is None), (value, reason)
        assert wanted is None or reason is None or reason.endswith(wanted), (value, reason)
