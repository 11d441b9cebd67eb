"""Debezium's messages with a schema of another scale or unit than their table is declared with."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.debezium.schema_blocks import (
    MOST_BLOCKS,
    by_own_schemas,
    encodings_of,
)
from tests.support.lines import TS, source
from tests.support.typed_model import Model

pytestmark = pytest.mark.in_turn

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
NO_SCHEMA: dict[str, Any] = {}


def decimal(scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": "12"}
    return {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": parameters}


def counted(name: str) -> dict[str, Any]:
    return {"type": "int64", "name": name}


def schema(columns: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema of a message, as Kafka Connect's converter writes it."""
    row = [{"optional": True, **kind, "field": name} for name, kind in columns.items()]
    images = [{"type": "struct", "fields": row, "field": part} for part in ("before", "after")]
    return {"type": "struct", "fields": [*images, {"type": "string", "field": "op"}]}


def message(
    key: int, schema_of_row: dict[str, Any], amount: int, op: str = "c", is_last: bool = False
) -> str:
    """A row of an id and an amount in units of its scale; is_last: the schema stands last."""
    encoded = b64encode(amount.to_bytes(4, "big", signed=True)).decode()
    origin = {"connector": "mysql", "db": "shop", "table": "o", "ts_ms": TS * 1000}
    origin |= {"file": "bin.000007", "pos": 100 * key, "row": 0}
    origin |= {"snapshot": "true" if op == "r" else "false"}
    row = {"id": key, "amount": encoded}
    payload = {"before": None, "after": row, "source": origin, "op": op}
    if not schema_of_row:
        return json.dumps(payload, separators=(",", ":"))
    both = {"schema": schema(schema_of_row), "payload": payload}
    names = sorted(both, reverse=not is_last)
    return json.dumps({name: both[name] for name in names}, separators=(",", ":"))


def model_of(spark: SparkSession, columns: dict[str, str], workers: str = "never") -> Model:
    model = Model(spark, "debezium", ["id"])
    model.meta["source"]["columns"] = columns
    model.vars["worker_decoding_from"] = workers
    return model


@pytest.mark.parametrize("workers", ["0", "never"])
def test_an_amount_of_another_scale_is_read_by_its_messages_schema(
    spark: SparkSession, workers: str
) -> None:
    model = model_of(spark, {"id": "int", "amount": "decimal(12,4)"}, workers)
    old, new = ({"id": {"type": "int32"}, "amount": decimal(scale)} for scale in (2, 4))
    wide, text = ({"id": {"type": "int32"}, "amount": kind} for kind in (decimal(6), TEXT))

    model.take(
        {
            0: message(1, new, 123400),
            1: message(2, old, 1234),
            2: message(3, old, 1234, is_last=True),
            3: message(4, old, 1234, "r"),
            4: message(5, NO_SCHEMA, 123400),
            5: message(6, {"id": {"type": "int32"}}, 123400),
            6: message(7, wide, 12340000),
            7: message(8, wide, 12340001),
            8: message(9, text, 123400),
            9: message(10, new, 123400),
        }
    )
    model.take({10: message(11, new, 5)})
    model.take({11: message(12, old, 5), 12: message(13, old, -5)})

    read = {row.id: str(row.amount) for row in model.rows if row.reject_reason is None}
    assert read == dict.fromkeys((1, 2, 3, 4, 5, 6, 7, 10), "12.3400") | {
        **{11: "0.0005", 12: "0.0500", 13: "-0.0500"}
    }
    refused = {row.message_offset: row for row in model.rows if row.reject_reason}
    assert list(refused) == [7, 8]
    assert "amount = 12.34000100" in refused[7].reject_reason
    assert "is no decimal(12,4)" in refused[7].reject_reason
    reason = "amount is a string, declared decimal(12,4) (scale 4). Declare the type"
    assert reason in refused[8].reject_reason
    for row in refused.values():
        assert row.reject_payload is not None and row.id is None


def times(key: int, kinds: dict[str, dict[str, Any]], **values: int) -> str:
    """A row of times as numbers."""
    fields = {"id": {"type": "int32"}, **kinds}
    text = json.loads(message(key, fields, 0))
    text["payload"]["after"] = {"id": key, **values}
    return json.dumps(text, separators=(",", ":"))


