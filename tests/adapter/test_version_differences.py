"""Where two queries of a relation differ: each value as it is, and the columns' types."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from dbt.adapters.sparksession.versions.diff import Differences, compared
from pyspark.sql import SparkSession

ROWS = "select id, {kind}'2026-03-01 10:00:00.000{micros}' as at, {v} as v from range(2)"


def differences(spark: SparkSession) -> Differences:
    warehouse: Any = SimpleNamespace(session=lambda: spark)
    return Differences(warehouse, warehouse)


def test_times_differ_by_their_microseconds(spark: SparkSession) -> None:
    for kind in ("timestamp", "timestamp_ntz"):
        old, new = (ROWS.format(kind=kind, micros=micros, v=1) for micros in ("001", "002"))
        for keys, wanted in (
            (["id"], {"changed": 2}),
            (["id", "at"], {"added": 2, "removed": 2}),
            ([], {"added": 2, "removed": 2}),
        ):
            found = spark.sql(compared(old, new, ["id", "at", "v"], keys)).collect()
            assert Counter(row.kind for row in found) == wanted
            assert "10:00:00.000002" in str(found)
            assert not spark.sql(compared(old, old, ["id", "at", "v"], keys)).head()


def test_another_type_of_a_column_is_named(spark: SparkSession) -> None:
    old, new = (ROWS.format(kind="timestamp", micros="001", v=v) for v in ("int(1)", "1L"))
    lines = differences(spark).difference("dw.x", old, new, lambda _: ["id"], 5)
    assert lines == ["  dw.x: 0 added, 0 removed, 0 changed", "    v was int, is bigint"]
