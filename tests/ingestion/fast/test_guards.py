"""What looks like a row and isn't proven, since another reader may see another row in it.

And rows that are proven, with the values that are easily mistaken.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from python_udfs.ingestion.fast import maxwell
from python_udfs.ingestion.fast.images import Layout
from python_udfs.ingestion.fast.lines import proven_lines
from python_udfs.ingestion.fast.maxwell import decode
from python_udfs.ingestion.fast.workers import decoded_batches, with_gaps
from tests.ingestion.fast.in_process import CHANGED_DAY, CHANGING, batch_of, decoded, layout_of
from tests.support.lines import source

TABLE = source(
    {
        "id": "int",
        "small": "tinyint unsigned",
        "amount": "decimal(12,2)",
        "exact": "decimal(30,30)",
        "single": "float",
        "note": "varchar(20)",
        "day": "date",
        "seen_at": "datetime(3)",
    },
    columns_of_interest=["note"],
    aliases={"small": ["tiny"]},
)
LAYOUT = layout_of(TABLE)
ROW = (
    '{"database":"shop","table":"o","type":"update","ts":1772416800,"xid":7,"xoffset":0,'
    '"position":"bin.000007:9580","data":{"id":1,"small":2,"amount":3.50,"exact":0.5,"single":1.5,'
    '"note":"paid","day":"2026-03-01","seen_at":"2026-03-01 00:18:09.062"},"old":{"small":1}}'
)
INSERT = ROW.replace("update", "insert").replace(',"old":{"small":1}', "")
# name -> what stands in ROW, and what is put in its place
BLANKS = {
    "a blank behind a colon": ('"id":1', '"id": 1'),
    "a blank before a colon": ('"id":1', '"id" :1'),
    "a blank behind a brace": ('{"id"', '{ "id"'),
}
# a null that is of the message, though it has a column's name
BESIDE = {
    "behind an object": ('"old":{"small":1}', '"old":{"small":1},"id":null'),
    "between the objects": (',"old":{', ',"id":null,"old":{'),
    "before the objects": ('"data":{', '"id":null,"data":{'),
}
ODD = {
    "a blank before a null": ('"note":"paid"', '"note":"paid","more": null'),
    "a line feed in a text": ("paid", "pa\nid"),
    "a list": ('"note":"paid"', '"note":["paid"]'),
    "an object in an image": ('"note":"paid"', '"note":"paid","more":{"id":2}'),
    "an object beside the images": ('"xid":7', '"xid":{}'),
    "an escape that may be a mark": ("paid", "\\u0001\\u0002\\u0001"),
    "half a character": ("paid", "\\ud83d"),
    "the other half first": ("paid", "\\ude00\\ud83d"),
    "a number in quotes": ('"id":1', '"id":"1"'),
    "a decimal in quotes": ("3.50", '"3.50"'),
    "a text without quotes": ('"paid"', "5"),
    "a truth value": ('"small":2', '"small":true'),
    "a null of an object behind a blank": ('"old":{"small":1}', '"old": {"small":null}'),
    "a null of an object behind a blank before its colon": (
        '"old":{"small":1}',
        '"old" :{"small":null}',
    ),
    "a null of the second of two objects behind blanks": (
        '"note":"paid","day":"2026-03-01","seen_at":"2026-03-01 00:18:09.062"},"old":{"small":1}',
        '"note":"paid"},"old": {"note":null}',
    ),
    "a name twice": ('"small":2', '"small":2,"small":3'),
    "a column by two of its names": ('"small":2', '"small":2,"tiny":2'),
    "a column by two of its names beside an undeclared member": (
        '"small":2',
        '"tiny":2,"more":"x","small":null',
    ),
    "a name with an escape": ('"old":{"small"', '"old":{"sm\\u0061ll"'),
    "a name in another case": ('"small":2', '"Small":2'),
    "a name in another case beyond ASCII": ('"small":2', '"\u017fmall":2'),
    "a key that is null": ('"data":{"id":1', '"data":{"id":null'),
    "a key that was null": ('"old":{"small":1', '"old":{"id":null'),
    "a watched column that is absent": ('"note":"paid",', ""),
    "a watched column that is null between the images alone": (
        '"note":"paid","day":"2026-03-01","seen_at":"2026-03-01 00:18:09.062"},"old"',
        '"day":"2026-03-01"},"note":null,"old"',
    ),
    "an update without `old`": (',"old":{"small":1}', ""),
    "an update whose `old` is null": ('"old":{"small":1}', '"old":null'),
    "an insert with `old`": ("update", "insert"),
    "another object than `old`": ('"old":{', '"def":{'),
    "no row": ('"data":{', '"rows":{'),
    "an integer beyond its type": ('"small":2', '"small":256'),
    "an integer with a point": ('"small":2', '"small":2.0'),
    "an old value beyond its type": ('"old":{"small":1', '"old":{"small":-1'),
    "a decimal with a digit too many": ("3.50", "99999999999.5"),
    "a decimal with a place too many": ("3.50", "3.505"),
    "a decimal of so many places that its digits overflow": ("0.5", "18446744073709551615"),
    # the parser divides by what lies behind its powers of ten: 0, another number, or its end
    "a decimal with a negative exponent": ("3.50", "350e-2"),
    "a decimal with a negative exponent behind a blank": ('"amount":3.50', '"amount" :350e-2'),
    "a decimal with an exponent beyond the powers of ten": ("3.50", "1E-500"),
    "a decimal whose exponent ends the process": ('"exact":0.5', '"exact":-1e-214748364'),
    "an old value whose exponent ends it": ('"old":{"small":1', '"old":{"amount":0e-214748364'),
    "an exponent behind a blank that ends it": ('"exact":0.5', '"exact" : -1e-214748364'),
    "an exponent in quotes that ends it": ("3.50", '"1e-214748364"'),
    "an exponent in quotes behind blanks that ends it": (":3.50", ' : "-1.5E-214748364"'),
    "an exponent whose e is an escape": ("3.50", '"1\\u0065-214748364"'),
    "an exponent whose sign is an escape": ("3.50", '"1e\\u002D214748364"'),
    "an exponent of digits that are escapes": ("3.50", '"\\u0031e-214748364"'),
    "an exponent of a name with an escape": ('"amount":3.50', '"\\u0061mount":"1e-214748364"'),
    # times 10 to the 30, less a multiple of 2 to the 128, it is 0.9
    "a decimal whose digits overflow to fewer": ("0.5", "49728795024063407889774029646"),
    "minus zero": ('"single":1.5', '"single":-0.0'),
    "a double halfway between two floats": ('"single":1.5', '"single":1.000000059604644775390625'),
    "a float of more digits than it has": ('"single":1.5', '"single":1.123456789'),
    "a large float of more digits": ('"single":1.5', '"single":123456789012.0'),
    "a float beyond its type": ('"single":1.5', '"single":1e39'),
    "NaN": ('"single":1.5', '"single":NaN'),
    "a T within a time": ("2026-03-01 00:18", "2026-03-01T00:18"),
    "a time with a zone": ("09.062", "09Z"),
    "a time without seconds": ("00:18:09.062", "00:18"),
    "a fraction without digits": ("09.062", "09."),
    "seven digits of a fraction": ("09.062", "09.0620001"),
    "a date with a time": ('"2026-03-01"', '"2026-03-01 00:00:00"'),
    "a month that can't be": ('"2026-03-01"', '"2026-13-01"'),
    "a zero date of another form": ('"2026-03-01"', '"2026-00-41"'),
    "a year before 1000": ('"2026-03-01"', '"0999-12-31"'),
}


def row_of(layout: Layout, text: str) -> dict[str, Any]:
    """The row of a text that is proven."""
    found = decoded(layout, [text])
    assert sorted(found) == [0], text
    return found[0]


def replaced(names: dict[str, tuple[str, str]], name: str) -> str:
    """ROW with what a name stands for."""
    right, wrong = names[name]
    assert right in ROW
    return ROW.replace(right, wrong, 1)


def by_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no line be proven by its quotes."""
    monkeypatch.setattr(maxwell, "counted_images", lambda *_: None)


