"""Columns that order rows from the highest value to the lowest."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.descending import is_reversible, reversed_value
from pyspark.sql import SparkSession

INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
LETTERS = "abZ0G\0\x7fé\ufffd😀"
KINDS = [
    *INTEGERS,
    "decimal(28,6)",
    "decimal(20,0)",
    "decimal(4,4)",
    "date",
    "timestamp",
    "timestamp_ntz",
    "boolean",
    "string",
    "binary",
]


def random_value(rng: random.Random, kind: str) -> Any:
    if kind in INTEGERS:
        end = 2 ** INTEGERS[kind]
        return rng.choice([-end, end - 1, 0, -1, rng.randint(-end, end - 1)])
    if kind.startswith("decimal"):
        digits, scale = map(int, kind[8:-1].split(","))
        most = 10**digits - 1
        return Decimal(f"{rng.choice([-most, most, 0, rng.randint(-most, most)])}e-{scale}")
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "date":
        return date(1969, 12, 30) + timedelta(days=rng.choice([0, 1, 2, rng.randint(-9999, 9999)]))
    if kind.startswith("timestamp"):
        # around Berlin's hour that comes twice, and before 1970
        start = rng.choice([datetime(2026, 10, 25), datetime(1969, 12, 31), datetime(1900, 1, 1)])
        return start + timedelta(
            microseconds=rng.randint(0, 14_400) * 1_000_000 + rng.randint(0, 3)
        )
    letters = rng.choices([*LETTERS], k=rng.randint(0, 3))
    text = "".join(letters)
    return text.encode() + bytes([rng.choice([0, 255])]) if kind == "binary" else text


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("kind", KINDS)
def test_reversed_values_stand_in_the_other_order(spark: SparkSession, kind: str, zone: str):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"{kind}: seed {seed}")
    rng = random.Random(seed)
    rows = [(random_value(rng, kind), random_value(rng, kind)) for _ in range(400)]
    rows += [(value, value) for value, _ in rows[:20]] + [(None, rows[0][0])]
    # the texts of a time are those of its own zone or of none
    frame = spark.createDataFrame(rows, f"here {kind}, there {kind}")
    frame.createOrReplaceTempView("reversed_pairs")
    first, second = (reversed_value(name, kind) for name in ("here", "there"))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        wrong = spark.sql(
            f"select * from reversed_pairs where (here is null) <> ({first} is null) "
            f"or not (sign(if(here < there, 1, 0)) <=> sign(if({first} > {second}, 1, 0))) "
            f"or not ((here <=> there) <=> ({first} <=> {second}))"
        ).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert wrong == []


def test_a_type_without_an_exact_reverse_has_none():
    for kind in ("float", "double", "array<int>", "struct<a:int>", "interval day to second"):
        assert not is_reversible(kind)
