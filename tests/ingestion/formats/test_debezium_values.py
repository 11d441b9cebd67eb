"""Values of Debezium's images in each mode, and the log of a real producer."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.debezium_messages import message, retracts
from tests.support.lines import (
    ROOT,
    envelopes,
    json_object,
    raw_lines,
    source,
    typed,
)

SAMPLES = ROOT / "tests" / "fixtures" / "debezium"


# Values: options -> column type -> [(JSON text, value)]; a value of NONE is refused

NONE = object()
DEFAULTS: dict[str, list[tuple[str, Any]]] = {
    "bigint unsigned": [
        ("0", 0),
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", 2**63),
        ("-1", 2**64 - 1),
        ("1.5", NONE),
        ('"x"', NONE),
    ],
    "bigint": [("-9223372036854775808", -(2**63)), ("9223372036854775808", NONE)],
    "int unsigned": [("4294967295", 2**32 - 1), ('"1"', NONE)],
    "tinyint(1)": [("1", 1), ("-128", -128), ("true", 1), ("false", 0), ('"yes"', NONE)],
    "year": [("2026", 2026)],
    "bit(1)": [("true", 1), ("false", 0), ('"AQ=="', NONE)],
    "bit(9)": [('"AgE="', 258), ('"AAA="', 0), ("true", NONE), ('"AgE"', NONE)],
    "bit(32)": [('"true"', 0x9EBBB6)],
    "bit(64)": [
        ('"//////////8="', 2**64 - 1),
        ('"//////////8A"', NONE),
        ('"/////////38="', 2**63 - 1),
        ('"gAAAAAAAAAA="', 128),
        ('"AQEBAQEBAQEB"', NONE),
        ('""', NONE),
    ],
    "decimal(12,2)": [
        ('"AJY="', "1.50"),
        ('"/w=="', "-0.01"),
        ('"AA=="', "0.00"),
        ('"gA=="', "-1.28"),
        ('"AIA="', "1.28"),
        ('"AOjUpQ//"', "9999999999.99"),
        ('"/xcrWvAB"', "-9999999999.99"),
        ('"AOjUpRAA"', NONE),
        ('{"scale":1,"value":"Dw=="}', "1.50"),
        ('{"scale":0,"value":"/w=="}', "-1.00"),
        ('{"scale":-2,"value":"Dw=="}', "1500.00"),
        ('{"scale":3,"value":"AJY="}', "0.15"),
        ('{"scale":3,"value":"Dw=="}', NONE),
        ('{"scale":99,"value":"Dw=="}', NONE),
        ('{"scale":1}', NONE),
        ("1.50", NONE),
        ('"!!"', NONE),
        ('""', NONE),
    ],
    "decimal(38,0)": [
        ('"SztMqFqGxHoJiiI//////w=="', "99999999999999999999999999999999999999"),
        ('"tMSzV6V5O4X2dd3AAAAAAQ=="', "-99999999999999999999999999999999999999"),
        ('"AIAAAAAAAAAA"', "9223372036854775808"),
        ('"/3//////////"', "-9223372036854775809"),
        ('"AQAAAAAAAAAA"', "18446744073709551616"),
        ('"/wAAAAAAAAAA"', "-18446744073709551616"),
        ('"SztMqFqGxHoJiiJAAAAAAA=="', NONE),
        ('"gAAAAAAAAAAAAAAAAAAAAA=="', NONE),
        ('"AAAAAAAAAAAAAAAAAAAAAAA="', NONE),
    ],
    "decimal(38,38)": [('"/w=="', "-0." + "0" * 37 + "1")],
    "double": [("1.1", 1.1), ("-1e308", -1e308), ("1e999", NONE), ('"x"', NONE)],
    "float": [("0.5", 0.5), ('"NaN"', NONE)],
    # of +08:00 become UTC
    "datetime": [
        ("1772359200000", datetime(2026, 3, 1, 2)),
        ("-1", datetime(1969, 12, 31, 15, 59, 59, 999000)),
        ("253402300799999", datetime(9999, 12, 31, 15, 59, 59, 999000)),
        ("253402300800000", NONE),
        ("9223372036854775807", NONE),
        ("1.5", NONE),
        ('"2026-03-01 10:00:00"', NONE),
    ],
    "datetime(3)": [("1772359200123", datetime(2026, 3, 1, 2, 0, 0, 123000))],
    "datetime(4)": [("1772359200123400", datetime(2026, 3, 1, 2, 0, 0, 123400))],
    "datetime(6)": [
        ("1772359200123456", datetime(2026, 3, 1, 2, 0, 0, 123456)),
        ("-30610224000000000", datetime(999, 12, 31, 16)),
        ("0", datetime(1969, 12, 31, 16)),
    ],
    "timestamp(3)": [
        ('"2026-03-01T10:00:00.123Z"', datetime(2026, 3, 1, 10, 0, 0, 123000)),
        ('"2000-01-01T00:00:00Z"', datetime(2000, 1, 1)),
        ('"2026-03-01T10:00:00.123456+08:00"', datetime(2026, 3, 1, 2, 0, 0, 123456)),
        ('"2026-03-01T10:00:00"', NONE),
        ('"2026-02-30T10:00:00Z"', NONE),
        ("1772359200123", NONE),
    ],
    "date": [
        ("20513", date(2026, 3, 1)),
        ("-1", date(1969, 12, 31)),
        ("-354285", date(1000, 1, 1)),
        ("2932896", date(9999, 12, 31)),
        ("2932897", NONE),
        ('"2026-03-01"', NONE),
    ],
    "time": [
        ("0", "00:00:00"),
        ("3020399000000", "838:59:59"),
        ("-3020399000000", "-838:59:59"),
        ("90000000000", "25:00:00"),
        ("1500000", NONE),
        ("3020400000000", NONE),
    ],
    "time(3)": [("-45001500000", "-12:30:01.500"), ("359999999000", "99:59:59.999")],
    "time(6)": [("-1", "-00:00:00.000001")],
    "enum('x','y')": [('"x"', "x")],
    "set('x','y')": [('"x,y"', "x,y")],
    "json": [('"{\\"a\\":1.10}"', '{"a":1.10}')],
    "varchar(9)": [('""', ""), ('"null"', "null")],
    "blob": [('"AP8Q"', b"\x00\xff\x10"), ('""', b""), ('"AP8"', NONE), ('"-_8="', NONE)],
}
MODES: dict[str, tuple[dict[str, str], dict[str, list[tuple[str, Any]]]]] = {
    "Debezium's defaults": ({}, DEFAULTS),
    "texts": (
        {
            "time.precision.mode": "isostring",
            "decimal.handling.mode": "string",
            "bigint.unsigned.handling.mode": "precise",
            "binary.handling.mode": "hex",
        },
        {
            "bigint unsigned": [('"AP//////////"', 2**64 - 1), ('"AA=="', 0), ('"/w=="', NONE)],
            "decimal(12,2)": [('"1234"', "1234.00"), ('"-0.01"', "-0.01"), ('"abc"', NONE)],
            "decimal(38,18)": [("12345678901234567890.123456789012345678",) * 2],
            "decimal(12,8)": [('"1E-7"', "1E-7")],
            "datetime(6)": [
                ('"2026-03-01T10:00:00.123456Z"', datetime(2026, 3, 1, 2, 0, 0, 123456)),
                ("1772359200123456", NONE),
            ],
            "date": [('"2026-03-01Z"', date(2026, 3, 1)), ('"2026-03-01"', date(2026, 3, 1))],
            "time(3)": [('"12:30:01.500Z"', "12:30:01.500"), ('"12:30:01+08:00"', NONE)],
            "blob": [('"00fF10"', b"\x00\xff\x10"), ('""', b""), ('"0"', NONE)],
        },
    ),
    "adaptive": (
        {
            "time.precision.mode": "adaptive",
            "decimal.handling.mode": "double",
            "binary.handling.mode": "base64-url-safe",
        },
        {
            "decimal(12,2)": [("1.5", "1.50"), ("1.0E7", "10000000.00"), ('"x"', NONE)],
            "datetime(6)": [("-1", datetime(1969, 12, 31, 15, 59, 59, 999999))],
            "time(3)": [("-45001500", "-12:30:01.500")],
            "time(6)": [("45001500001", "12:30:01.500001")],
            "blob": [('"-_8="', b"\xfb\xff"), ('"+/8="', b"\xfb\xff")],
        },
    ),
    "connect": (
        {"time.precision.mode": "connect", "binary.handling.mode": "base64"},
        {
            "datetime(6)": [("1772359200123", datetime(2026, 3, 1, 2, 0, 0, 123000))],
            "time(6)": [("45001500", "12:30:01.500000")],
            "date": [("20513", date(2026, 3, 1))],
            "blob": [('"AP8Q"', b"\x00\xff\x10")],
        },
    ),
    "microseconds": (
        {"time.precision.mode": "microseconds"},
        {
            "datetime": [("1772359200000000", datetime(2026, 3, 1, 2))],
            "time": [("45001000000", "12:30:01")],
        },
    ),
    "nanoseconds": (
        {"time.precision.mode": "nanoseconds"},
        {
            "datetime(6)": [
                ("1772359200123456000", datetime(2026, 3, 1, 2, 0, 0, 123456)),
                ("0", datetime(1969, 12, 31, 16)),
                ("1772359200123456789", NONE),
            ],
            "time(3)": [("-45001500000000", "-12:30:01.500")],
        },
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_value_is_exact_or_refused_by_name(spark, mode):
    options, kinds = MODES[mode]
    columns = {f"c{n}": kind for n, kind in enumerate(kinds)}
    cases = [(name, *case) for name in columns for case in kinds[columns[name]]]
    nulls = dict.fromkeys(columns, "null") | {"id": "1"}
    lines = [message(after=json_object(nulls | {name: text})) for name, text, _ in cases]
    declared = source({"id": "int"} | columns, format="debezium", options=options)

    rows = typed(spark, [*lines, message(after=json_object(nulls))], declared)

    got, expected = {}, {}
    for (name, text, value), row in zip(cases, rows, strict=False):
        if isinstance(value, str) and columns[name].startswith("decimal"):
            value = Decimal(value)
        of = (columns[name], text)
        expected[of] = NONE if value is NONE else (value, None)
        got[of] = (row[name], row.reject_reason)
        if row.reject_reason is not None:
            assert f".{name} = " in row.reject_reason, of
            assert row.reject_reason.endswith(f" is no {columns[name]}"), of
            assert row[name] is None
            got[of] = NONE
        assert all(row[other] is None for other in columns if other != name)
    assert got == expected
    assert [rows[-1][name] for name in columns] == [None] * len(columns)
    assert rows[-1].reject_reason is None


# What a real producer wrote


def sample(name: str) -> list[str | None]:
    values = [json.loads(line)["value"] for line in raw_lines(SAMPLES / name)]
    return [value and json.dumps(value, ensure_ascii=False) for value in values]


def test_the_events_of_a_real_producer_are_all_told_apart(spark):
    rows = envelopes(spark, sample("types.jsonl.gz") + sample("transactions.jsonl.gz"), "debezium")
    assert [row.reject_reason for row in rows] == [None] * 60
    ops = Counter(row.op for row in rows)
    assert ops == {
        "ddl": 35,
        "control": 10,
        "snapshot": 1,
        "insert": 5,
        "update": 6,
        "delete": 2,
        "truncate": 1,
    }
    identities = [
        (row.binlog_position, row.row_number)
        for row in rows
        if row.op in ("insert", "update", "delete")
    ]
    assert len(set(identities)) == len(identities)


def test_a_real_log_says_the_same_as_through_maxwell(spark):
    # tm and tz left out: Maxwell's negative TIME is wrong, and tz has the time of the run
    columns = {
        "id": "bigint unsigned",
        "a": "bigint",
        "v": "varchar(50)",
        "d": "decimal(12,2)",
        "dt": "datetime(3)",
        "ts": "timestamp(3)",
        "dd": "date",
        "j": "longtext",
        "b": "tinyint(1)",
        "bl": "blob",
        "e": "enum('x','y')",
        "bt": "bit(4)",
        "f": "float",
        "db": "double",
        "yr": "year",
    }
    found = {}
    for name, lines in (
        ("debezium", sample("types.jsonl.gz")),
        ("maxwell", [line.decode() for line in raw_lines(SAMPLES / "maxwell_types.jsonl.gz")]),
    ):
        rows = typed(spark, lines, source(columns, table="t1", format=name))
        assert [row.reject_reason for row in rows] == [None] * len(rows)
        found[name] = retracts(rows, list(columns))
    assert found["debezium"] == found["maxwell"]
    assert found["debezium"][0][1:6] == (
        2**64 - 1,
        1,
        '\U0001f600 "q" \\ \n nl',
        Decimal("10.50"),
        datetime(2026, 3, 1, 15, 59, 59, 999000),
    )
    assert [item[0] for item in found["debezium"]] == list("++-+-+-+-+-+-+-+-++"), found


def test_a_negative_time_of_a_real_log(spark):
    declared = source({"id": "bigint unsigned", "tm": "time(3)"}, table="t1", format="debezium")
    first, *_ = typed(spark, sample("types.jsonl.gz"), declared)
    assert first.tm == "-12:30:01.500"
