"""Rows with several of a column's names: an old name was given to another column, or both stand
side by side while programs move to the new."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.formats.several_names import has_numbered_letters
from tests.ingestion.fast.in_process import decoded, layout_of
from tests.support.lines import TS, source, typed

Row = dict[str, Any]
# the row before an update and behind it, and what the column `city` was and is
BOTH: list[tuple[Row, Row, str | None, str | None]] = [
    ({"city": "X", "dest": "A"}, {"city": "X", "dest": "B"}, "X", "X"),
    ({"city": "X", "dest": "A"}, {"city": "Y", "dest": "A"}, "X", "Y"),
    ({"city": None, "dest": "A"}, {"city": None, "dest": "B"}, None, None),
    ({"city": None, "dest": "B"}, {"city": "B", "dest": "B"}, None, "B"),
    ({"city": "X", "dest": None}, {"city": None, "dest": "B"}, "X", None),
    # of two old names that which is declared first
    ({"dest": None, "goal": "C"}, {"dest": None, "goal": "D"}, None, None),
    ({"dest": "A", "goal": "C"}, {"dest": "A", "goal": None}, "A", "A"),
]
USUAL: list[tuple[Row, Row, str | None, str | None]] = [
    ({"dest": "A"}, {"dest": "B"}, "A", "B"),
    ({"dest": None}, {"dest": "B"}, None, "B"),
    ({"goal": "A"}, {"goal": None}, "A", None),
    ({"city": "A"}, {"city": "B"}, "A", "B"),
]


def _update(log_format: str, number: int, before: Row, after: Row) -> str:
    """An update of a row as a producer writes it."""
    before, after = {"id": number, **before}, {"id": number, **after}
    old = {name: value for name, value in before.items() if after[name] != value}
    head: Row = {"database": "shop", "table": "o"}
    if log_format == "maxwell":
        place = f"bin.000007:{1000 + number}"
        head |= {"type": "update", "ts": TS, "xid": 7, "xoffset": 0, "position": place}
        return json.dumps(head | {"data": after, "old": old}, separators=(",", ":"))
    if log_format == "canal":
        texts = {name: value and str(value) for name, value in after.items()}
        types = dict.fromkeys(after, "varchar(20)") | {"id": "int"}
        head |= {"type": "UPDATE", "es": TS * 1000, "isDdl": False, "mysqlType": types}
        return json.dumps(head | {"data": [texts], "old": [old]}, separators=(",", ":"))
    origin = {
        **{"connector": "mysql", "db": "shop", "table": "o", "ts_ms": TS * 1000},
        **{"snapshot": "false", "file": "bin.000007", "pos": 1000 + number, "row": 0},
    }
    body = {"before": before, "after": after, "source": origin, "op": "u", "ts_ms": TS * 1000}
    return json.dumps(body, separators=(",", ":"))


@pytest.mark.parametrize("log_format", ["maxwell", "canal", "debezium"])
def test_the_first_name_that_a_row_has_is_the_column(spark: SparkSession, log_format: str) -> None:
    table = source(
        {"id": "int", "city": "varchar(20)"},
        aliases={"city": ["dest", "goal"]},
        required_columns=["city"],
        format=log_format,
    )
    cases = [*BOTH, *USUAL]
    texts = [
        _update(log_format, number, before, after)
        for number, (before, after, *_) in enumerate(cases)
    ]

    rows = typed(spark, texts, table)

    assert [row.reject_reason for row in rows] == [None] * len(cases)
    assert [(row.before.city, row.city) for row in rows] == [case[2:] for case in cases]
    # Python workers leave such rows to Spark
    proven = set(decoded(layout_of(table), texts, log_format))
    assert len(cases) - 1 in proven
    assert not proven & set(range(len(BOTH)))


def test_letters_that_are_written_by_their_numbers_are_seen_in_names_alone(
    spark: SparkSession,
) -> None:
    name = "Ci_1"
    ways = itertools.product(*((letter, f"\\u{ord(letter):04x}") for letter in name))
    names = ["".join(way) for way in ways][1:]
    named = [f'{{"x":1,"{way}"{gap}:2}}' for way in names for gap in ("", " ", "\t\r\n")]
    no_names = ['{"x":"\\u0041","y":["\\u4e2d:","\\u0043 ",": \\u0043"]}', '{"Ci_1":1}', "{}"]
    rows = spark.createDataFrame([(text,) for text in [*named, *no_names]], "payload string")
    seen = rows.select("payload", has_numbered_letters(rows.payload).alias("is_seen")).collect()
    assert {row.payload for row in seen if row.is_seen} == set(named)
    assert len(seen) == len({*named, *no_names})
