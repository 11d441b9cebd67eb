"""The messages of a full load, from the texts that the server gives: no server needed."""

from __future__ import annotations

import json
import time
from random import Random

import pytest
from pyspark.sql import SparkSession

from python_udfs.source.full_load import SourceTable, messages, ranges, read_at, select
from tests.support.lines import envelopes
from tools.full_load import main

# column -> (type, the server's text, what stands in the message)
VALUES = {
    "id": ("bigint", "18446744073709551615", "18446744073709551615"),
    "amount": ("decimal", "-0.10", "-0.10"),
    "tiny": ("decimal", "0.0000000001", "0.0000000001"),
    "f": ("float", "1.100000023841858", "1.1"),
    "d": ("double", "1e300", "1e300"),
    "bits": ("bit", "5", "5"),
    "day": ("date", "2026-03-01", '"2026-03-01"'),
    "at": ("datetime", "2026-03-01 10:00:00.100", '"2026-03-01 10:00:00.100"'),
    "kind": ("enum", "it's", '"it\'s"'),
    "flags": ("set", "a,b", '["a","b"]'),
    "no_flags": ("set", "", "[]"),
    "bytes": ("blob", b"\x00\xff\x10", '"AP8Q"'),
    "long": ("blob", bytes(100), f'"{"A" * 134}=="'),
    "doc": ("json", '{"a": [1, null]}', '{"a": [1, null]}'),
    "text": ("text", 'q" \\ \n \u2028 \U0001f600 中', None),
    'odd `"\\名': ("varchar", "", '""'),
    "none": ("text", None, "null"),
    "no_number": ("int", None, "null"),
}


def test_a_message_holds_each_value_as_the_server_writes_it(spark: SparkSession):
    table = SourceTable("shop", 'o"1', {name: kind for name, (kind, _, _) in VALUES.items()}, "id")
    schema = ", ".join(
        f"`{name.replace('`', '``')}` {'binary' if kind == 'blob' else 'string'}"
        for name, (kind, _, _) in VALUES.items()
    )
    rows = spark.createDataFrame([tuple(text for _, text, _ in VALUES.values())], schema)
    [row] = messages(rows, table, 1772416800).collect()

    answer = json.loads(row.value)
    assert answer.pop("data").keys() == VALUES.keys()
    assert answer == {
        "database": "shop",
        "table": 'o"1',
        "type": "bootstrap-insert",
        "ts": 1772416800,
    }
    assert "\n" not in row.value
    for name, (_, text, expected) in VALUES.items():
        if expected is None:
            assert json.loads(row.value)["data"][name] == text
        else:
            assert f"{json.dumps(name, ensure_ascii=False)}:{expected}" in row.value
    [landed] = envelopes(spark, [row.value])
    assert (landed.op, landed.reject_reason) == ("snapshot", None)
    assert (landed.database_name, landed.table_name) == ("shop", 'o"1')


def test_a_row_has_the_time_at_which_it_was_read(spark: SparkSession) -> None:
    """Not that of the load's beginning: a change behind it may be in a row that is read later."""
    table = SourceTable("shop", "o", {"id": "int", "slow": "text"}, "id")
    slow = "coalesce(reflect('java.lang.Thread', 'sleep', 1100L), '') as slow"
    rows = spark.range(2).coalesce(1).selectExpr("cast(id as string) as id", slow)
    texts = messages(rows, table, read_at())

    before = time.time()
    first, second = (json.loads(row.value)["ts"] for row in texts.collect())

    assert int(before) + 1 <= first < second <= time.time()


@pytest.mark.parametrize("seed", range(20))
def test_each_key_is_of_one_range(seed: int):
    random = Random(seed)
    low = random.choice([0, 1, -(2**63), 2**53, 2**63])
    high = random.choice([low, low + 3, low + random.randint(0, 10**6), 2**64 - 1])
    count = random.randint(1, 9)
    found = ranges("k", (low, high), count)
    assert 1 <= len(found) <= count
    assert (len(found) == count) == (high - low + 1 >= count)
    keys = [low - 1, low, high, high + 1, *(random.randint(low, high) for _ in range(50))]
    for key in keys:
        conditions = [text.replace("`k`", str(key)).replace("true", "True") for text in found]
        assert sum(bool(eval(condition)) for condition in conditions) == 1, (seed, key, found)


def test_names_are_quoted_in_the_select():
    table = SourceTable("shop", "t`1", {"a`b": "blob", "at": "datetime"}, None)
    assert select(table, "true") == (
        "select `a``b` as `a``b`, "
        "if(cast(`at` as char) like '0000-00-00%', null, cast(`at` as char)) as `at` "
        "from `shop`.`t``1` where true"
    )


def test_what_is_not_set_is_named(monkeypatch, capsys):
    monkeypatch.delenv("MYSQL_URL", raising=False)
    monkeypatch.setenv("MYSQL_USER", "app")
    assert main("shop.order_info") == 2
    assert "not set: MYSQL_URL" in capsys.readouterr().err