def is_proven_alone(text: str) -> bool:
    """Whether a text is proven; among others it doesn't take them with it."""
    alone, beside = decoded(LAYOUT, [text]), decoded(LAYOUT, [ROW, text, INSERT])
    among = decoded(LAYOUT, [*[ROW] * 50, text, *[INSERT] * 50])
    others = {0: decoded(LAYOUT, [ROW])[0], 2: decoded(LAYOUT, [INSERT])[0]}
    assert {number: beside[number] for number in others} == others
    found = {bool(alone), 1 in beside, 50 in among}
    assert len(among) == 100 + (50 in among)
    assert len(found) == 1, text
    return found.pop()


@pytest.mark.parametrize("name", ODD)
def test_what_another_reader_may_see_otherwise_is_left_to_spark(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert not is_proven_alone(replaced(ODD, name))
    by_structure(monkeypatch)
    assert not is_proven_alone(replaced(ODD, name))


@pytest.mark.parametrize("name", BESIDE)
def test_a_null_beside_the_images_is_no_value_of_a_column(name: str) -> None:
    text, [row] = replaced(BESIDE, name), decoded(LAYOUT, [ROW]).values()
    assert decoded(LAYOUT, [text]) == {0: row}
    # one such among many
    assert decoded(LAYOUT, [*[ROW] * 99, text]).get(99, row) == row


def test_a_null_behind_a_brace_in_a_text_is_of_the_texts_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = '"old":{"note":"}","seen_at":null}', '"note":"}","more":"}}","seen_at":null,'
    text = ROW.replace('"old":{"small":1}', texts[0]).replace('"note":"paid",', texts[1])
    text = text.replace(',"seen_at":"2026-03-01 00:18:09.062"', "")
    [found] = decoded(LAYOUT, [text]).values()
    assert found["changes"] == [] and found["before"]["seen_at"] is None
    text = text.replace('"seen_at":null,"day"', '"day"')
    text = text.replace('"day":', '"seen_at":"2026-03-01 00:18:09.062","day":')
    [found] = decoded(LAYOUT, [text]).values()
    assert found["changes"] == ["seen_at"] and found["before"]["seen_at"] is None
    by_structure(monkeypatch)
    assert decoded(LAYOUT, [text]) == {0: found}


@pytest.mark.parametrize("name", BLANKS)
def test_blanks_hide_nothing_where_all_members_are_read(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text = replaced(BLANKS, name)
    assert decoded(LAYOUT, [text]) == decoded(LAYOUT, [ROW])
    assert is_proven_alone(text)
    by_structure(monkeypatch)
    assert not is_proven_alone(text)


def test_the_structure_of_a_line_with_two_objects_isnt_proven() -> None:
    lines = pa.array([text + "\n" for text in (ROW, ROW + INSERT, INSERT)])
    kept, _ = proven_lines(lines)
    assert kept.tolist() == [0, 2]


def test_a_row_is_proven_with_both_its_images() -> None:
    found = decoded(LAYOUT, [ROW, INSERT])
    after = {
        "id": 1,
        "small": 2,
        "amount": Decimal("3.50"),
        "exact": Decimal("0.5"),
        "single": 1.5,
        "note": "paid",
        "day": date(2026, 3, 1),
        "seen_at": datetime(2026, 2, 28, 16, 18, 9, 62000, UTC),
        "raw_values": None,
    }
    update = {"after": after, "before": after | {"small": 1}, "changes": ["small"]}
    update["cut_date"] = date(2026, 3, 2)
    assert found == {0: update, 1: update | {"before": None, "changes": None}}


def test_a_null_of_the_old_row_isnt_taken_for_a_column_that_did_not_change() -> None:
    row = row_of(LAYOUT, ROW.replace('{"small":1}', '{"note":null}'))
    assert (row["before"]["note"], row["before"]["small"], row["changes"]) == (None, 2, ["note"])


def test_texts_of_the_row_are_no_structure() -> None:
    note = r"}{\",\"old\":{\"note\":null},[{\\"
    row = row_of(LAYOUT, ROW.replace("paid", note))
    assert row["after"]["note"] == '}{","old":{"note":null},[{\\'
    assert row["before"]["note"] == row["after"]["note"]


def test_what_looks_like_an_exponent_in_a_text_or_a_name_is_none() -> None:
    row = row_of(LAYOUT, ROW.replace("paid", "1e-9").replace('"xid"', '"1e-9":1e9,"xid"'))
    assert row["after"]["note"] == "1e-9"


def test_a_table_without_decimals_may_have_negative_exponents() -> None:
    layout = layout_of(source({"id": "int", "single": "double"}))
    row = ROW[: ROW.index('"data"')] + '"data":{"id":1,"single":1.5E-10},"old":{"id":1}}'
    assert row_of(layout, row)["after"]["single"] == 1.5e-10


def test_a_date_that_the_calendar_lacks_is_kept_as_text() -> None:
    text = ROW.replace('"2026-03-01"', '"0000-00-00"').replace("2026-03-01 00", "2026-02-30 00")
    row = row_of(LAYOUT, text)
    kept = {"day": "0000-00-00", "seen_at": "2026-02-30 00:18:09.062"}
    assert row["after"]["raw_values"] == row["before"]["raw_values"] == kept
    assert row["after"]["day"] is row["after"]["seen_at"] is None
    text = ROW.replace('{"small":1}', '{"day":"2026-00-01"}')
    row = row_of(LAYOUT, text)
    assert row["after"]["raw_values"] is None
    assert row["before"]["raw_values"] == {"day": "2026-00-01"}


def test_times_around_a_change_of_the_zones_offset_are_left_to_spark() -> None:
    changing = layout_of(TABLE, CHANGING)
    days = [datetime.fromtimestamp((CHANGED_DAY + n) * 86400, UTC).date() for n in range(-3, 4)]
    texts = [ROW.replace("2026-03-01 00", f"{day} 00") for day in days]
    found = decoded(changing, texts)
    assert sorted(found) == [0, 1, 5, 6]
    assert found[0]["after"]["seen_at"].hour == 23
    assert found[6]["after"]["seen_at"].hour == 22


def test_a_cut_value_that_cant_be_true_dates_nothing() -> None:
    dated = layout_of(source({"id": "int", "at": "datetime"}, cut_column="at"))
    times = {
        "2026-03-01 23:59:59": date(2026, 3, 1),
        "2026-03-03 10:00:00": date(2026, 3, 3),  # a day ahead of the log, to the second
        "2026-03-03 10:00:01": date(2026, 3, 2),
        "1970-01-02 00:00:00": date(1970, 1, 2),
        "1970-01-01 23:59:59": date(2026, 3, 2),
        "0000-00-00 00:00:00": date(2026, 3, 2),
    }
    texts = [f'{{"type":"insert","data":{{"id":1,"at":"{time}"}}}}' for time in times]
    found = decoded(dated, texts)
    assert len(found) == len(texts)
    assert [found[number]["cut_date"] for number in range(len(times))] == list(times.values())
    deleted = texts[0].replace("insert", "delete")
    row = row_of(dated, deleted)
    assert row["cut_date"] == date(2026, 3, 2)


def nulls_of(batches: list, twice_in: int = 10**9) -> list[int]:
    """Of each batch the number of messages that aren't proven."""
    return [
        rows.null_count for rows in decoded_batches(batches, decode, LAYOUT, with_gaps, twice_in)
    ]


def test_a_task_that_proves_little_leaves_its_further_messages_to_spark() -> None:
    hidden = ROW.replace('"id":1', '"Id":1')
    bad, good = [batch_of([hidden] * 1500, n * 1500) for n in range(2)], batch_of([ROW] * 10)
    assert nulls_of([good, *bad, good]) == [0, 1500, 1500, 10]
    assert nulls_of([batch_of([ROW] * 1600), *bad, good])[-1] == 10
    assert nulls_of([batch_of([ROW] * 3100), *bad, good])[-1] == 0


def test_proven_rows_stand_at_their_messages_places() -> None:
    other = ROW.replace('"id":1', '"id":2')
    [rows] = decoded_batches(
        [batch_of(["null", other, "", ROW, "{}"])], decode, LAYOUT, with_gaps, 10**9
    )
    ids = [row and row["after"]["id"] for row in rows.to_pylist()]
    assert ids == [None, 2, None, 1, None]


def test_what_the_decoder_fails_at_is_left_to_spark() -> None:
    def fails(*_: object) -> NoReturn:
        raise MemoryError

    [found] = decoded_batches([batch_of([ROW] * 3)], fails, LAYOUT, with_gaps, 1)
    assert found.null_count == 3


def test_batches_that_are_decoded_twice_are_always_the_same() -> None:
    batches = [batch_of([ROW, "null"], 2 * n) for n in range(200)]

    def twice() -> list[bool]:
        found = [
            rows.to_pylist() for rows in decoded_batches(batches, decode, LAYOUT, with_gaps, 10)
        ]
        assert all(second is None for _, second in found)
        return [first["twice"] for first, _ in found]

    chosen = twice()
    assert 5 < sum(chosen) < 50
    assert twice() == chosen
