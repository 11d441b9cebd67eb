"""The images before and after a change, from Maxwell's `data` and `old`.

Longer than 500 lines: all its cases share the messages and the schema that helpers here make.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.maxwell import LAST_ROW
from python_udfs.ingestion.typed import duplicates
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.duplicates import deduplicate
from python_udfs.ingestion.typed.rows import decoded
from tests.support import histories, oracle
from tests.support.latest import NOT_IN_THE_LOG, VIEWS, declaration
from tests.support.lines import (
    ROW_IMAGES,
    ZONE,
    line,
    numbered,
    raw_lines,
    source,
    typed,
)

COLUMNS = {
    "id": "bigint unsigned",
    "status": "varchar(20)",
    "amount": "decimal(12,2)",
    "city": "varchar(20)",
    "note": "text",
    "old": "int",
    "at": "datetime(3)",
}
DECLARED = source(
    COLUMNS,
    cut_column="at",
    columns_of_interest=["status"],
    aliases={"city": ["start_city", "town"]},
    schema_version=4,
)
NAMES = list(COLUMNS)
VARS = ("topic", "format", "log_resets")  # keys whose value in the project is a var
AT = '"at":"2026-03-02 09:00:00.000"'
DATA = f'{{"id":1,"status":"paid","amount":9.90,"city":"c","note":null,"old":3,{AT}}}'
AFTER = [1, "paid", Decimal("9.90"), "c", None, 3, datetime(2026, 3, 2, 1)]
NO_OLD = "an update without `old`: the server's binlog_row_image must be FULL"
LACKS = (
    "the row image lacks {} (is binlog_row_image FULL, is the column declared by its right name?)"
)


def update(old: str | None, data: str = DATA) -> str:
    return line(type='"update"', data=data, old=old)


def but(**changes) -> list:
    """AFTER with other values: what the before image must be."""
    return [changes.get(name, value) for name, value in zip(NAMES, AFTER, strict=True)]


NULL_WORDS = '\\"old\\":{\\"status\\":null},null'

# name -> (line, before image or None, metadata_changes)
GOOD: dict[str, tuple[str, list | None, list[str] | None]] = {
    "insert": (line(data=DATA), None, None),
    "delete": (line(type='"delete"', data=DATA), AFTER, None),
    "absent in old is unchanged": (
        update('{"status":"new"}'),
        but(status="new"),
        ["status"],
    ),
    "null in old was null": (update('{"status":null}'), but(status=None), ["status"]),
    "null and value in old": (
        update('{"status":null,"amount":1.10}'),
        but(status=None, amount=Decimal("1.10")),
        ["status", "amount"],
    ),
    "every column was null but the key": (
        update('{"status":null,"amount":null,"city":null,"old":null,"at":null}'),
        [1, *[None] * 6],
        ["status", "amount", "city", "old", "at"],
    ),
    "value that became null": (update('{"note":"n"}'), but(note="n"), ["note"]),
    "old key": (update('{"id":18446744073709551615}'), but(id=2**64 - 1), ["id"]),
    "old of a column that is not declared": (update('{"other":null}'), AFTER, []),
    "old that is empty": (update("{}"), AFTER, []),
    "old with the same value": (update('{"status":"paid"}'), AFTER, []),
    "a column named old": (update('{"old":null}'), but(old=None), ["old"]),
    "blank behind old": (
        update(None).replace("}}", '},"old" : {"status":null}}'),
        but(status=None),
        ["status"],
    ),
    "old with blanks and a later column named old": (
        update(None).replace('"data":', '"old" : { "status" : null }, "data":'),
        but(status=None),
        ["status"],
    ),
    "old before data": (
        update(None).replace('"data":', '"old":{"status":null},"data":'),
        but(status=None),
        ["status"],
    ),
    "old before data, no null in it": (
        update(None).replace('"data":', '"old":{"status":"x"},"data":'),
        but(status="x"),
        ["status"],
    ),
    "old named by an escape": (
        update(None).replace("}}", '},"\\u006fld":{"status":null}}'),
        but(status=None),
        ["status"],
    ),
    "the words of old and null in a text of data": (
        update('{"amount":1.00}', DATA.replace('"paid"', f'"{NULL_WORDS}"')),
        [1, '"old":{"status":null},null', Decimal("1.00"), *AFTER[3:]],
        ["amount"],
    ),
    "the words of old and null in a text of old": (
        update(f'{{"status":"{NULL_WORDS}"}}'),
        but(status='"old":{"status":null},null'),
        ["status"],
    ),
    "a text that is the word null": (update('{"status":"null"}'), but(status="null"), ["status"]),
    "a null in old besides the words in data": (
        update('{"status":null}', DATA.replace('"note":null', f'"note":"{NULL_WORDS}"')),
        but(status=None, note='"old":{"status":null},null'),
        ["status"],
    ),
    "one key twice in old": (
        update('{"status":"x","status":null}'),
        but(status=None),
        ["status"],
    ),
    "columns in another order": (
        update(
            '{"amount":1.00}',
            f'{{{AT},"old":3,"note":null,"city":"c","amount":9.90,"status":"paid","id":1}}',
        ),
        but(amount=Decimal("1.00")),
        ["amount"],
    ),
    "an added column is absent in images from before": (
        line(type='"delete"', data=f'{{"id":1,"status":"paid",{AT}}}'),
        [1, "paid", None, None, None, None, AFTER[-1]],
        None,
    ),
    "a dropped column is passed over": (
        line(type='"delete"', data=DATA[:-1] + ',"legacy":{"a":[null]}}'),
        AFTER,
        None,
    ),
    "a column under its old name": (
        update('{"start_city":"d"}', DATA.replace('"city"', '"start_city"')),
        but(city="d"),
        ["city"],
    ),
    "a column under its old name that was null": (
        update('{"town":null}', DATA.replace('"city"', '"town"')),
        but(city=None),
        ["city"],
    ),
    "envelope's keys in another order": (
        f'{{"data":{DATA},"old":{{"status":null}},"position":"bin.000007:9580","xoffset":0,'
        '"xid":7,"ts":1772416800,"type":"update","table":"o","database":"shop"}',
        but(status=None),
        ["status"],
    ),
}

# name -> (line, reason)
REFUSED: dict[str, tuple[str, str]] = {
    "no data": (line(data=None), "no `data` object"),
    "data null": (line(data="null"), "no `data` object"),
    "data text": (line(data='"x"'), "no `data` object"),
    "data list": (line(data=f"[{DATA}]"), "no `data` object"),
    "update without old": (update(None), NO_OLD),
    "old null": (update("null"), NO_OLD),
    "old text": (update('"x"'), "`old` is no object"),
    "old list": (update('[{"status":"x"}]'), "`old` is no object"),
    "key absent": (line(data=DATA.replace('"id":1,', "")), LACKS.format("id")),
    "key null": (line(data=DATA.replace('"id":1', '"id":null')), "the key column id is null"),
    "key null in old": (update('{"id":null}'), "the key column id is null"),
    "key null in a delete": (
        line(type='"delete"', data=DATA.replace('"id":1', '"id":null')),
        "the key column id is null",
    ),
    "column of interest absent": (
        line(data=DATA.replace('"status":"paid",', "")),
        LACKS.format("status"),
    ),
    "cut column absent": (line(data=DATA.replace("," + AT, "")), LACKS.format("at")),
    "all that is watched absent": (line(data="{}"), LACKS.format("id, status, at")),
    "wrong type in old": (update('{"old":"x"}'), "old.old = x is no int"),
    "fraction in old of an integer": (
        update('{"old":1.5,"start_city":"a"}'),
        "old.old = 1.5 is no int",
    ),
    "too many decimals in old": (
        update('{"amount":1.005}'),
        "before.amount = 1.0050000000000000000000000000 is no decimal(12,2)",
    ),
    "no date in old": (update('{"at":"soon"}'), "before.at = soon is no datetime(3)"),
    "a lone surrogate in old": (
        update('{"status":"\\uDE00"}'),
        "a lone surrogate escape: half of a character, which no text can hold",
    ),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, Row]:
    """name -> typed row, from one job."""
    lines = numbered(text for text, *_ in [*GOOD.values(), *REFUSED.values()])
    return dict(zip([*GOOD, *REFUSED], typed(spark, lines, DECLARED), strict=True))


@pytest.mark.parametrize("name", GOOD)
def test_both_images_of_a_change(rows, name):
    row = rows[name]
    text, before, changes = GOOD[name]
    assert row.reject_reason is None
    after = [row[column] for column in NAMES]
    assert ([row.before[column] for column in NAMES] if row.before else None) == before
    if row.op_type == "delete":
        assert after == before
    elif "\\" not in text and "old name" not in name:
        assert after == AFTER
    assert row.metadata_changes == changes
    assert (row.metadata_table, row.schema_version, row.batch_id) == ("shop.o", 4, "live")
    assert row.metadata_op_type == row.op_type
    assert row.metadata_commit_ts == row.event_time == datetime(2026, 3, 2, 2)
    assert row.cut_date == date(2026, 3, 2)


@pytest.mark.parametrize("name", REFUSED)
def test_images_that_cannot_be_had_are_refused_with_the_reason(rows, name):
    row = rows[name]
    assert row.reject_reason == REFUSED[name][1]
    assert all(row[column] is None for column in (*NAMES, "before", "cut_date"))
    assert row.metadata_changes is None
    assert row.reject_payload[:40] == REFUSED[name][0][:40]
    assert (row.topic, row.partition_number, row.load_id) == ("t", 3, "load")


def test_the_column_keeps_its_value_where_its_name_changed(rows):
    assert rows["a column under its old name"].city == "c"
    assert rows["a column under its old name that was null"].city == "c"


def test_a_set_is_the_text_that_mysql_writes(spark):
    declared = source({"id": "int", "s": "SET('x','y z','z')"})
    lines = [line(data=f'{{"id":1,"s":{item}}}') for item in ('["x","y z"]', "[]", "null", '"x,z"')]
    change = line(type='"update"', data='{"id":1,"s":["z"]}', old='{"s":["x","z"]}')

    rows = typed(spark, [*lines, change], declared)

    assert [row.s for row in rows] == ["x,y z", "", None, "x,z", "z"]
    assert (rows[4].before.s, rows[4].metadata_changes) == ("x,z", ["s"])


def test_each_change_has_a_unique_key_of_its_own(spark, rows):
    keys = [row.unique_key for row in rows.values()]
    assert keys[0] == "bin.000007:1000:0"
    assert len(set(keys)) == len(keys)
    last = typed(spark, [line(data=DATA, xoffset=None, commit="true")], DECLARED)[0]
    assert last.unique_key == f"bin.000007:9580:{LAST_ROW}"


def test_rows_of_other_tables_and_kinds_stay_out(spark):
    lines = [
        line(data=DATA),
        line(data=DATA, database='"shop_archive"'),
        line(data=DATA, table='"O"'),
        line(data=DATA, type='"bootstrap-insert"'),
        line(data=DATA, type='"table-alter"'),
        "rubbish",
    ]
    assert [row.message_offset for row in typed(spark, lines, DECLARED)] == [100]


# The row images of a real server


@pytest.fixture(scope="module")
def row_images(spark: SparkSession) -> dict[str, list[Row]]:
    """FULL, NOBLOB, MINIMAL -> typed rows of img.o, in log order; every column is of interest."""
    columns = {
        "order_id": "bigint",
        "user_id": "bigint",
        "status": "int",
        "biz": "varchar(20)",
        "note": "text",
        "amount": "decimal(12,2)",
        "ut": "datetime(3)",
    }
    declared = source(
        columns,
        database="img",
        primary_key=["order_id"],
        cut_column="ut",
        columns_of_interest=["user_id", "status", "biz", "note", "amount"],
    )
    lines = [line for line in raw_lines(ROW_IMAGES) if b'"table":"o"' in line]
    kinds = [str(json.loads(line)["data"]["order_id"])[0] for line in lines]
    found: dict[str, list[Row]] = {"FULL": [], "NOBLOB": [], "MINIMAL": []}
    for kind, row in zip(kinds, typed(spark, lines, declared), strict=True):
        found[{"1": "FULL", "2": "NOBLOB", "3": "MINIMAL"}[kind]].append(row)
    return found


def test_full_row_images_are_all_taken(row_images):
    rows = row_images["FULL"]
    assert [row.reject_reason for row in rows] == [None] * 11
    first, second, renamed = rows[3], rows[4], rows[7]
    assert (first.biz, first.before.biz, first.before.status) == (None, "created", 10)
    assert (second.biz, second.before.biz) == ("x", None)
    assert (renamed.order_id, renamed.before.order_id) == (109, 103)
    assert rows[0].note == "n\U0001f600"


def test_of_noblob_row_images_only_whole_images_are_taken(row_images):
    rows = row_images["NOBLOB"]
    taken = [(row.op_type, row.order_id) for row in rows if row.reject_reason is None]
    # those whose image holds the text as well
    assert taken == [("insert", 201), ("insert", 202)]
    reasons = {row.reject_reason for row in rows} - {None}
    assert reasons == {NO_OLD, LACKS.format("note")}


def test_of_minimal_row_images_only_whole_inserts_are_taken(row_images):
    rows = row_images["MINIMAL"]
    taken = [(row.op_type, row.order_id) for row in rows if row.reject_reason is None]
    assert taken == [("insert", 301), ("insert", 302)]
    assert all(row.before is None for row in rows)
    assert {row.reject_reason for row in rows} - {None} == {
        NO_OLD,
        LACKS.format("status, biz, note, amount, ut"),
        LACKS.format("user_id, status, biz, note, amount, ut"),
    }


@pytest.mark.in_turn
@pytest.mark.parametrize("table", sorted(VIEWS.keys() - {"order_info"}))
def test_no_column_of_the_small_tables_is_guessed(spark, table):
    """An image without one of their columns (NOBLOB, MINIMAL) is refused, not filled with nulls."""
    meta = declaration(table)
    kept = {name: value for name, value in meta.items() if name not in VARS}
    declared = source(**kept)
    key = dict.fromkeys(meta["primary_key"], 1)
    whole = dict.fromkeys(meta["columns"]) | key
    late = {name for of, name in NOT_IN_THE_LOG if of == table}  # older images lack them
    lines = [
        line(table=f'"{table}"', data=json.dumps({k: v for k, v in whole.items() if k != name}))
        for name in (None, *whole)
    ]

    rows = typed(spark, lines, declared)

    refused = [row.reject_reason for row in rows]
    expected = [None if name in (None, *late) else LACKS.format(name) for name in (None, *whole)]
    assert refused == expected


# The day that a change counts for

STAMPS = [
    "2026-03-02 09:00:00.000",
    "2026-03-02 23:59:59.999",
    "2026-03-03 00:00:00.000",
    "2026-03-03 10:00:00.000",
    "2026-03-03 10:00:00.001",
    "2026-03-01 23:59:59.999",
    "1970-01-01 23:59:59.999",
    "1970-01-02 00:00:00.000",
    "9999-12-31 23:59:59.999",
    "1000-01-01 00:00:00.000",
    "0000-00-00 00:00:00.000",
    "2026-02-30 10:00:00.000",
    "2026-00-00 00:00:00",
    None,
]


def test_the_cut_date_is_that_of_the_oracle(spark):
    lines = []
    for stamp in STAMPS:
        data = DATA.replace(AT, f'"at":{json.dumps(stamp)}')
        lines += [line(data=data), line(type='"delete"', data=data), update('{"at":null}', data)]
        lines.append(update('{"at":"2026-01-01 00:00:00.000"}', data))
        # the last and the first second of a business day, in the log's own time
        lines += [line(data=data, ts="1772467199"), line(data=data, ts="1772467200")]
    lines = numbered(lines)
    changes = oracle.read_messages(
        [line.encode() for line in lines], table="o", key_columns=("id",)
    )
    expected = [oracle.cut_date(change, cut_column="at") for change in changes]

    rows = typed(spark, lines, DECLARED)

    assert [row.cut_date for row in rows] == expected
    assert len(set(expected)) == 4


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["date", "timestamp", None])
def test_the_cut_date_by_other_kinds_of_column(spark, kind):
    columns = {"id": "int"} | ({"at": kind} if kind else {})
    declared = source(columns, **({"cut_column": "at"} if kind else {}))
    # 20:00 UTC is the next day in ZONE
    text = '"2026-03-01"' if kind == "date" else '"2026-03-01 20:00:00"'
    (row,) = typed(spark, [line(data=f'{{"id":1,"at":{text}}}', ts="1772287200")], declared)
    assert ZONE == "+08:00"
    assert row.event_time == datetime(2026, 2, 28, 14)
    expected = {"date": date(2026, 3, 1), "timestamp": date(2026, 2, 28), None: date(2026, 2, 28)}
    # the date lies within a day of the log's time, the timestamp more than a day ahead of it
    assert row.cut_date == expected[kind]


# Repeats


def frame_of(
    spark: SparkSession, rows: list[tuple[int, int, int]], bad: int = -1, key: int = 1
) -> DataFrame:
    """Rows of ods_binlog of inserts, with the columns by which repeats are found.

    rows: (offset, binlog position, row number) of each; bad: offset of one without `data`; key:
    the id that they insert.
    """
    frame = spark.createDataFrame(rows, "message_offset int, at int, number int")
    whole = line(data=f'{{"id":{key}}}')
    return frame.selectExpr(
        "'live' as batch_id",
        "'t' as topic",
        "0 as partition_number",
        "message_offset",
        "'bin.000007' as binlog_file",
        "7 as binlog_file_number",
        "at as binlog_position",
        "number as row_number",
        "'maxwell' as format",
        "'insert' as op",
        "'shop' as database_name",
        "'o' as table_name",
        "timestamp'2026-03-02 02:00:00' as event_time",
        "1 as xid",
        "'load' as load_id",
        f"if(message_offset = {bad}, '{{}}', '{whole}') as payload",
        "cast(null as string) as reject_reason",
    )


REPEATED = source({"id": "int"})
DAY = BusinessDay(REPEATED, ZONE, 24)


def kept(new, known):
    """The rows of messages of the live log; none of them corrects anything.

    known: messages that the model has taken.
    """
    known = None if known is None else decoded(known, REPEATED, DAY)
    rows, corrected = deduplicate(new, known, REPEATED, DAY, ["live"])
    assert corrected is None
    return sorted(rows.collect(), key=lambda row: row.message_offset)


@pytest.mark.in_turn
@pytest.mark.parametrize("many", [duplicates.MANY, 1])
def test_a_change_that_came_before_or_comes_twice_is_left_out(spark, monkeypatch, many):
    monkeypatch.setattr(duplicates, "MANY", many)
    known = frame_of(spark, [(0, 100, 0)])
    sent = [(10, 100), (11, 200), (12, 200), (13, 300), (15, 400), (14, 400)]

    new = frame_of(spark, [(offset, at, 0) for offset, at in sent])
    for messages, left in (
        (new, [11, 13, 14]),
        (new.where("message_offset in (10, 11, 13)"), [11, 13]),
        (new.where("message_offset in (11, 12, 13)"), [11, 13]),
        (new.where("message_offset in (11, 13)"), [11, 13]),
    ):
        assert sorted(row.message_offset for row in kept(messages, known)) == left


def test_a_message_that_must_be_refused_does_not_stand_for_the_whole_message(spark):
    new = frame_of(spark, [(10, 100, 0), (11, 100, 0), (12, 100, 0)], bad=10)
    rows = kept(new, None)

    assert sorted(row.message_offset for row in rows) == [10, 11]


@pytest.mark.in_turn
def test_a_change_that_was_refused_is_taken_when_it_comes_whole(spark):
    rows = kept(frame_of(spark, [(10, 100, 0)]), frame_of(spark, [(0, 100, 0)], bad=0))

    assert [(row.message_offset, row.reject_reason) for row in rows] == [(10, None)]


@pytest.mark.in_turn
def test_another_change_at_a_place_that_is_taken_is_refused(spark):
    """The server began its binlog again: positions come again, and the changes are others."""
    known = decoded(frame_of(spark, [(0, 100, 0)]), REPEATED, DAY)
    # at 100 against what is held, at 200 against what comes with it
    same = frame_of(spark, [(10, 100, 0), (20, 200, 0), (22, 200, 0), (30, 300, 0)], bad=30)
    new = same.union(frame_of(spark, [(11, 100, 0), (21, 200, 0)], key=2)).localCheckpoint()

    frame = deduplicate(new, known, REPEATED, DAY, ["live"])[0].localCheckpoint()

    rows = sorted(frame.collect(), key=lambda row: row.message_offset)
    assert [(row.message_offset, row.reject_reason is None) for row in rows] == [
        (11, False),
        (20, True),
        (21, False),
        (30, False),
    ]
    for row in (rows[0], rows[2]):
        assert "another change was taken before" in row.reject_reason
        assert row.reject_payload == line(data='{"id":2}')
    # the log is read again: each is refused once
    assert deduplicate(new, known.union(frame), REPEATED, DAY, ["live"])[0].isEmpty()


@pytest.mark.in_turn
@pytest.mark.parametrize(("batches", "first"), [(["live", "x"], 20), (["x", "live"], 10)])
def test_of_two_batches_the_one_named_last_counts(spark, batches, first):
    live = frame_of(spark, [(10, 100, 0)])
    other = frame_of(spark, [(20, 100, 0)]).withColumn("batch_id", F.lit("x"))
    rows, corrected = deduplicate(live.union(other), None, REPEATED, DAY, batches)

    assert corrected is None
    assert [row.message_offset for row in rows.collect()] == [first]


def test_rows_of_one_position_are_distinguished(spark):
    numbers = [0, 1, 2, LAST_ROW]
    new = frame_of(spark, [(offset, 100, number) for offset, number in enumerate(numbers)])
    rows = kept(new, None)

    assert sorted(row.message_offset for row in rows) == [0, 1, 2, 3]


def test_random_histories_have_the_cut_dates_of_the_oracle(spark):
    declared = source(
        {"order_id": "bigint unsigned", "update_time": "datetime(3)"},
        table="order_info",
        primary_key=["order_id"],
        cut_column="update_time",
    )
    logs = [histories.generate(seed, days=5).lines for seed in range(100, 104)]
    # the days of each history for itself: they all have the same positions
    expected = [oracle.cut_date(message) for log in logs for message in oracle.read_messages(log)]
    rows = typed(spark, [item for log in logs for item in log], declared)
    assert [row.reject_reason for row in rows] == [None] * len(expected)
    assert [row.cut_date for row in rows] == expected
    print(f"cut dates compared: {len(rows)}, seeds 100 to 103")