def test_times_of_another_unit_are_read_by_their_messages_schema(spark: SparkSession) -> None:
    declared = {"id": "int", "t": "datetime(6)", "d": "date", "s": "time(3)"}
    model = model_of(spark, declared)
    model.meta["source"]["options"] = {"time.precision.mode": "adaptive"}
    day, noon = 20514, 20514 * 86400 + 43200  # 2026-03-02
    micros = counted(f"{DEBEZIUM}MicroTimestamp"), counted(f"{DEBEZIUM}Date")
    millis = counted(f"{DEBEZIUM}Timestamp"), counted(f"{DEBEZIUM}Timestamp")

    def kinds(t: dict[str, Any], d: dict[str, Any], s: str) -> dict[str, dict[str, Any]]:
        return {"t": t, "d": d, "s": counted(f"{DEBEZIUM}{s}")}

    model.take(
        {
            0: times(1, kinds(*micros, "Time"), t=noon * 10**6 + 5, d=day, s=1500),
            1: times(2, kinds(*millis, "MicroTime"), t=noon * 1000, d=day * 86400000, s=1500000),
            2: times(3, kinds(micros[1], micros[1], "NanoTime"), t=day, d=day, s=1500000000),
            3: times(4, kinds(*millis, "MicroTime"), t=noon * 1000, d=noon * 1000, s=1500000),
            4: times(5, kinds(*micros, "MicroTime"), t=noon * 10**6, d=day, s=1500001),
            5: times(6, kinds(micros[0], micros[1], "Date"), t=noon * 10**6, d=day, s=day),
        }
    )

    rows = {row.id: row for row in model.rows if row.reject_reason is None}
    at_zone = [str(rows[key].t) for key in sorted(rows)]
    assert [time[10:] for time in at_zone] == [" 04:00:00.000005", " 04:00:00", " 16:00:00"]
    assert at_zone[2].startswith("2026-03-01")  # midnight of the business zone
    assert {(str(row.d), row.s) for row in rows.values()} == {("2026-03-02", "00:00:01.500")}
    refused = {row.message_offset: row.reject_reason for row in model.rows if row.reject_reason}
    assert list(refused) == [3, 4, 5]
    assert "d = 2026-03-02 12:00:00 is no date" in refused[3]
    assert "s = 1500001 is no time(3)" in refused[4]
    assert "misread: s counts days, declared time(3) (milliseconds)" in refused[5]


def ddl(position: int, sql: str, table: str) -> str:
    """A message of the schema history topic, or of the connector's own."""
    origin = {"connector": "mysql", "db": "shop", "table": table, "ts_ms": TS * 1000}
    origin |= {"file": "bin.000007", "pos": position, "snapshot": "false"}
    head = {"source": origin, "databaseName": "shop", "ddl": sql, "tableChanges": []}
    return json.dumps(head | {"ts_ms": TS * 1000})


@pytest.mark.parametrize("scale", [2, 4, None])
def test_rows_that_a_table_gets_by_a_rename_are_read_by_their_messages_schema(
    spark: SparkSession, scale: int | None
) -> None:
    kind = {"id": {"type": "int32"}, "amount": TEXT if scale is None else decimal(scale)}
    first, second = (
        message(key, kind, 1234).replace('"table":"o"', '"table":"o_new"') for key in (1, 2)
    )
    model = model_of(spark, {"id": "int", "amount": "decimal(12,4)"})
    model.take(
        {
            0: ddl(50, "create table o_new (id int, amount decimal(12,2))", "o_new"),
            1: first,
            2: second,
            3: ddl(300, "rename table o_new to o", "o_new"),
            4: message(4, {"id": {"type": "int32"}, "amount": decimal(4)}, 40000),
        }
    )

    read = {row.id: str(row.amount) for row in model.rows if row.reject_reason is None}
    refused = [row.reject_reason for row in model.rows if row.reject_reason]
    if scale is not None:
        amount = {2: "12.3400", 4: "0.1234"}[scale]
        assert (read, refused) == ({1: amount, 2: amount, 4: "4.0000"}, [])
    else:
        assert read == {4: "4.0000"}
        [reason] = refused
        assert "the rows that shop.o got from shop.o_new aren't all known: a row of it" in reason
        assert "amount is a string, declared decimal(12,4)" in reason


@pytest.mark.parametrize(
    "sample", ['{"op":"c","source":{"schema":"public"}}', '{"schema":null,"payload":{}}', "{", None]
)
def test_no_message_is_read_where_the_samples_have_no_schema(
    spark: SparkSession, sample: str | None
) -> None:
    table = source({"id": "int", "c": "decimal(9,2)"}, format="debezium")
    unread = spark.range(1).select(F.raise_error(F.lit("was read")).alias("payload"))
    assert by_own_schemas(unread, table, [("debezium", sample)]) == (table, None)


def test_too_many_schemas_end_the_run(spark: SparkSession) -> None:
    model = model_of(spark, {"id": "int", "amount": "decimal(12,4)"})
    kinds = [{"amount": decimal(4), f"c{n}": {"type": "int32"}} for n in range(MOST_BLOCKS + 1)]
    model.take({n: message(n + 1, kind, 1) for n, kind in enumerate(kinds[1:])})
    with pytest.raises(ValueError, match=f"more than {MOST_BLOCKS} schemas"):
        model.take({n + 5000: message(n + 5000, kind, 1) for n, kind in enumerate(kinds)})


