"""Numbers of JSON keep each of their digits, or are refused: none passes through a double."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tests.support.lines import envelopes, line, numbered, source, typed

SEED = random.SystemRandom().randrange(10**6)
WRITTEN = [
    "12345678901234567.89",
    "10.10",
    "0.00",
    "-0",
    "-0.0",
    "1E5",
    "1e-7",
    "1.50E+10",
    "1e400",
    "1e-400",
    "-12345678901234567890123456789012345678901234567890.0123456789",
    "123456789012345678901234567890123456789012345678901234567890",
    "0.1000000000000000055511151231257827021181583404541015625",
    "7",
]
DOCUMENTS = [
    '{"a":12345678901234567.89,"b":10.10}',
    '[1.0,{"k":1e3},[-0,2.50],"1.20"]',
    '{"1.5":"2.50","t":"he said \\"9.90\\"","n":null,"x":true,"i":3}',
    '{"deep":{"er":[{"v":0.10000000000000000555}]}}',
    '{"big":1e400,"small":1e-400}',
]
TEXTS = ["12.50", "0", "-0", "{1.5", "[", '"Infinity"', '{"a": 1.50}', "\x01\x02 1.5", "10.1"]


def random_numbers(count: int) -> list[str]:
    """Numbers of 17 to 60 digits in all the forms of JSON."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    found = []
    for _ in range(count):
        digits = "".join(chance.choices("0123456789", k=chance.randint(17, 60)))
        point = chance.randint(0, len(digits))
        whole = digits[:point].lstrip("0") or "0"
        text = chance.choice(["", "-"]) + whole
        if digits[point:]:
            text += "." + digits[point:] + "0" * chance.randint(0, 3)
        found.append(text + chance.choice(["", "", f"e{chance.randint(-30, 30)}", "E+07"]))
    return found


def read(rows: list[Row], name: str = "v") -> list[str | None]:
    assert [row.reject_reason for row in rows] == [None] * len(rows)
    return [row[name] for row in rows]


@pytest.mark.parametrize("kind", ["varchar(90)", "json"])
def test_maxwells_numbers_in_texts_and_documents_stay_as_they_are_written(
    spark: SparkSession, kind: str
) -> None:
    declared = source({"id": "int", "v": kind, "n": "decimal(12,2)"})
    bare = [*WRITTEN, *DOCUMENTS, *random_numbers(60)]
    values = bare + [json.dumps(text) for text in TEXTS]
    expected = bare + TEXTS

    def data(value: str) -> str:
        return f'{{"id":1,"v":{value},"n":9.90}}'

    inserts = typed(spark, numbered(line(data=data(value)) for value in values), declared)
    updates = typed(
        spark,
        numbered(
            line(type='"update"', data=data('"x"'), old=f'{{"v":{value}}}') for value in values
        ),
        declared,
    )

    assert read(inserts) == expected
    assert [row.before.v for row in updates] == expected
    assert {row.n for row in inserts} == {Decimal("9.90")}


def test_debeziums_numbers_in_texts_and_documents_stay_as_they_are_written(
    spark: SparkSession,
) -> None:
    declared = source(
        {"id": "int", "v": "varchar(90)"}, database="shop", table="o", format="debezium"
    )
    bare = [*WRITTEN, *DOCUMENTS, *random_numbers(30)]
    values = bare + [json.dumps(text) for text in TEXTS]

    def message(number: int, value: str, wrapped: bool) -> str:
        origin = (
            '{"connector":"mysql","db":"shop","table":"o","ts_ms":1772416800000,'
            f'"file":"bin.000007","pos":{number},"row":0}}'
        )
        text = (
            f'{{"op":"u","ts_ms":1772416800000,"source":{origin},'
            f'"before":{{"id":1,"v":{value}}},"after":{{"id":1,"v":{value}}}}}'
        )
        return f'{{"schema":{{}},"payload":{text}}}' if wrapped else text

    for wrapped in (False, True):
        lines = [message(number, value, wrapped) for number, value in enumerate(values)]
        rows = typed(spark, lines, declared)

        assert read(rows) == bare + TEXTS
        assert [row.before.v for row in rows] == bare + TEXTS


def test_an_events_numbers_stay_as_they_are_written(spark: SparkSession) -> None:
    columns = {"id": "varchar(9)", "v": "text", "n": "decimal(38,18)"}
    declared = source(columns, database="events", table="t", format="events")
    bare = [*WRITTEN, *DOCUMENTS]
    values = bare + [json.dumps(text) for text in TEXTS]
    exact = "12345678901234567.890000000000000001"
    lines = [
        f'{{"id":"a","received_at":1772416800000,"v":{value},"n":{exact}}}' for value in values
    ]

    rows = typed(spark, lines, declared)

    assert read(rows) == bare + TEXTS
    assert {row.n for row in rows} == {Decimal(exact)}


