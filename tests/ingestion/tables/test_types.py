"""MySQL's types: exact values in, exact values out, and misfits refused by name."""

from __future__ import annotations

import struct
from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.tables.types import source_type
from tests.support.lines import json_object, line, numbered, source, typed, typed_frame

pytestmark = pytest.mark.in_turn

TYPES = {
    "id": "bigint unsigned",
    "tiny": "tinyint",
    "tiny_unsigned": "tinyint(3) unsigned zerofill",
    "medium": "mediumint",
    "int": "int(11)",
    "int_unsigned": "int unsigned",
    "big": "bigint",
    "bits": "bit(4)",
    "year": "year",
    "amount": "decimal(12,2)",
    "wide": "decimal(38,0)",
    "double": "double",
    "float": "float",
    "day": "date",
    "at": "datetime(3)",
    "stamp": "timestamp",
    "text": "varchar(20)",
    "kind": "enum('x','y')",
    "bytes": "blob",
}
DECLARED = source(TYPES)

# column -> [(JSON text, value)]; a DATETIME is local time of +08:00
FIT = {
    "id": [
        ("0", 0),
        ("9007199254740991", 2**53 - 1),
        ("9007199254740992", 2**53),
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),
        ("18446744073709551614", 2**64 - 2),
        ("18446744073709551615", 2**64 - 1),
    ],
    "tiny": [("-128", -128), ("127", 127), ("null", None)],
    "tiny_unsigned": [("0", 0), ("255", 255)],
    "medium": [("-8388608", -(2**23)), ("8388607", 2**23 - 1)],
    "int": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
    "int_unsigned": [("4294967295", 2**32 - 1)],
    "big": [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1), (str(2**53 + 1), 2**53 + 1)],
    "bits": [("10", 10)],
    "year": [("1901", 1901), ("0", 0)],
    "amount": [
        ("9999999999.99", Decimal("9999999999.99")),
        ("-9999999999.99", Decimal("-9999999999.99")),
        ("0.00", Decimal("0.00")),
        ("1.5", Decimal("1.50")),
        ("7", Decimal("7.00")),
        ("1.5000", Decimal("1.50")),
        ("1E+2", Decimal("100.00")),
        ("null", None),
    ],
    "wide": [("9" * 38, Decimal("9" * 38))],
    "double": [("1.1", 1.1), ("-1e308", -1e308), ("5e-324", 5e-324), ("3", 3.0)],
    # a float of Spark is collected as the double that it stands for
    "float": [
        (text, struct.unpack("f", struct.pack("f", float(text)))[0])
        for text in (
            *("1.1", "-0.12345679", "123456.789", "16777217", "3.4028235E38", "1.4E-45", "8.41E21"),
            *("0", "999999999", "1e30", "1.17549435E-38", "123456789e-20", "100000000000"),
            # the double that equals a float, as some producers write one
            *("0.10000000149011612", "3.140000104904175", "4294967296"),
        )
    ],
    "day": [
        ('"2026-03-02"', date(2026, 3, 2)),
        ('"1000-01-01"', date(1000, 1, 1)),
        ('"9999-12-31"', date(9999, 12, 31)),
        ('"2026-03-02 00:00:00"', date(2026, 3, 2)),
        ('"2026-03-02 00:00:00.000"', date(2026, 3, 2)),
        ('"0000-00-00 00:00:00"', None),
        ('"0000-00-00"', None),
        ('"2026-00-00"', None),
        ('"2026-02-30"', None),
        ("null", None),
    ],
    "at": [
        ('"2026-03-02 10:00:00.123"', datetime(2026, 3, 2, 2, 0, 0, 123000)),
        ('"2026-03-02 10:00:00"', datetime(2026, 3, 2, 2)),
        ('"2026-03-02 10:00:00.123456"', datetime(2026, 3, 2, 2, 0, 0, 123456)),
        ('"2026-03-02 00:00:00.000"', datetime(2026, 3, 1, 16)),
        ('"9999-12-31 23:59:59.999"', datetime(9999, 12, 31, 15, 59, 59, 999000)),
        ('"0000-00-00 00:00:00.000"', None),
        ('"2026-02-30 10:00:00.000"', None),
        ('"2026-03-02"', datetime(2026, 3, 1, 16)),
    ],
    "stamp": [
        ('"2026-03-02 10:00:00"', datetime(2026, 3, 2, 10)),
        ('"0000-00-00 00:00:00"', None),
    ],
    "text": [
        ('""', ""),
        ('"null"', "null"),
        ('"a\\u0000b"', "a\x00b"),
        ('"\\uD83D\\uDE00 \\u4eac 京"', "\U0001f600 京 京"),
        ('"\\\\ud83d?"', "\\ud83d?"),
        ('"\\\\\\uD83D\\uDE00?"', "\\\U0001f600?"),
        ('"\u2028"', "\u2028"),
        ('"12.30"', "12.30"),
        ("null", None),
    ],
    "kind": [('"x"', "x")],
    "bytes": [('"AP8Q"', b"\x00\xff\x10"), ('""', b""), ("null", None)],
}

