"""Events that an application logs as JSON: what is read of them, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.lines import envelopes, source, typed

AT = datetime(2026, 3, 2, 2, tzinfo=UTC)
MILLIS = 1772416800000
DECLARED = source(
    {"id": "varchar(9)", "at": "timestamp(3)", "n": "bigint unsigned", "v": "text"},
    database="events",
    table="t",
    format="events",
    cut_column="at",
    aliases={"at": "event_time"},
)


def event(**fields: Any) -> str:
    """An event of the topic t with these fields set, or left out if `...`."""
    head = {"id": "a", "received_at": MILLIS, "event_time": MILLIS, "n": 1, "v": "x"}
    return json.dumps({k: v for k, v in (head | fields).items() if v is not ...})


def test_an_event_is_an_insert_at_its_place_in_the_topic(spark: SparkSession) -> None:
    (row,) = envelopes(spark, [event(received_at="2026-03-02T10:00:00.5+08:00")], "events")

    assert row.reject_reason is None
    assert (row.database_name, row.table_name, row.op) == ("events", "t", "insert")
    assert row.event_time.replace(tzinfo=UTC) == AT.replace(microsecond=500_000)
    assert (row.binlog_file, row.binlog_position, row.row_number) == ("t/3", 100, 0)


def test_what_is_no_event_is_refused(spark: SparkSession) -> None:
    bad = {
        "[1]": "JSON, but no event message: no object",
        "{": "not JSON",
        event() + event(): "not JSON",
        event(received_at=...): "`received_at` is missing",
        event(received_at="soon"): "`received_at` is missing",
        event(received_at="2026-03-02T10:00:00"): "`received_at` is missing",
    }
    rows = envelopes(spark, list(bad), "events")
    for row, reason in zip(rows, bad.values(), strict=True):
        assert (row.reject_reason or "").startswith(reason), row.payload


def test_times_are_milliseconds_or_iso_text_with_a_zone(spark: SparkSession) -> None:
    reported = [MILLIS, "2026-03-02T02:00:00Z", "2026-03-02T10:00:00.000+08:00", str(MILLIS)]
    rows = typed(spark, [event(event_time=item) for item in reported], DECLARED)

    assert [row.reject_reason for row in rows] == [None] * len(reported)
    assert {row["at"].replace(tzinfo=UTC) for row in rows} == {AT}
    assert {row.cut_date for row in rows} == {date(2026, 3, 2)}


@pytest.mark.parametrize("expected", ["yesterday", "", "2026-03-02T10:00:00", 10**17, True])
def test_a_time_that_cannot_be_read_is_refused(spark: SparkSession, expected: Any) -> None:
    (row,) = typed(spark, [event(event_time=expected)], DECLARED)

    assert "is no timestamp(3)" in row.reject_reason
    assert json.loads(row.reject_payload)["event_time"] == expected


def test_absent_is_null_and_a_wrong_value_is_refused(spark: SparkSession) -> None:
    absent, null, wrong, large, keyless, flag = typed(
        spark,
        [
            event(v=..., event_time=...),
            event(v=None),
            event(n="many"),
            event(n=2**64 - 1),
            event(id=None),
            event(n=True, v={"b": [1]}),
        ],
        DECLARED,
    )
    assert (absent.v, absent["at"], absent.reject_reason) == (None, None, None)
    assert absent.cut_date == date(2026, 3, 2)
    assert (null.v, null.reject_reason) == (None, None)
    assert wrong.reject_reason == "data.n = many is no bigint unsigned"
    assert large.n == 2**64 - 1
    assert keyless.reject_reason == "the key column id is null"
    assert (flag.n, flag.v, flag.before) == (1, '{"b":[1]}', None)