TOO_NARROW = ["1.2345678901", "1.23456789010", "12345678901.5E-10", "1.5E-400"]


def test_a_decimal_with_more_places_than_can_be_read_is_refused_not_rounded(
    spark: SparkSession,
) -> None:
    good = ["1.234567890", "1.2345678900000000000000000", "15E-1", "1.5e3", "-7"]
    lines = {
        "maxwell": lambda item: line(data=f'{{"id":1,"v":{item}}}'),
        "canal": lambda item: json.dumps(
            {
                "database": "shop",
                "table": "o",
                "type": "INSERT",
                "es": 1772416800000,
                "data": [{"id": "1", "v": item}],
                "mysqlType": {"id": "int", "v": "decimal(38,9)"},
            }
        ),
        "events": lambda item: f'{{"received_at":1772416800000,"id":1,"v":{item}}}',
        "debezium": lambda item: (
            '{"op":"c","ts_ms":1772416800000,"source":{"db":"shop","table":"o","file":"b.1",'
            f'"ts_ms":1772416800000,"pos":4,"row":0}},"before":null,"after":{{"id":1,"v":{item}}}}}'
        ),
    }
    for name, message in lines.items():
        place = {"database": "events", "table": "t"} if name == "events" else {}
        options = {"options": {"decimal.handling.mode": "string"}} if name == "debezium" else {}
        declared = source({"id": "int", "v": "decimal(38,9)"}, format=name, **place, **options)
        rows = typed(spark, numbered(message(item) for item in (*good, *TOO_NARROW)), declared)
        kept, refused = rows[: len(good)], rows[len(good) :]

        assert [row.reject_reason for row in kept] == [None] * len(good), name
        assert [row.v for row in kept] == [Decimal(item) for item in good], name
        for row, text in zip(refused, TOO_NARROW, strict=True):
            assert "is no decimal(38,9)" in (row.reject_reason or ""), (name, text, row.v)


def test_a_mark_in_the_message_itself_is_refused_and_nan_is_no_json(spark: SparkSession) -> None:
    declared = source({"id": "int", "v": "text", "w": "text"})
    marked = line(data='{"id":1,"v":1.50,"w":"\\u0001\\u0002\\u0001"}')
    harmless = line(data='{"id":1,"v":"x","w":"\\u0001\\u0002\\u0001"}')
    rows = typed(spark, numbered([marked, harmless]), declared)

    assert "control characters" in rows[0].reject_reason
    assert (rows[1].reject_reason, rows[1].w) == (None, "\x01\x02\x01")
    for word in ("NaN", "Infinity", "-INF"):
        (row,) = envelopes(spark, [line(data=f'{{"id":1,"v":{word}}}')])
        assert (row.reject_reason or "").startswith("not JSON"), word


def test_canals_bare_numbers_and_documents_are_refused(spark: SparkSession) -> None:
    declared = source({"id": "int", "v": "text"}, format="canal")

    def message(value: str, name: str = '"v":') -> str:
        return (
            '{"database":"shop","table":"o","type":"INSERT","es":1772416800000,"isDdl":false,'
            f'"sqlType":{{"id":4,"v":12}},"data":[{{"id":"1",{name}{value}}}],"old":null}}'
        )

    good = ['"10.10"', '"12345678901234567.890"', '"{\\"a\\":1.50}"', "7", "null"]
    bad = ["10.10", "1e5", "-0", '{"a":1.50}', "[1.5]"]
    written = [message(item) for item in (*good, *bad)]
    for name in ('"v" : ', '"v"\t:', '"\\u0076":', '"x\\"data":[1.5],"v":'):
        written += [message(item, name) for item in bad]
    rows = typed(spark, written, declared)

    assert read(rows[: len(good)]) == ["10.10", "12345678901234567.890", '{"a":1.50}', "7", None]
    assert all("Canal writes texts" in (row.reject_reason or "") for row in rows[len(good) :])