# column -> JSON texts that are no value of its type
MISFITS = {
    "id": ["18446744073709551616", "-1", "1.5", "99999999999999999999.9", "1e25", '"x"', "true"],
    "tiny": ["300", "-129", '"1"', "1.5", "1.0", "true", "[1]", "{}"],
    "tiny_unsigned": ["256", "-1"],
    "medium": ["8388608"],
    "int": ["2147483648", "-2147483649", "1.5", '"12"', "1e999999", "9" * 900],
    "int_unsigned": ["4294967296", "-1"],
    "big": ["9223372036854775808", "-9223372036854775809", "1e3"],
    "bits": ["18446744073709551616"],
    "amount": [
        "1.005",
        "0.001",
        "10000000000.00",
        "-10000000000",
        "1e30",
        "1e999999",
        '"abc"',
        '""',
        "true",
        "{}",
        "9" * 900,
        "1E-10",
    ],
    "wide": ["1" + "0" * 38],
    "double": ["1e999999", '"NaN"', '"x"', "true"],
    # with more digits than a float has: of a DOUBLE
    "float": [
        *("1e300", '"Infinity"', '"x"', "0.1234567891", "-123456789.5", "1234567891"),
        *("1.00000000001", "0.1000000014901161", "1.00000000059604644775390625"),
    ],
    "day": [
        '"x"',
        "20260302",
        '"2026-3-2"',
        '"now"',
        '"epoch     "',
        '""',
        '"2026-13-01"',
        '"12026-03-02"',
        '"-2026-03-02"',
        '"2026-03-02 10:00:00"',
        '"2026-03-02 00:00:00.000001"',
        "{}",
    ],
    "at": [
        '"2026-03-02T10:00:00"',
        '"2026-03-02 10:00:00Z"',
        '"2026-03-02 10:00:00+05:00"',
        '"2026-03-02 10:00:00 Asia/Tokyo"',
        '"2026-03-02 25:00:00"',
        '"2026-03-02 10:00"',
        '"10:00:00.123"',
        '"now       "',
        "1772416800",
        '"2026-03-02 10:00:00.1234567"',
        '"2026-03-02 10:00:00\\n"',
    ],
    "stamp": ['"soon"'],
    "text": ['"\\ud83d"', '"a\\udE00b"', '"\\ud83d\\ud83d\\ude00"', '"\\\\\\ud83d"'],
    "bytes": ['"!!"', '"A"'],
}
FITTING = [(name, text, value) for name, cases in FIT.items() for text, value in cases]
MISFITTING = [(name, text) for name, cases in MISFITS.items() for text in cases]
NULLS = dict.fromkeys(TYPES, "null") | {"id": "1"}


def message(column: str, text: str, **more: str) -> str:
    """An insert whose column holds this JSON text; the others are null, the key is 1."""
    return line(data=json_object(NULLS | {column: text}), **more)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[Row]:
    """Rows of FITTING, then those of MISFITTING, then those of good lines, from one job."""
    lines = [message(name, text) for name, text, _ in FITTING]
    lines += [message(name, text) for name, text in MISFITTING]
    lines += [message("text", '"good"')] * len(MISFITTING)
    return typed(spark, numbered(lines), DECLARED)


@pytest.mark.parametrize("index", range(len(FITTING)), ids=lambda i: "=".join(FITTING[i][:2]))
def test_a_value_that_fits_is_exact(rows, index):
    name, _, value = FITTING[index]
    row = rows[index]
    assert row.reject_reason is None
    assert row[name] == value
    if isinstance(value, Decimal):
        assert str(row[name]) == str(value), "the scale belongs to the value"
    assert all(row[other] is None for other in TYPES if other not in ("id", name))


@pytest.mark.parametrize(
    "index", range(len(MISFITTING)), ids=lambda i: "=".join(MISFITTING[i])[:40]
)
def test_a_value_that_does_not_fit_is_refused_by_name(rows, index):
    name, text = MISFITTING[index]
    row = rows[len(FITTING) + index]
    if name == "text":
        assert "lone surrogate" in row.reject_reason
    else:
        assert row.reject_reason.startswith(f"data.{name} = ")
        assert row.reject_reason.endswith(f" is no {TYPES[name]}")
        assert ";" not in row.reject_reason, "no other column is to blame"
    assert len(row.reject_reason) < 250
    assert row.reject_payload == numbered([message(name, text)])[0].replace(
        "bin.000007:1000", f"bin.000007:{1000 + 10 * (len(FITTING) + index)}"
    )
    assert all(row[other] is None for other in (*TYPES, "before", "cut_date"))
    # what it was and where it stood is known all the same
    assert (row.op_type, row.binlog_file_number, row.row_number) == ("insert", 7, 0)


