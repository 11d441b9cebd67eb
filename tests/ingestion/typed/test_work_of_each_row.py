"""Checks that few rows need cost the other rows nothing."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.lines import source, typed_frame
from tests.support.row_work import dear_work

COLUMNS = {
    "id": "bigint unsigned",
    "state": "varchar(9)",
    "note": "text",
    "amount": "decimal(12,2)",
    "at": "datetime(3)",
}
# dear functions of a message that each row pays for
PAID = {
    "maxwell": ["from_json"],
    "canal": ["from_json", "rlike"],
    "debezium": ["from_json"],
    "mongodb": ["from_json"],
    "events": ["from_json"],
}


@pytest.mark.in_turn
@pytest.mark.parametrize("format_name", PAID)
def test_a_row_pays_for_what_each_row_needs(spark: SparkSession, format_name: str) -> None:
    place = {"database": "events", "table": "t"} if format_name == "events" else {}
    declared = source(COLUMNS, format=format_name, **place)

    assert dear_work(typed_frame(spark, [], declared), "payload") == PAID[format_name]


def test_what_stands_twice_is_paid_for_behind_and_too(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as payload", "id > 0 as asked")
    frame = frame.localCheckpoint(eager=False)
    payload, asked = F.col("payload"), F.col("asked")
    search, other = payload.contains("a"), payload.contains("b")
    condition = {
        "once": asked & search,
        "twice": (asked & search) | (~asked & search & other),
        "each in a branch": F.when(asked, search).otherwise(search & other),
        "certain": search & asked,
    }
    found = {name: dear_work(frame.select(item), "payload") for name, item in condition.items()}

    assert found == {
        "once": [],
        "twice": ["contains"],
        "each in a branch": [],
        "certain": ["contains"],
    }
