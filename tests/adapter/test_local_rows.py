"""Few rows that Spark's driver holds: they are what they were, their ranges hold all of them."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.inputs import Inputs
from dbt.adapters.sparksession.local_rows import MOST_BYTES, MOST_ROWS, as_local
from dbt.adapters.sparksession.reading.ranges import ColumnRanges
from pyspark.sql import SparkSession

EVERY_TYPE = """
    select
        id,
        if(id % 3 = 0, null, cast(id as tinyint)) as tiny,
        cast(id * 1.07 as double) as measure,
        cast(id as decimal(38, 10)) * 1000000000 as large,
        cast(id as decimal(9, 2)) as small,
        timestamp '0001-01-01 00:00:00' + make_dt_interval(0, 0, 0, id / 7) as first_time,
        timestamp_ntz '9999-12-31 23:59:59.999999' - make_dt_interval(cast(id as int)) as last_time,
        date '1582-10-04' + cast(id as int) as day,
        concat('\u00e4\U0001f600', repeat(chr(id), cast(id as int))) as text,
        unhex('c3ff') as not_utf8,
        cast(unhex('c3ff') as string) as text_not_utf8,
        named_struct('a', id, 'b', array(map('k', null), map('k', array(id)))) as nested,
        id % 2 = 0 as is_even
    from range(40) where id <> 13
"""


def jobs(spark: SparkSession) -> int:
    return spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()


def test_rows_of_every_type_are_what_they_were_and_take_no_job(spark: SparkSession) -> None:
    rows = spark.sql(EVERY_TYPE).localCheckpoint(eager=False)
    local = as_local(rows)
    assert local is not None
    held, count = local
    assert count == 39
    assert held.schema == rows.schema
    before = jobs(spark)
    assert held.where("is_even").count() == 20
    assert held.selectExpr("id + 1 as next").where("next = 8").collect()[0].next == 8
    columns = [f"hash({name})" for name in held.columns if name != "nested"]
    asked = [*columns, "xxhash64(to_json(nested))", "hex(text_not_utf8)", "unix_micros(first_time)"]
    found = sorted(held.selectExpr(*asked).collect())
    assert jobs(spark) <= before + 2  # those of the count
    assert found == sorted(rows.selectExpr(*asked).collect())


def test_many_and_large_rows_stay_where_they_are(spark: SparkSession) -> None:
    many = spark.range(MOST_ROWS + 1).localCheckpoint(eager=False)
    assert as_local(many) is None
    assert many.count() == MOST_ROWS + 1
    large = spark.sql(f"select repeat('x', {MOST_BYTES}) as text").localCheckpoint(eager=False)
    assert as_local(large) is None
    most = as_local(spark.range(MOST_ROWS).localCheckpoint(eager=False))
    assert most is not None
    assert most[1] == MOST_ROWS


KINDS = {
    "number": "bigint",
    "money": "decimal(20,2)",
    "day": "date",
    "moment": "timestamp",
    "local": "timestamp_ntz",
}


@pytest.mark.parametrize("with_end", [False, True], ids=["values", "from_to"])
def test_ranges_of_local_rows_hold_each_row(spark: SparkSession, with_end: bool) -> None:
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    warehouse: Any = SimpleNamespace(session=lambda: spark, inputs=Inputs())
    ranges = ColumnRanges(warehouse)
    model = {"alias": "m", "unique_id": "model.p.m"}
    numbers = [rng.choice([None, rng.randint(-(10**6), 10**6)]) for _ in range(rng.randint(1, 90))]
    values = ", ".join("(null)" if number is None else f"({number}L)" for number in numbers)
    made = (
        "select number, cast(number / 100 as decimal(20, 2)) as money, "
        "date '2026-03-01' + cast(number % 9999 as int) as day, "
        "timestamp_micros(number * 1000003) as moment, "
        "cast(timestamp_micros(number * 7000003) as timestamp_ntz) as local "
        f"from values {values} as given(number)"
    )
    rows = ranges.materialize_once(model, "asking", made)
    assert ranges.kept_count(model, rows) == len(numbers)
    for name, kind in KINDS.items():
        later = " + interval 5 seconds" if kind.startswith("timestamp") else " + 5"
        high = name + later if with_end and name != "money" else name
        wanted = [{"column": name, "kind": kind, "low": name, "high": high, "nulls": True}]
        before = jobs(spark)
        found = ranges.pruning_condition(rows, wanted)
        assert jobs(spark) == before
        assert found["row_count"] == len(numbers)
        held = spark.sql(f"select count(*) as n from {rows} where {found['condition']}")
        assert held.collect()[0].n == len(numbers), found
        beyond = max((number for number in numbers if number is not None), default=0) + 6
        # a row without a bound may have any partner
        if name == "number" and not (with_end and None in numbers):
            asked = f"select * from (select {beyond}L as number) where {found['condition']}"
            assert not spark.sql(asked).collect()


def test_of_no_rows_nothing_is_asked(spark: SparkSession) -> None:
    warehouse: Any = SimpleNamespace(session=lambda: spark, inputs=Inputs())
    ranges = ColumnRanges(warehouse)
    model = {"alias": "m", "unique_id": "model.p.m"}
    rows = ranges.materialize_once(model, "none", "select 1L as number where false")
    wanted = [{"column": "c", "kind": "bigint", "low": "number", "high": "number"}]
    before = jobs(spark)
    assert ranges.pruning_condition(rows, wanted) == {"condition": "false", "row_count": 0}
    assert ranges.literal_ranges(rows, wanted) == [[]]
    assert jobs(spark) == before
    joined = f"select * from range(9) as r left semi join {rows} as m on r.id = m.number"
    assert not spark.sql(joined).collect()