def test_a_good_row_beside_misfits_is_unharmed(rows):
    for row in rows[-len(MISFITTING) :]:
        assert (row.reject_reason, row.reject_payload, row.id, row.text) == (None, None, 1, "good")


def test_each_column_has_the_type_that_was_promised(spark):
    frame = typed_frame(spark, [message("id", "1")], DECLARED)
    kinds = dict(frame.dtypes)
    expected = {
        "id": "decimal(20,0)",
        "tiny": "int",
        "tiny_unsigned": "int",
        "medium": "int",
        "int": "int",
        "int_unsigned": "bigint",
        "big": "bigint",
        "bits": "decimal(20,0)",
        "year": "int",
        "amount": "decimal(12,2)",
        "wide": "decimal(38,0)",
        "double": "double",
        "float": "float",
        "day": "date",
        "at": "timestamp",
        "stamp": "timestamp",
        "text": "string",
        "kind": "string",
        "bytes": "binary",
    }
    assert {name: kinds[name] for name in TYPES} == expected
    before = ",".join(f"{name}:{kind}" for name, kind in expected.items())
    assert kinds["before"] == f"struct<{before},raw_values:map<string,string>>"


def test_sums_of_decimals_are_exact(spark):
    amounts = ["0.1", "0.2", "-0.30", "9999999999.99", "9999999999.99", "0.01"]
    lines = numbered(message("amount", text) for text in amounts)
    (row,) = typed_frame(spark, lines, DECLARED).agg(F.sum("amount").alias("total")).collect()
    assert str(row.total) == "19999999999.99"


def test_every_misfit_of_a_row_is_named(spark):
    lines = numbered(
        [
            line(data=json_object(NULLS | {"int": '"x"', "big": "1.5", "text": '"fine"'})),
            line(data=json_object(NULLS | {"amount": "1.005", "day": '"x"'})),
        ]
    )
    parsed, valued = typed(spark, lines, DECLARED)
    assert parsed.reject_reason == "data.int = x is no int(11); data.big = 1.5 is no bigint"
    assert "data.amount = 1.005" in valued.reject_reason
    assert "data.day = x is no date" in valued.reject_reason


# Declarations


@pytest.mark.parametrize(
    ("declared", "kind", "spark_type"),
    [
        ("BIGINT(20) UNSIGNED", "integer", "decimal(20,0)"),
        ("bigint", "integer", "bigint"),
        ("int unsigned zerofill", "integer", "bigint"),
        ("mediumint unsigned", "integer", "int"),
        ("Numeric(5, 1)", "decimal", "decimal(5,1)"),
        ("decimal", "decimal", "decimal(10,0)"),
        ("decimal(7)", "decimal", "decimal(7,0)"),
        ("real", "double", "double"),
        ("enum('a','b')", "text", "string"),
        ("time(3)", "text", "string"),
        ("longblob", "binary", "binary"),
        ("timestamp(6)", "timestamp", "timestamp"),
    ],
)
def test_a_type_is_read_as_ddl_writes_it(declared, kind, spark_type):
    found = source_type(declared)
    assert (found.kind, found.spark, found.declared) == (kind, spark_type, declared)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("decimal(39,2)", "at most 38 digits"),
        ("decimal(5,6)", "scale within them"),
        ("decimal(0,0)", "at most 38 digits"),
        ("decimal(a,b)", "must be numbers"),
        ("strng", "not a MySQL type that is known"),
        ("", "is not a MySQL type"),
        ("int unsigned not null", "is not a MySQL type"),
    ],
)
def test_an_invalid_type_is_reported(declared, message):
    with pytest.raises(ValueError, match=message):
        source_type(declared)


