"""What looks like an event and isn't proven; and events that are, with their values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tests.ingestion.fast.in_process import decoded, layout_of
from tests.support.lines import source

TABLE = source(
    {
        "event_id": "varchar(40)",
        "user_id": "bigint unsigned",
        "amount": "decimal(12,2)",
        "flag": "tinyint(1)",
        "single": "float",
        "day": "date",
        "received_at": "timestamp(3)",
        "clicked_at": "timestamp(6)",
    },
    database="events",
    table="t",
    format="events",
    primary_key=["event_id"],
    cut_column="clicked_at",
    columns_of_interest=["flag"],
)
LAYOUT = layout_of(TABLE)
EVENT = (
    '{"event_id":"8f3c","user_id":18446744073709551615,"amount":3.50,"flag":1,"single":1.5,'
    '"day":"2026-03-01","received_at":1772324289062,"clicked_at":"2026-03-01T00:18:09.062001Z",'
    '"page":"cart"}'
)
# name -> what stands in EVENT, and what is put in its place
ODD = {
    "an object in it": ('"page":"cart"', '"page":{"event_id":"9"}'),
    "a list in it": ('"page":"cart"', '"page":[]'),
    "a text as a number": ('"event_id":"8f3c"', '"event_id":8'),
    "a number as a text": ('"user_id":18446744073709551615', '"user_id":"5"'),
    "a number beyond its type": ("18446744073709551615", "18446744073709551616"),
    "a number below its type": ("18446744073709551615", "-1"),
    "a decimal with a place too many": ("3.50", "3.505"),
    "a truth value": ('"flag":1', '"flag":true'),
    "minus zero": ("1.5,", "-0.0,"),
    "no number": ("1.5,", "NaN,"),
    "a day as a number": ('"2026-03-01"', "20513"),
    "milliseconds with a fraction": ("1772324289062", "1772324289062.5"),
    "milliseconds in a text": ("1772324289062", '"1772324289062"'),
    "milliseconds after the year 9999": ("1772324289062", "253402300800000"),
    "milliseconds that overflow": ("1772324289062", "9223372036854775807"),
    "an instant with a blank": ("2026-03-01T00", "2026-03-01 00"),
    "an instant without a zone": ("062001Z", "062001"),
    "a zone without a colon": ("062001Z", "062001+0800"),
    "a zone that no place has": ("062001Z", "062001+15:00"),
    "an instant of nine places": ("062001Z", "062001000Z"),
    "an instant that the calendar lacks": ("03-01T00", "02-30T00"),
    "an instant before the year 1000": ("2026-03-01T00", "0999-03-01T00"),
    "a name in another case": ('"flag":', '"Flag":'),
    "a name twice": ('"flag":1', '"flag":1,"flag":1'),
    "a key that is null": ('"8f3c"', "null"),
    "no key": ('"event_id":"8f3c",', ""),
    "nothing": (EVENT, "{}"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_another_reader_of_events_may_see_otherwise_is_left_to_spark(name: str) -> None:
    right, wrong = ODD[name]
    assert right in EVENT
    text = EVENT.replace(right, wrong, 1)
    assert decoded(LAYOUT, [text], "events") == {}
    assert sorted(decoded(LAYOUT, [EVENT, text, EVENT], "events")) == [0, 2]


def test_an_event_is_a_row_after_an_insert() -> None:
    [row] = decoded(LAYOUT, [EVENT], "events").values()
    assert row["after"] == {
        "event_id": "8f3c",
        "user_id": Decimal(2**64 - 1),
        "amount": Decimal("3.50"),
        "flag": 1,
        "single": 1.5,
        "day": date(2026, 3, 1),
        "received_at": datetime(2026, 3, 1, 0, 18, 9, 62000, UTC),
        "clicked_at": datetime(2026, 3, 1, 0, 18, 9, 62001, UTC),
        "raw_values": None,
    }
    assert row["before"] is None
    assert row["changes"] is None
    assert row["cut_date"] == date(2026, 3, 1)


def test_an_event_of_another_zone_is_the_same_instant() -> None:
    texts = [EVENT.replace("01T00:18:09.062001Z", "01T08:18:09.062001+08:00"), EVENT]
    here, there = decoded(LAYOUT, texts, "events").values()
    assert here == there


def test_what_an_event_lacks_is_null() -> None:
    text = '{"event_id":"8f3c","flag":null}'
    [row] = decoded(LAYOUT, [text], "events").values()
    assert {name for name, value in row["after"].items() if value is not None} == {"event_id"}


def test_a_columns_instants_are_read_as_most_events_of_a_batch_have_them() -> None:
    as_number = EVENT.replace('"2026-03-01T00:18:09.062001Z"', "1772324289062")
    as_text = EVENT.replace("1772324289062", '"2026-03-01T00:18:09.062Z"')
    assert sorted(decoded(LAYOUT, [EVENT, as_number, EVENT], "events")) == [0, 2]
    assert sorted(decoded(LAYOUT, [as_number, EVENT, as_number], "events")) == [0, 2]
    assert sorted(decoded(LAYOUT, [as_text, EVENT, as_text], "events")) == [0, 2]
