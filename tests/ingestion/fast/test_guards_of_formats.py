"""What looks like a row of Canal or Debezium and isn't proven, and rows that are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from python_udfs.ingestion.fast import canal
from python_udfs.ingestion.fast.workers import as_lists, decoded_batches
from tests.ingestion.fast.in_process import batch_of, decoded, decoded_rows, layout_of
from tests.support.lines import source

COLUMNS = {
    "id": "bigint unsigned",
    "small": "tinyint",
    "amount": "decimal(12,2)",
    "wide": "decimal(30,4)",
    "single": "float",
    "note": "varchar(40)",
    "kind": "enum('new','it''s')",
    "flags": "set('a','b','c')",
    "day": "date",
    "seen_at": "datetime(3)",
    "stored_at": "timestamp(6)",
    "took": "time(3)",
    "bits": "bit(12)",
    "on_off": "bit(1)",
}
AFTER = {
    "id": Decimal(2**64 - 1),
    "small": -2,
    "amount": Decimal("-3.50"),
    "wide": Decimal("12345678901234567890.0001"),
    "single": 1.5,
    "note": "}],",
    "kind": "it's",
    "flags": "a,c",
    "day": date(2026, 3, 1),
    "seen_at": datetime(2026, 2, 28, 16, 18, 9, 62000, UTC),
    "stored_at": datetime(2026, 3, 1, 0, 18, 9, 62001, UTC),
    "took": "-101:00:01.500",
    "bits": Decimal(0xA01),
    "on_off": Decimal(1),
    "raw_values": None,
}
CANAL = layout_of(source(COLUMNS, columns_of_interest=["note"], format="canal"))
DEBEZIUM = layout_of(source(COLUMNS, columns_of_interest=["note"], format="debezium"))
TYPES = """{"kind":"enum('new','it''s')","flags":"set('a','b','c')"}"""
CANAL_ROW = (
    '{"id":"18446744073709551615","small":"-2","amount":"-3.5","wide":"12345678901234567890.0001",'
    '"single":"1.5","note":"}],","kind":"2","flags":"5","day":"2026-03-01",'
    '"seen_at":"2026-03-01 00:18:09.062","stored_at":"2026-03-01 00:18:09.062001",'
    '"took":"-101:00:01.500","bits":"2561","on_off":"1"}'
)
CANAL_MESSAGE = (
    f'{{"data":[{CANAL_ROW},{CANAL_ROW}],"database":"shop","es":1772416800000,"isDdl":false,'
    f'"mysqlType":{TYPES},"old":[{{"small":"1"}},{{"note":null}}],"pkNames":["id"],"sql":"",'
    '"table":"o","type":"UPDATE"}'
)
ODD_CANAL = {
    "a number without quotes": ('"small":"-2"', '"small":-2'),
    "a plus": ('"small":"-2"', '"small":"+2"'),
    "a blank in a number": ('"small":"-2"', '"small":" 2"'),
    "a number with digits of 16": ('"small":"-2"', '"small":"0x1"'),
    "no digits": ('"small":"-2"', '"small":""'),
    "a number beyond its type": ('"small":"-2"', '"small":"128"'),
    "a point": ('"small":"-2"', '"small":"2.0"'),
    "a place too many": ("-3.5", "-3.505"),
    "an exponent of a decimal": ("-3.5", "3e1"),
    # 2 to the 128 and 1, 2 to the 127: the digits overflow to 1 and to 0
    "a number whose digits overflow": (
        '"id":"18446744073709551615"',
        '"id":"340282366920938463463374607431768211457"',
    ),
    "a decimal whose digits overflow": (
        '"12345678901234567890.0001"',
        '"170141183460469231731687303715884105728"',
    ),
    "a float in words": ('"single":"1.5"', '"single":"NaN"'),
    "an enum's index without label": ('"kind":"2"', '"kind":"3"'),
    "an enum's label": ('"kind":"2"', '"kind":"new"'),
    "a set's bits that are no number": ('"flags":"5"', '"flags":"a"'),
    "an object in a row": ('"small":"-2"', '"small":"-2","more":{"id":"2"}'),
    "a list in a row": ('"small":"-2"', '"small":["-2"]'),
    "a row that is null": ('"data":[{', '"data":[null,{'),
    "numbers in another list": ('"pkNames":["id"]', '"pkNames":[1]'),
    "not a number in another list": ('"pkNames":["id"]', '"pkNames":["id",NaN]'),
    "a point in what describes the rows": ('"pkNames"', '"sqlType":{"small":-5.5},"pkNames"'),
    "an exponent in what describes the rows": ("\"flags\":\"set('a','b','c')\"", '"flags":12e1'),
    "a negative zero in what describes the rows": ('"pkNames"', '"sqlType":{"small":-0},"pkNames"'),
    "a list of a column's name": ('"isDdl":false', '"id":[]'),
    "an object of a name with escapes": ('"isDdl":false', r'"\u0069d":{}'),
    "a second, empty list of rows": ('"isDdl":false', '"data":[]'),
    "fewer old rows": (',{"note":null}]', "]"),
    "an update without old rows": ('"old":[{"small":"1"},{"note":null}]', '"old":null'),
    "an insert with old rows": ('"type":"UPDATE"', '"type":"INSERT"'),
    "a name twice": ('"small":"-2"', '"small":"-2","small":"3"'),
    "a name in another case": ('"small":"-2"', '"Small":"-2"'),
    "a watched column that is absent": ('"note":"}],",', ""),
    "a key that was null": ('{"note":null}]', '{"id":null}]'),
    "a bracket too many": ('"pkNames":["id"]', '"pkNames":[["id"]'),
    "a brace for a bracket": ('"pkNames":["id"]', '"pkNames":["id"}'),
}
DEBEZIUM_ROW = (
    '{"id":-1,"small":-2,"amount":"/qI=","wide":"GiSbHxCgbJarIQ==","single":1.5,"note":"}],",'
    '"kind":"it\'s","flags":"a,c","day":20513,"seen_at":1772324289062,'
    '"stored_at":"2026-03-01T00:18:09.062001Z","took":-363601500000,"bits":"AQo=","on_off":true}'
)
DEBEZIUM_MESSAGE = (
    f'{{"before":{DEBEZIUM_ROW.replace(":-2", ":1")},"after":{DEBEZIUM_ROW},'
    '"source":{"db":"shop","table":"o","pos":1},"op":"u","ts_ms":1772416800000}'
)
SCHEMA = '{"type":"struct","fields":[{"type":"struct","fields":[{"field":"id"}]}],"version":1}'
WRAPPED = f'{{"schema":{SCHEMA},"payload":{DEBEZIUM_MESSAGE}}}'
ODD_DEBEZIUM = {
    "a decimal as a number": ('"amount":"/qI="', '"amount":-3.5'),
    "a decimal in digits": ('"amount":"/qI="', '"amount":"-3.5"'),
    "base64 of nothing": ('"amount":"/qI="', '"amount":""'),
    "base64 whose last bits are lost": ('"amount":"/qI="', '"amount":"/qJ="'),
    "base64 with a sign too many": ('"amount":"/qI="', '"amount":"/q=="'),
    "base64 of another alphabet": ('"amount":"/qI="', '"amount":"_qI="'),
    "a decimal beyond its type": ('"amount":"/qI="', '"amount":"gAAAAAAAAAA="'),
    "a decimal with a scale of its own": ('"amount":"/qI="', '"amount":{"scale":2,"value":"/qI="}'),
    "a truth value for a number": ('"small":-2', '"small":true'),
    "a number for a truth value": ('"on_off":true', '"on_off":1'),
    "more bits than the type has": ('"bits":"AQo="', '"bits":"AQoB"'),
    "a day before the year 1000": ('"day":20513', '"day":-400000'),
    "a day after the year 9999": ('"day":20513', '"day":2932897'),
    "a day in a text": ('"day":20513', '"day":"20513"'),
    "a time after the year 9999": ("1772324289062", "253402300800000"),
    "a time that overflows": ("1772324289062", "9223372036854775807"),
    "a time in another zone": ("09.062001Z", "09.062001+01:00"),
    "a time without a zone": ("09.062001Z", "09.062001"),
    "a day that the calendar lacks": ("2026-03-01T", "2026-02-30T"),
    "a time of more places than its type": ("-363601500000", "-363601500001"),
    "a time longer than MySQL's": ("-363601500000", "3020400000000"),
    "a text that was left out": ('"}],"', '"__debezium_unavailable_value"'),
    "no image before": ('"before":{', '"befor":{'),
    "no image after": ('"after":{', '"afte":{'),
    "an image that is a list": ('"after":{', '"after":[],"afte":{'),
    "an insert with an image before": ('"op":"u"', '"op":"c"'),
    "a delete with an image after": ('"op":"u"', '"op":"d"'),
    "a watched column that was absent": ('"note":"}],",', ""),
    "a name in another case": ('"small":', '"Small":'),
    "another form beside it": ('"op":"u"', '"op":"u","payload":{"before":null}'),
    "a payload that is no object": ('"op":"u"', '"op":"u","payload":5'),
}


@pytest.mark.parametrize("name", ODD_CANAL)
def test_what_another_reader_of_canal_may_see_otherwise_is_left_to_spark(name: str) -> None:
    right, wrong = ODD_CANAL[name]
    assert right in CANAL_MESSAGE
    text = CANAL_MESSAGE.replace(right, wrong, 1)
    assert decoded(CANAL, [text], "canal") == {}
    both = decoded_rows(CANAL, [CANAL_MESSAGE, text, CANAL_MESSAGE], "canal")
    assert [number for number, _ in both] == [0, 0, 2, 2]


def test_a_message_of_canal_has_all_its_rows_with_both_images() -> None:
    found = decoded_rows(CANAL, [CANAL_MESSAGE], "canal")
    befores = [AFTER | {"small": 1}, AFTER | {"note": None}]
    assert [number for number, _ in found] == [0, 0]
    assert [row["after"] for _, row in found] == [AFTER, AFTER]
    assert [row["before"] for _, row in found] == befores
    assert [row["changes"] for _, row in found] == [["small"], ["note"]]


def test_old_rows_of_a_message_of_canal_arent_taken_for_those_of_another() -> None:
    fewer = CANAL_MESSAGE.replace(',{"note":null}]', "]")
    more = CANAL_MESSAGE.replace(f",{CANAL_ROW}", "")
    assert decoded(CANAL, [fewer, more], "canal") == {}


def test_rows_of_canal_stand_in_lists_at_their_messages_places() -> None:
    single = CANAL_MESSAGE.replace(f",{CANAL_ROW}", "").replace(',{"note":null}', "")
    batch = batch_of(["null", CANAL_MESSAGE, "{}", single])
    [rows] = decoded_batches([batch], canal.decode, CANAL, as_lists, 10**9)
    assert [None if found is None else len(found) for found in rows.to_pylist()] == (
        [None, 2, None, 1]
    )


@pytest.mark.parametrize("name", ODD_DEBEZIUM)
def test_what_another_reader_of_debezium_may_see_otherwise_is_left_to_spark(name: str) -> None:
    right, wrong = ODD_DEBEZIUM[name]
    assert right in DEBEZIUM_MESSAGE
    text = DEBEZIUM_MESSAGE.replace(right, wrong, 1)
    assert decoded(DEBEZIUM, [text], "debezium") == {}
    both = [DEBEZIUM_MESSAGE, text, DEBEZIUM_MESSAGE]
    assert sorted(decoded(DEBEZIUM, both, "debezium")) == [0, 2]


@pytest.mark.parametrize("message", [DEBEZIUM_MESSAGE, WRAPPED], ids=["plain", "with schema"])
def test_a_row_of_debezium_has_both_its_images(message: str) -> None:
    found = decoded(DEBEZIUM, [message], "debezium")
    assert found[0]["after"] == AFTER
    assert found[0]["before"] == AFTER | {"small": 1}
    assert found[0]["changes"] == ["small"]


def test_a_deleted_row_of_debezium_is_its_row_before() -> None:
    text = DEBEZIUM_MESSAGE.replace(f'"after":{DEBEZIUM_ROW}', '"after":null')
    row = decoded(DEBEZIUM, [text.replace('"op":"u"', '"op":"d"')], "debezium")[0]
    assert row["after"] == row["before"] == AFTER | {"small": 1}
    assert row["changes"] is None


def test_a_row_before_that_holds_the_key_alone_is_left_to_spark() -> None:
    empty = ",".join(f'"{name}":{-1 if name == "id" else "null"}' for name in COLUMNS)
    begin, end = DEBEZIUM_MESSAGE.index("{", 5), DEBEZIUM_MESSAGE.index(',"after"')
    text = f"{DEBEZIUM_MESSAGE[:begin]}{{{empty}}}{DEBEZIUM_MESSAGE[end:]}"
    assert decoded(DEBEZIUM, [text], "debezium") == {}


def test_messages_with_and_without_schema_in_one_batch_are_read_by_the_form_of_most() -> None:
    mixed = [WRAPPED, DEBEZIUM_MESSAGE, WRAPPED]
    assert sorted(decoded(DEBEZIUM, mixed, "debezium")) == [0, 2]
    assert sorted(decoded(DEBEZIUM, [DEBEZIUM_MESSAGE, *mixed[:2]], "debezium")) == [0, 2]
