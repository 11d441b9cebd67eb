"""An envelope that the workers prove is the envelope that Spark reads.

MUTATION_SEED plays the same messages again.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.fast import parsing
from python_udfs.ingestion.fast.envelopes import READ
from python_udfs.ingestion.formats.envelope import READ_COLUMNS
from python_udfs.ingestion.formats.registry import with_envelope
from tests.support import mutated_formats, mutated_rows
from tests.support.lines import TS, line, raw_messages
from tests.support.mutated_formats import CONVERT, tables_of
from tests.support.mutated_rows import ORDERS
from tests.support.typed_model import uncompiled

SEED = int(os.environ.get("MUTATION_SEED", random.randrange(10**6)))
TABLES = {"maxwell": ORDERS, **{name: tables_of(name)["orders"] for name in CONVERT}}
NORMAL, MUTATED = 400, 1_000
SOAKED, BLOCK = 400_000, 20_000  # mutated messages
# the members that an envelope is read from
MEMBERS = {
    "maxwell": "database table type ts xid xoffset commit position",
    "canal": "database table type es isDdl data old",
    "debezium": (
        "op ts_ms status ddl databaseName tableChanges source payload connector db schema table "
        "snapshot ts_us file pos row lsn txId"
    ),
    "events": "received_at",
}
ODD = [
    *("null", '""', '"x"', "0", "-0", "-1", "1", "1.0", "1e3", "01", "true", "false", '"true"'),
    *("[]", "{}", "[1]", "[null]", "[[]]", '["a",{}]', "[{},{}]", '{"a":1}', '"1"', '"false"'),
    *('"mysql-bin.000001:4"', '"mysql-bin:5"', '":7"', '"7:"', '"a:b.3:7"', '"12:34"', '"x.1:5 "'),
    *('"x.1:+5"', '"x.1:0x5"', '"x.1:05"', '"x.1:\u0663"', '"x.\u0663:5"', '"\u00fc.1:5"'),
    *('"x.1:123456789012345678"', '"x.1:1234567890123456789"', '"x.1234567890123456789:5"'),
    *('"x\\n.1:5"', '"x.1:5\\n"', '"x\\u0085.1:5"', '"x.123456789012345678:5"', '"x.0001"'),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "2147483646"),
    *("2147483647", "2305843009213693952", "2305843009213693953", "253402300799", "253402300800"),
    *("253402300799999", "253402300800000", "253402300799999999", "253402300800000000", str(TS)),
    *(f"{TS}000", f"{TS}000000", f"{TS}.5", f'"{TS}000"', '"2026-03-02T10:00:00Z"'),
    *('"2026-03-02T10:00:00.123456+08:00"', '"2026-02-30T10:00:00Z"', '"0001-01-01T00:00:00Z"'),
    *(
        '"insert"',
        '"INSERT"',
        '"UPDATE"',
        '"bootstrap-insert"',
        '"bootstrap-start"',
        '"table-drop"',
    ),
    *('"c"', '"u"', '"r"', '"t"', '"m"', '"last"', '"\\u0069nsert"', '"in\\ud800sert"'),
]


def with_odd_member(chance: random.Random, log_format: str, text: str) -> str:
    """A message with another value of a member, or without it, or with the member twice."""
    name = chance.choice(MEMBERS[log_format].split())
    value = chance.choice(ODD)
    found = list(re.finditer(rf'"{name}":("[^"]*"|[^,{{}}\[\]"]+)', text))
    if not found or chance.random() < 0.2:
        begin = text.find("{", chance.choice([0, 0, 1, 20]))
        return f'{text[: begin + 1]}"{name}":{value},{text[begin + 1 :]}'
    place = chance.choice(found)
    return text[: place.start(1)] + value + text[place.end(1) :]


def payloads(log_format: str, seed: int, normal: int, mutated: int) -> list[bytes | str]:
    chance, table = random.Random(seed), TABLES[log_format]
    made = mutated_formats if log_format in CONVERT else mutated_rows
    odd = []
    for text in made.normal(seed + 1, table, mutated * 2 // 3):
        for _ in range(chance.choice([1, 1, 2])):
            text = with_odd_member(chance, log_format, text)
        odd.append(text)
    mutations = made.mutated(seed, table, mutated - len(odd))
    return [*made.normal(seed, table, normal), *odd, *mutations]


def proven(log_format: str, given: Sequence[bytes | str]) -> dict[int, tuple]:
    """The envelopes that are proven: number of the message -> its columns."""
    lines = [
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in given
    ]
    raw = pa.array([text + b"\n" for text in lines], pa.binary())
    texts = pa.StringArray.from_buffers(len(raw), raw.buffers()[1], raw.buffers()[2])
    places = {
        "topic": pa.repeat("t", len(raw)),
        "partition_number": pa.repeat(pa.scalar(3, pa.int32()), len(raw)),
        "message_offset": pa.array(np.arange(100, 100 + len(raw))),
    }
    # each line is asked, however many don't pass
    with patch.object(parsing, "MOST_MISFITS", 1.0):
        kept, columns = READ[log_format](texts, places)
    values = [columns[name].to_pylist() for name in READ_COLUMNS] if columns else []
    return dict(zip(kept.tolist(), zip(*values, strict=True), strict=True))


def compare(spark: SparkSession, log_format: str, given: Sequence[bytes | str]) -> set[int]:
    """Compare what is proven with what Spark reads; the numbers of the proven messages."""
    found = proven(log_format, given)
    asked = sorted(found)
    messages = raw_messages(spark, [given[number] for number in asked])
    rows = with_envelope(messages, log_format).toArrow().sort_by("message_offset").to_pylist()
    for number, row in zip(asked, rows, strict=True):
        of_place = {"binlog_position"} if log_format in ("canal", "events") else set()
        by_spark = {name: row[name] for name in READ_COLUMNS if name not in of_place}
        by_workers = dict(zip(READ_COLUMNS, found[number], strict=True))
        if of_place:
            assert by_workers["binlog_position"] == 100 + number
        by_workers = {name: by_workers[name] for name in by_spark}
        assert row["reject_reason"] is None and row["payload_bytes"] is None, given[number]
        assert repr(by_workers) == repr(by_spark), given[number]
    return set(found)


@pytest.mark.parametrize("log_format", TABLES)
def test_proven_envelopes_are_those_that_spark_reads(spark: SparkSession, log_format: str) -> None:
    print(f"MUTATION_SEED={SEED}")
    given = payloads(log_format, SEED, NORMAL, MUTATED)
    found = compare(uncompiled(spark), log_format, given)
    # of events a batch's times are numbers, or texts
    assert len(found & set(range(NORMAL))) >= (NORMAL // 2 if log_format == "events" else NORMAL)
    assert len(found - set(range(NORMAL))) > 0.1 * MUTATED


@pytest.mark.soak
@pytest.mark.parametrize("block", range(SOAKED // BLOCK))
def test_envelopes_of_many_mutated_messages(spark: SparkSession, block: int) -> None:
    seed, log_format = SEED + 1 + block, list(TABLES)[block % len(TABLES)]
    print(f"MUTATION_SEED={seed}")
    compare(spark, log_format, payloads(log_format, seed, 100, BLOCK))


@pytest.mark.parametrize("log_format", TABLES)
def test_lines_of_nothing_prove_nothing(log_format: str) -> None:
    assert proven(log_format, ["", "x", "{", "null", "{}{}", "[]", '{"a":NaN}']) == {}


@pytest.mark.parametrize("log_format", TABLES)
def test_what_a_parser_of_many_lines_passes_is_not_proven(log_format: str) -> None:
    made = mutated_formats if log_format in CONVERT else mutated_rows
    text = made.normal(SEED, TABLES[log_format], 1)[0]
    values = ("NaN", " NaN", "-Infinity", "[Infinity]", "[1,Inf]", "1" * 1001, f"-1.{'5' * 1000}")
    deep = ("[" * 1001 + "]" * 1001, '{"a":' * 1001 + "1" + "}" * 1001)
    odd = [f'{{"q":{value},{text[1:]}' for value in (*values, *deep)]
    half = len(text) // 2
    odd += [
        text * 2,
        f"{text} {text}",
        text[:half],
        text[half:],
        f"{text},",
        f"[{text}]",
        f"{text}\r",
    ]
    for number, other in enumerate(odd):
        assert set(proven(log_format, [text, other, text])) == {0, 2}, (number, other[:80])
    assert set(proven(log_format, [text, *odd, text])) == {0, len(odd) + 1}


def test_a_first_and_a_last_row_of_a_transaction_are_numbered_in_their_order() -> None:
    texts = [line(), line(xoffset="1"), line(xoffset=None, commit="true"), line(xoffset=None)]
    found = proven("maxwell", texts)
    number = READ_COLUMNS.index("row_number")
    assert {place: row[number] for place, row in found.items()} == {0: 0, 1: 1, 2: 2**31 - 1}