def test_all_problems_of_a_declaration_are_reported_at_once():
    meta = {
        "database": "shop",
        "primary_key": ["id", "gone"],
        "cut_column": "name",
        "columns_of_interest": "missing",
        "required_columns": ["missing_too"],
        "format": "avro",
        "schema_version": "two",
        "aliases": {"nobody": "x", "name": ["id"]},
        "colums": {},
        "columns": {
            "id": "bigint unsigned",
            "ID": "int",
            "name": "strng",
            "cut_date": "date",
            "metadata_x": "int",
            "price": "decimal(50,2)",
        },
    }
    with pytest.raises(ValueError) as error:
        table_source("ods_shop__o", meta)
    text = str(error.value)
    assert text.startswith("ods_shop__o: meta.source has problems: ")
    for problem in [
        "`table` is missing",
        "`colums` is not known (known: database, table,",
        f"`format` must be one of {', '.join(FORMATS)}, got 'avro'",
        "column `ID`: names must differ",
        "column `name`: 'strng' is not a MySQL type",
        "column `cut_date`: the typed row has a column of that name",
        "column `metadata_x`: the typed row has a column of that name",
        "column `price`: 'decimal(50,2)': at most 38 digits",
        "`primary_key` names `gone`, which is not among `columns`",
        "`columns_of_interest` names `missing`",
        "`required_columns` names `missing_too`",
        "`aliases` names `nobody`",
        "alias `id` of `name`: taken by another column",
        "`schema_version` must be a whole number, got 'two'",
        "Example: meta: {source:",
    ]:
        assert problem in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"columns": ["id"]}, "`columns` must map each name to its MySQL type"),
        ({"aliases": ["id"]}, "`aliases` must map a column to its other names"),
        ({"cut_column": "id"}, "`cut_column` `id` must be a date or a time, is int"),
        ({"cut_column": "at"}, "`cut_column` names `at`, which is not among `columns`"),
        ({"primary_key": None}, "`primary_key` is missing"),
        ({"schema_version": True}, "`schema_version` must be a whole number"),
    ],
)
def test_a_wrong_declaration_is_refused(change, problem):
    meta = {"database": "shop", "table": "o", "primary_key": ["id"], "columns": {"id": "int"}}
    with pytest.raises(ValueError) as error:
        table_source("ods_shop__o", meta | change)
    assert problem in str(error.value)


@pytest.mark.parametrize("meta", [None, "order_info", []])
def test_a_declaration_must_be_a_mapping(meta):
    with pytest.raises(ValueError, match=r"meta.source must be a mapping, got .* Example: meta:"):
        table_source("ods_shop__o", meta)


def test_a_declaration_is_read():
    found = source(
        {"id": "int", "city": "varchar(9)", "at": "datetime", "n": "int"},
        cut_column="at",
        columns_of_interest="city",
        aliases={"city": "town"},
        schema_version=3,
    )
    assert (found.database, found.table, found.primary_key) == ("shop", "o", ("id",))
    assert found.watched == ("id", "city", "at")
    assert (found.aliases, found.schema_version) == ({"city": ("town",)}, 3)


def test_a_key_at_a_time_that_the_clocks_skip_is_refused(spark: SparkSession) -> None:
    """It would be the key an hour later, which another row may have."""
    table = source({"id": "int", "at": "datetime(3)"}, primary_key=["id", "at"])
    at = "2026-03-08 0{}:30:00"  # in New York 2 h to 3 h isn't there
    rows = [line(data=f'{{"id":1,"at":"{at.format(hour)}"}}') for hour in (1, 2, 3)]
    old = f'{{"at":"{at.format(2)}"}}'
    rows.append(rows[0].replace('"insert"', '"update"')[:-1] + f',"old":{old}}}')

    found = typed(spark, numbered(rows), table, "America/New_York")

    skip = "the key column at is a time that the clocks of America/New_York skip"
    assert [row.reject_reason for row in found] == [None, skip, None, skip]
    assert all(row.reject_reason is None for row in typed(spark, numbered(rows), table))


def test_a_key_of_a_day_that_the_calendar_does_not_have_is_refused(spark: SparkSession) -> None:
    """Such days are null in their column, where two of them would be the same key."""
    table = source({"id": "int", "day": "date"}, primary_key=["id", "day"])
    days = ("2026-02-28", "2026-02-30", "2026-04-31", "0000-00-00")
    rows = [line(data=f'{{"id":1,"day":"{day}"}}') for day in days]
    rows.append(rows[0].replace('"insert"', '"update"')[:-1] + ',"old":{"day":"2026-02-30"}}')

    found = typed(spark, numbered(rows), table)

    unknown = "the key column day is a date that the calendar doesn't have"
    assert [row.reject_reason for row in found] == [None, unknown, unknown, None, unknown]


def test_a_zero_date_with_a_time_of_day_is_no_key(spark: SparkSession) -> None:
    """It is another value than the zero date, and null as that is."""
    table = source({"at": "datetime(3)"}, primary_key=["at"])
    times = ("0000-00-00 00:00:00", "0000-00-00 00:00:00.000", "0000-00-00 00:00:01")
    rows = [line(data=f'{{"at":"{time}"}}') for time in (*times, "0000-00-00 00:00:00.001")]

    found = typed(spark, numbered(rows), table)

    unknown = "the key column at is a date that the calendar doesn't have"
    assert [row.reject_reason for row in found] == [None, None, unknown, unknown]