STRUCT = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
TEXT = {"type": "string"}
UNSIGNED = "bigint unsigned"
# declared type, options, schema of the column -> how it is written otherwise, or what the problem
# names it; None where it is as declared
CASES: list[tuple[str, dict[str, str], dict[str, Any], str | None]] = [
    ("decimal(12,4)", {}, decimal(4), None),
    ("decimal(12,4)", {}, STRUCT, None),
    ("decimal(12,4)", {}, TEXT, "is a string"),
    ("decimal(12)", {}, decimal(2), "scale 2"),
    ("decimal(12,4)", {}, decimal(30), "scale 30"),
    ("decimal(12,4)", {}, decimal(31), "is a decimal of scale 31"),
    ("decimal(12,4)", {}, decimal(-1), "is a decimal of scale -1"),
    ("decimal(12,4)", {"decimal.handling.mode": "string"}, decimal(2), None),
    (UNSIGNED, {}, {"type": "int64"}, None),
    (UNSIGNED, {"bigint.unsigned.handling.mode": "precise"}, decimal(0), None),
    (UNSIGNED, {"bigint.unsigned.handling.mode": "precise"}, {"type": "int64"}, "is a int64"),
    (UNSIGNED, {"bigint.unsigned.handling.mode": "precise"}, decimal(2), "is a decimal of scale 2"),
    ("date", {}, counted(f"{DEBEZIUM}Date"), None),
    ("date", {}, counted(f"{CONNECT}Date"), None),
    ("date", {}, counted(f"{DEBEZIUM}Timestamp"), "milliseconds"),
    ("datetime(6)", {}, counted(f"{DEBEZIUM}MicroTimestamp"), None),
    ("datetime(6)", {}, counted(f"{DEBEZIUM}Timestamp"), "milliseconds"),
    ("datetime(6)", {}, counted(f"{DEBEZIUM}Date"), "days"),
    ("datetime(3)", {}, counted(f"{DEBEZIUM}Timestamp"), None),
    ("datetime", {}, counted(f"{CONNECT}Timestamp"), None),
    ("datetime", {}, counted(f"{DEBEZIUM}NanoTimestamp"), "nanoseconds"),
    ("datetime(6)", {"time.precision.mode": "isostring"}, TEXT, None),
    ("datetime(6)", {"time.precision.mode": "connect"}, counted(f"{CONNECT}Timestamp"), None),
    ("timestamp", {}, TEXT, None),
    ("time(3)", {}, counted(f"{DEBEZIUM}MicroTime"), None),
    ("time(3)", {"time.precision.mode": "adaptive"}, counted(f"{DEBEZIUM}Time"), None),
    ("time(3)", {}, counted(f"{DEBEZIUM}Time"), "milliseconds"),
    ("time(3)", {}, counted(f"{DEBEZIUM}Date"), "counts days"),
    ("bit(64)", {"bigint.unsigned.handling.mode": "precise"}, {"type": "bytes"}, None),
    ("int", {}, decimal(3), None),
    # a text may be the base64 of a decimal or of bytes, the digits of a time, or a text
    ("varchar(80)", {}, decimal(2), "is a decimal of scale 2"),
    ("varchar(80)", {}, STRUCT, "is a decimal of scale beside its digits"),
    ("varchar(80)", {"decimal.handling.mode": "string"}, TEXT, None),
    ("varchar(80)", {}, {"type": "int32"}, None),
    ("varchar(80)", {}, {"type": "bytes"}, None),
    ("text", {}, counted(f"{DEBEZIUM}Date"), "counts days"),
    ("json", {}, counted(f"{DEBEZIUM}MicroTimestamp"), "counts microseconds"),
    ("blob", {}, {"type": "bytes"}, None),
    ("varbinary(9)", {}, TEXT, "is a string"),
    ("blob", {"binary.handling.mode": "base64"}, TEXT, None),
    ("blob", {"binary.handling.mode": "base64"}, {"type": "bytes"}, None),
    ("blob", {"binary.handling.mode": "hex"}, TEXT, None),
    ("blob", {"binary.handling.mode": "hex"}, {"type": "bytes"}, "is a bytes"),
]


@pytest.mark.parametrize(("declared", "options", "given", "otherwise"), CASES)
def test_scales_and_units_of_a_schema_are_compared_with_those_that_are_declared(
    declared: str, options: dict[str, str], given: dict[str, Any], otherwise: str | None
) -> None:
    table = source(
        {"id": "int", "c": declared},
        format="debezium",
        options=options,
        aliases={"c": ["was"]},
    )
    for name in ("c", "was"):
        block = json.dumps(schema({"id": {"type": "int32"}, name: given}))
        own, problem = encodings_of(block, table)
        if otherwise is None or not otherwise.startswith(("is ", "counts ")):
            assert (own, problem) == ({} if otherwise is None else {"c": otherwise}, None)
        else:
            assert own == {}
            assert f"misread: c {otherwise}, declared {declared} (" in str(problem)
    assert encodings_of(json.dumps(schema({"other": given})), table) == ({}, None)


@pytest.mark.parametrize("block", ["", "null", "5", "[]", '{"fields":5}', '{"fields":[5,{}]}', "{"])
def test_what_is_no_schema_of_rows_is_no_problem(block: str) -> None:
    table = source({"id": "int", "c": "decimal(9,2)"}, format="debezium")
    assert encodings_of(block, table) == ({}, None)