def test_a_decimal_of_a_text_is_rounded_nowhere(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from python_udfs.ingestion.formats.exact_numbers import exact_decimal

    texts = ["1.5", " 1.50 ", "1.23", "1.230", "1.2300000", "+1.231", "-1.239", ".5", "5.", "7"]
    texts += ["1e2", "1E-2", "1.5e-1", "1.25e-1", "1.2345e2", "1.2345e1", "12e-3", "1.23\t", ""]
    texts += ["x", "1.2.3", "1.234e", "0.000", "0.00000001", "1.23000e0"]
    frame = spark.createDataFrame([(text,) for text in texts], "v string")
    found = {
        row[0]: row[1]
        for row in frame.select("v", exact_decimal(F.col("v"), "decimal(9,2)")).collect()
    }

    def exact(text: str) -> Decimal | None:
        try:
            value = Decimal(text.strip())
        except ArithmeticError:
            return None
        return value if value == value.quantize(Decimal("0.01")) else None

    assert found == {text: exact(text) for text in texts}


def test_a_canal_column_may_have_a_name_of_the_message_itself(spark: SparkSession) -> None:
    declared = source({"id": "int", "data": "text"}, format="canal")

    def message(value: str) -> str:
        return (
            '{"database":"shop","table":"o","type":"INSERT","es":1772416800000,"pkNames":["id"],'
            f'"data":[{{"id":"1","data":{value}}}],"old":null}}'
        )

    good, bad = typed(spark, [message('"x"'), message('{"a":1}')], declared)

    assert (good.reject_reason, good.data) == (None, "x")
    assert "Canal writes texts" in bad.reject_reason


def test_mongodbs_numbers_are_exact_or_refused(spark: SparkSession) -> None:
    declared = source(
        {"id": "int", "v": "text", "n": "decimal(38,9)"},
        database="app",
        table="u",
        format="mongodb",
        aliases={"id": ["_id"]},
    )

    def event(number: int, fields: str) -> str:
        return (
            f'{{"_id":{{"_data":"82{number:016X}2B042C0100296E"}},"operationType":"insert",'
            f'"clusterTime":{{"$timestamp":{{"t":{1772416800 + number},"i":1}}}},'
            f'"ns":{{"db":"app","coll":"u"}},"documentKey":{{"_id":1}},'
            f'"fullDocument":{{"_id":1,{fields}}}}}'
        )

    good = {
        '"v":{"$numberDecimal":"12345678901234567890.123456789012340"}': (
            "12345678901234567890.123456789012340"
        ),
        '"v":{"$numberLong":"9223372036854775807"}': "9223372036854775807",
        '"v":9223372036854775807': "9223372036854775807",
        '"v":0.1,"x":1.2345678901234567,"y":0.00012345678901234567': "0.1",
    }
    bad = {
        '"v":12345678901234567.89': "neither a double",
        '"x":{"y":[0.1000000000000000055511]}': "neither a double",
        f'"v":{"123456789" * 6}': "neither a double",
        '"n":{"$numberDecimal":"1.2345678901"}': "is no decimal(38,9)",
    }
    lines = [event(number, item) for number, item in enumerate([*good, *bad])]
    rows = typed(spark, lines, declared)

    assert read(rows[: len(good)]) == list(good.values())
    for row, reason in zip(rows[len(good) :], bad.values(), strict=True):
        assert reason in (row.reject_reason or "")


def test_rows_of_one_position_that_differ_behind_a_doubles_digits_are_two(
    spark: SparkSession,
) -> None:
    def message(value: str) -> str:
        return (
            '{"op":"c","ts_ms":1772416800000,"source":{"connector":"postgresql","db":"shop",'
            '"schema":"public","table":"o","ts_ms":1772416800000,"lsn":77},"before":null,'
            f'"after":{{"id":1,"v":{value}}}}}'
        )

    values = ["12345678901234567.88", "12345678901234567.89"]
    first, second = envelopes(spark, [message(value) for value in values], "debezium")

    assert first.row_number != second.row_number


def test_the_fast_path_reads_no_payload_again(spark: SparkSession) -> None:
    """Rows of texts and of decimals in columns of decimals are read once."""
    from python_udfs.ingestion.formats.exact_numbers import may_be_reprinted

    rows = [
        ('{"v":"12.50"}', "12.50"),
        ('{"v":"{\\"a\\":1.5}"}', '{"a":1.5}'),
        ('{"v":"0","t":"2026-03-02"}', "0"),
        ('{"v":"paid"}', "paid"),
        ('{"v":null}', None),
    ]
    frame = spark.createDataFrame(rows, "payload string, v string")
    found = frame.select(may_be_reprinted({"v": [F.col("v")]}, F.col("payload"))).collect()

    assert [item[0] for item in found] == [False] * len(rows)
