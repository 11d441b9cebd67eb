"""Changes that come twice, late, refused or by several batches, each once."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.maxwell import LAST_ROW
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.duplicates import deduplicate
from python_udfs.ingestion.typed.rows import decoded
from tests.support import histories, oracle
from tests.support.lines import (
    ZONE,
    line,
    source,
    typed,
)

# Repeats


def frame_of(
    spark: SparkSession, rows: list[tuple[int, int, int]], bad: int = -1, key: int = 1
) -> DataFrame:
    """Rows of ods_binlog of inserts, as far as repeats are reported by them.

    rows: (offset, binlog position, row number) of each; bad: offset of one without `data`; key:
    the id that they insert.
    """
    frame = spark.createDataFrame(rows, "message_offset int, at int, number int")
    whole = line(data=f'{{"id":{key}}}')
    return frame.selectExpr(
        "'live' as batch_id",
        "'t' as topic",
        "0 as partition_number",
        "message_offset",
        "'bin.000007' as binlog_file",
        "7 as binlog_file_number",
        "at as binlog_position",
        "number as row_number",
        "'maxwell' as format",
        "'insert' as op",
        "'shop' as database_name",
        "'o' as table_name",
        "timestamp'2026-03-02 02:00:00' as event_time",
        "1 as xid",
        "'load' as load_id",
        f"if(message_offset = {bad}, '{{}}', '{whole}') as payload",
        "cast(null as string) as reject_reason",
    )


REPEATED = source({"id": "int"})
DAY = BusinessDay(REPEATED, ZONE, 24)


def kept(new, known):
    """The rows of messages of the live log; none of them corrects anything.

    known: messages that the model has taken.
    """
    known = None if known is None else decoded(known, REPEATED, DAY)
    rows, corrected = deduplicate(new, known, REPEATED, DAY, ["live"])
    assert corrected is None
    return sorted(rows.collect(), key=lambda row: row.message_offset)


def test_a_change_that_came_before_or_comes_twice_is_left_out(spark):
    known = frame_of(spark, [(0, 100, 0)])
    sent = [(10, 100), (11, 200), (12, 200), (13, 300), (15, 400), (14, 400)]

    new = frame_of(spark, [(offset, at, 0) for offset, at in sent])
    rows = kept(new, known)

    assert sorted(row.message_offset for row in rows) == [11, 13, 14]


def test_a_message_that_must_be_refused_does_not_stand_for_the_whole_one(spark):
    new = frame_of(spark, [(10, 100, 0), (11, 100, 0), (12, 100, 0)], bad=10)
    rows = kept(new, None)

    assert sorted(row.message_offset for row in rows) == [10, 11]


def test_a_change_that_was_refused_is_taken_when_it_comes_whole(spark):
    rows = kept(frame_of(spark, [(10, 100, 0)]), frame_of(spark, [(0, 100, 0)], bad=0))

    assert [(row.message_offset, row.reject_reason) for row in rows] == [(10, None)]


def test_another_change_at_a_place_that_is_taken_is_refused(spark):
    """The server began its binlog again: positions come again, and the changes are others."""
    known = decoded(frame_of(spark, [(0, 100, 0)]), REPEATED, DAY)
    # at 100 against what is held, at 200 against what comes with it
    same = frame_of(spark, [(10, 100, 0), (20, 200, 0), (22, 200, 0), (30, 300, 0)], bad=30)
    new = same.union(frame_of(spark, [(11, 100, 0), (21, 200, 0)], key=2)).localCheckpoint()

    frame = deduplicate(new, known, REPEATED, DAY, ["live"])[0].localCheckpoint()

    rows = sorted(frame.collect(), key=lambda row: row.message_offset)
    assert [(row.message_offset, row.reject_reason is None) for row in rows] == [
        (11, False),
        (20, True),
        (21, False),
        (30, False),
    ]
    for row in (rows[0], rows[2]):
        assert "another change was taken before" in row.reject_reason
        assert row.reject_payload == line(data='{"id":2}')
    # the log is read again: each is refused once
    assert deduplicate(new, known.union(frame), REPEATED, DAY, ["live"])[0].isEmpty()


@pytest.mark.parametrize(("batches", "first"), [(["live", "x"], 20), (["x", "live"], 10)])
def test_of_two_batches_the_one_named_last_counts(spark, batches, first):
    live = frame_of(spark, [(10, 100, 0)])
    other = frame_of(spark, [(20, 100, 0)]).withColumn("batch_id", F.lit("x"))
    rows, corrected = deduplicate(live.union(other), None, REPEATED, DAY, batches)

    assert corrected is None
    assert [row.message_offset for row in rows.collect()] == [first]


def test_rows_of_one_position_are_told_apart(spark):
    numbers = [0, 1, 2, LAST_ROW]
    new = frame_of(spark, [(offset, 100, number) for offset, number in enumerate(numbers)])
    rows = kept(new, None)

    assert sorted(row.message_offset for row in rows) == [0, 1, 2, 3]


def test_random_histories_have_the_cut_dates_of_the_oracle(spark):
    declared = source(
        {"order_id": "bigint unsigned", "update_time": "datetime(3)"},
        table="order_info",
        primary_key=["order_id"],
        cut_column="update_time",
    )
    logs = [histories.generate(seed, days=5).lines for seed in range(100, 104)]
    # the days of each history for itself: they all have the same positions
    expected = [oracle.cut_date(message) for log in logs for message in oracle.read_messages(log)]
    rows = typed(spark, [item for log in logs for item in log], declared)
    assert [row.reject_reason for row in rows] == [None] * len(expected)
    assert [row.cut_date for row in rows] == expected
    print(f"cut dates compared: {len(rows)}, seeds 100 to 103")
