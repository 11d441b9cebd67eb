"""Canal's messages: what is read of them, and that they tell the same as Maxwell's."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.support.latest import VIEWS, declaration
from tests.support.lines import LANDED, ROOT, envelopes, raw_lines, source, typed
from tests.support.typed_model import Model

CAPTURE = ROOT / "tests" / "fixtures" / "mysql56" / "canal.jsonl.gz"
TYPES = ROOT / "tests" / "fixtures" / "types" / "canal.jsonl.gz"
ES = 1772416800000  # 2026-03-02 02:00:00 UTC
DECLARED = source({"id": "bigint", "v": "varchar(9)", "d": "decimal(12,2)"}, format="canal")


def message(**fields: Any) -> str:
    """A flat message of shop.o: an insert of row 1 with these fields set, or left out if `...`."""
    head = {
        "data": [{"id": "1", "v": "a", "d": "796.0"}],
        "database": "shop",
        "es": ES,
        "isDdl": False,
        "mysqlType": {"id": "bigint(20)", "v": "varchar(9)", "d": "decimal(12,2)"},
        "old": None,
        "table": "o",
        "type": "INSERT",
    }
    merged = {name: value for name, value in (head | fields).items() if value is not ...}
    return json.dumps(merged, ensure_ascii=False)


def changes(rows: list[Row], names: list[str]) -> list[tuple]:
    """(op, values before, values after) of typed rows."""
    return [
        (
            row.op_type,
            None if row.before is None else tuple(row.before[name] for name in names),
            tuple(row[name] for name in names),
        )
        for row in rows
    ]


def test_the_envelope_of_a_change(spark: SparkSession):
    (row,) = envelopes(spark, [message()], "canal")

    assert row.reject_reason is None
    assert (row.database_name, row.table_name, row.op) == ("shop", "o", "insert")
    assert row.event_time.replace(tzinfo=UTC) == datetime.fromtimestamp(ES / 1000, UTC)
    # Canal has no position: a message is where it stands in the topic
    place = (row.binlog_file, row.binlog_file_number, row.binlog_position, row.row_number)
    assert place == ("t/3", 0, 100, 0)
    assert row.xid is None


@pytest.mark.parametrize(
    ("kind", "op"),
    [
        ("TRUNCATE", "truncate"),
        ("ERASE", "drop"),
        ("RENAME", "rename"),
        ("CREATE", "ddl"),
        ("ALTER", "ddl"),
        ("CINDEX", "ddl"),
        ("DINDEX", "ddl"),
        ("QUERY", "ddl"),
    ],
)
def test_a_change_of_a_table_is_recognised(spark: SparkSession, kind: str, op: str):
    sql = "rename table o to p" if kind == "RENAME" else ...  # Canal sends it with each
    (row,) = envelopes(spark, [message(type=kind, isDdl=True, data=None, sql=sql)], "canal")

    assert (row.op, row.reject_reason) == (op, None)


def test_a_statement_that_moves_rows_is_recognised_whatever_its_type(spark: SparkSession):
    statements = {
        ("QUERY", "drop schema shop"): "drop",
        ("QUERY", "rename table if exists o to p"): "rename",
        ("CREATE", "create or replace table o (id int)"): "drop",
        ("ALTER", "alter table o drop partition p1"): "truncate",
        ("ALTER", "alter table o comment 'drop partition p1'"): "ddl",
    }
    lines = [message(type=kind, isDdl=True, data=None, sql=sql) for kind, sql in statements]

    rows = envelopes(spark, lines, "canal")

    assert [row.op for row in rows] == list(statements.values())


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        (message() + message(), "more than one object on a line"),
        ("[1]", "no object"),
        ("{}", "no `type`"),
        (message(type="UPSERT"), "unknown Canal type UPSERT"),
        (message(database=...), "no `database`"),
        (message(table=...), "no `table`"),
        (message(es=...), "`es` is missing"),
        (message(es=-1), "`es` is missing"),
        (message(data=None), "no `data`"),
        (message(data=[]), "no `data`"),
        (message(type="UPDATE"), "`old` has not one row for each of `data`"),
        (message(type="UPDATE", old=[{}, {}]), "`old` has not one row for each of `data`"),
    ],
)
def test_what_is_no_message_is_refused_with_its_reason(spark: SparkSession, line: str, reason: str):
    (row,) = envelopes(spark, [line], "canal")

    assert reason in row.reject_reason
    assert row.op is None
    assert row.payload == line


def test_each_row_of_a_message_is_a_change_of_its_own(spark: SparkSession):
    # the statement changed v of the first row and d of the second: `old` names both in each
    update = message(
        type="UPDATE",
        data=[{"id": "1", "v": "b", "d": "1.5"}, {"id": "2", "v": None, "d": "2"}],
        old=[{"v": None, "d": "1.5"}, {"v": None, "d": "-3.25"}],
    )
    delete = message(type="DELETE", data=[{"id": "1", "v": "b", "d": "1.5"}])

    rows = typed(spark, [update, delete], DECLARED)

    first, two, three = Decimal("1.50"), Decimal("2.00"), Decimal("-3.25")
    assert changes(rows, ["id", "v", "d"]) == [
        ("update", (1, None, first), (1, "b", first)),
        ("update", (2, None, three), (2, None, two)),
        ("delete", (1, "b", first), (1, "b", first)),
    ]
    assert [row.metadata_changes for row in rows] == [["v"], ["d"], None]
    assert [row.unique_key for row in rows] == ["t/3:100:0", "t/3:100:1", "t/3:101:0"]


def test_a_key_change_has_the_old_key_in_its_before_image(spark: SparkSession):
    (row,) = typed(spark, [message(type="UPDATE", old=[{"id": "9"}])], DECLARED)

    assert (row.before.id, row.id) == (9, 1)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"data": [{"id": "1", "d": "x"}]}, "data.d = x is no decimal(12,2)"),
        ({"data": [{"id": "1", "d": "1.005"}]}, "is no decimal(12,2)"),
        ({"data": [{"id": "1.5"}]}, "data.id = 1.5 is no bigint"),
        ({"data": [{"v": "a"}]}, "the row image lacks id"),
        ({"data": [{"id": None}]}, "the key column id is null"),
        ({"data": [None]}, "a row of `data` is no object"),
        ({"type": "UPDATE", "old": [None]}, "an update without `old`"),
        ({"type": "UPDATE", "old": [{"d": "x"}]}, "before.d = x is no decimal(12,2)"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(spark: SparkSession, fields: dict, reason: str):
    (row,) = typed(spark, [message(**fields)], DECLARED)

    assert reason in row.reject_reason
    assert row.reject_payload == message(**fields)
    assert (row.id, row.before) == (None, None)


def test_enums_and_sets_get_their_labels(spark: SparkSession):
    declared = source(
        {"id": "int", "e": "enum('a','b''c')", "s": "set('x','y','z')"}, format="canal"
    )
    types = {"id": "int(11)", "e": "enum('a','b''c')", "s": "set('x','y','z')"}
    values = [("1", "0"), ("2", "5"), ("0", "7"), (None, None), ("3", "1")]
    lines = [message(data=[{"id": "1", "e": e, "s": s}], mysqlType=types) for e, s in values]

    rows = typed(spark, lines, declared)

    assert [(row.e, row.s) for row in rows] == [
        ("a", ""),
        ("b'c", "x,z"),
        ("", "x,y,z"),
        (None, None),
        (None, None),
    ]
    assert "data.e = 3 is no enum('a','b''c')" in rows[-1].reject_reason


@pytest.mark.parametrize("workers", ["0", "never"])
def test_a_column_of_texts_that_is_or_was_an_enum_gets_its_labels(
    spark: SparkSession, workers: str
):
    model = Model(spark, "canal", ["id"])
    declared = {"v": "varchar(20)", "f": "text", "e": "enum('a','b')", "w": "varchar(9)"}
    model.meta["source"]["columns"] = {"id": "int", **declared}
    model.meta["source"]["aliases"] = {"v": ["was"]}
    model.vars["worker_decoding_from"] = workers
    enums = {"v": "enum('x','it''s')", "f": "set('p','q')", "e": "enum('a','b')"}
    older = {"was": "ENUM('x','y')", "f": enums["f"], "e": enums["e"]}
    texts = {"v": "varchar(20)", "f": "text", "e": "varchar(3)"}
    sent = [
        ("INSERT", {"was": "2", "f": "3", "e": "1", "w": "1"}, older, None),
        ("UPDATE", {"v": "2", "f": "0", "e": "0", "w": "2"}, enums, {"v": "1", "e": None}),
        ("INSERT", {"v": None, "f": "1", "e": None, "w": "é"}, enums, None),
        # behind the ALTERs
        ("UPDATE", {"v": "0", "f": "2", "e": "0", "w": "0"}, texts, {"v": "x", "e": "b"}),
        ("INSERT", {"v": "2", "f": "1", "e": "1", "w": "1"}, {}, None),
        ("INSERT", {"v": "3", "f": "1", "e": "1", "w": "1"}, enums, None),
    ]

    model.take(
        {
            number: message(
                type=op,
                es=ES + number,
                data=[{"id": "1"} | row],
                old=old and [old],
                mysqlType={"id": "int", "w": "varchar(9)"} | types if types else None,
            )
            for number, (op, row, types, old) in enumerate(sent)
        }
    )

    rows = sorted(model.rows, key=lambda row: row.message_offset)
    assert [tuple(row[name] for name in declared) for row in rows] == [
        ("y", "p,q", "a", "1"),
        ("it's", "", "", "2"),
        (None, "p", None, "é"),
        ("0", "2", "0", "0"),
        # what isn't known of an enum that is declared is refused, as is an index without label
        (None, None, None, None),
        (None, None, None, None),
    ]
    before = [row.before and (row.before.v, row.before.e) for row in rows]
    assert before[1:4:2] == [("x", None), ("x", "b")]
    assert "data.e = 1 is no enum('a','b')" in rows[4].reject_reason
    assert "data.v = 3 is no varchar(20)" in rows[5].reject_reason


@pytest.mark.parametrize("workers", ["0", "never"])
def test_a_time_of_utc_is_no_local_time(spark: SparkSession, workers: str):
    """After an ALTER of a DATETIME to TIMESTAMP, or the other way round, both read alike."""
    model = Model(spark, "canal", ["id"])
    model.meta["source"]["columns"] = {"id": "int", "t": "datetime(3)", "u": "timestamp"}
    model.meta["source"]["columns"] |= {"d": "date"}
    model.vars["worker_decoding_from"] = workers
    usual = {"t": "datetime(3)", "u": "timestamp", "d": "date"}
    types = [usual, {"t": "date"}, {"x": "int"}, usual | {"t": "TIMESTAMP(3)"}]
    types += [usual | {"u": "datetime"}, usual | {"d": "timestamp"}]
    values = {"t": "2026-03-02 09:00:00", "u": "2026-03-02 09:00:00", "d": "2026-03-02"}

    model.take(
        {
            number: message(data=[{"id": str(number), **values}], mysqlType={"id": "int"} | kinds)
            for number, kinds in enumerate(types)
        }
    )

    rows = sorted(model.rows, key=lambda row: row.message_offset)
    assert [str(row.t) for row in rows[:3]] == ["2026-03-02 01:00:00"] * 3
    reasons = [row.reject_reason for row in rows]
    assert reasons[:3] == [None] * 3
    of_time = "= 2026-03-02 09:00:00 is no"
    assert f"data.t {of_time} datetime(3), it is a TIMESTAMP(3) by its message" in reasons[3]
    assert f"data.u {of_time} timestamp, it is a datetime by its message" in reasons[4]
    assert "data.d = 2026-03-02 is no date, it is a timestamp by its message" in reasons[5]


@pytest.mark.parametrize("enums", ["index", "label"])
@pytest.mark.parametrize("workers", ["0", "never"])
def test_bytes_are_no_text(spark: SparkSession, workers: str, enums: str):
    """Of a BLOB Canal writes the Latin-1 characters: after an ALTER they would be another text, as
    the text of a column that is binary would be other bytes."""
    model = Model(spark, "canal", ["id"])
    columns = {"id": "int", "v": "varchar(9)"}
    model.meta["source"] |= {"columns": columns, "options": {"enum": enums}}
    model.vars["worker_decoding_from"] = workers
    sent = [
        ("varchar(9)", "\u00c3\u00a9"),
        ("blob", "plain"),
        ("blob", None),
        ("VARBINARY(9)", "\u00c3\u00a9"),
        ("longblob", "\u00e9"),
        ("json", "\u00e9"),
    ]
    model.take(
        {
            number: message(
                data=[{"id": str(number), "v": text}], mysqlType={"id": "int", "v": kind}
            )
            for number, (kind, text) in enumerate(sent)
        }
    )

    rows = sorted(model.rows, key=lambda row: row.message_offset)
    read = ["\u00c3\u00a9", "plain", None, None, None, "\u00e9"]
    assert [row.v for row in rows] == read
    reasons = [row.reject_reason or "" for row in rows]
    assert reasons[:3] + reasons[5:] == [""] * 4
    assert [reason.partition("; ")[0] for reason in reasons[3:5]] == [
        "data.v = \u00c3\u00a9 is no varchar(9), it is a VARBINARY(9) by its message",
        "data.v = \u00e9 is no varchar(9), it is a longblob by its message",
    ]


def test_a_text_is_no_bytes(spark: SparkSession):
    declared = source({"id": "int", "b": "blob"}, format="canal")
    kinds = ("varbinary(9)", "varchar(9)", "TEXT", "enum('\u00e9')", "varchar(9)")
    texts = ("\u00e9", "plain", "\u00e9", "\u00e9", None)
    sent = [
        message(data=[{"id": "1", "b": text}], mysqlType={"id": "int", "b": kind})
        for kind, text in zip(kinds, texts, strict=True)
    ]

    rows = typed(spark, sent, declared)

    read = [b"\xe9", b"plain", None, None, None]
    assert [row.b and bytes(row.b) for row in rows] == read
    reasons = [row.reject_reason or "" for row in rows]
    assert reasons[:2] + reasons[4:] == [""] * 3
    assert (
        reasons[2].partition("; ")[0] == "data.b = \u00e9 is no blob, it is a TEXT by its message"
    )


def test_enums_written_as_labels(spark: SparkSession):
    declared = source(
        {"id": "int", "e": "enum('1','2')"}, format="canal", options={"enum": "label"}
    )

    (row,) = typed(spark, [message(data=[{"id": "1", "e": "2"}])], declared)

    assert row.e == "2"


def test_every_type_of_a_real_canal(spark: SparkSession):
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
        "tm": "time(3)",
        "yr": "year",
    }
    declared = source(columns, table="t1", format="canal")

    rows = typed(spark, raw_lines(TYPES), declared)

    assert [row.reject_reason for row in rows] == [None] * len(rows)
    first, last = rows[0], rows[-1]
    assert first.id == 2**64 - 1
    assert (first.a, first.v, first.d) == (1, '😀 "q" \\ \n nl', Decimal("10.50"))
    assert (first.b, bytes(first.bl), first.e, first.bt) == (1, b"\x00\xff\x10", "x", 10)
    assert (first.f, first.db, first.tm, first.yr) == (
        pytest.approx(1.1),
        1.1,
        "-12:30:01.500",
        2026,
    )
    # a DATETIME is local time of the business zone, a TIMESTAMP is UTC
    assert first.dt == datetime(2026, 3, 1, 15, 59, 59, 999_000)
    assert first.ts == datetime(2026, 3, 1, 23, 59, 59, 999_000)
    assert (first.dd.isoformat(), first.j) == ("2026-03-01", '{"a":1}')
    assert (last.id, last.a, last.d, last.dd) == (6, None, Decimal("-0.01"), None)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "table",
    # the big one takes its time and memory; its counts are compared end to end as well
    [pytest.param(view, marks=[pytest.mark.soak] * (view == "order_info")) for view in VIEWS],
)
def test_both_logs_of_one_server_hold_the_same_changes(spark: SparkSession, table: str):
    declared_so = declaration(table)
    # Maxwell writes a TIME wrong that is negative or longer than a day
    columns = {column: kind for column, kind in declared_so["columns"].items() if kind != "time"}
    reported = {}
    for name, lines in {
        "maxwell": [line for path in LANDED for line in raw_lines(path)],
        "canal": raw_lines(CAPTURE),
    }.items():
        declared = source(
            columns,
            table=table,
            primary_key=declared_so["primary_key"],
            aliases=declared_so.get("aliases", {}),
            format=name,
        )
        named = f'"table":"{table}"'.encode()
        rows = typed(spark, [line for line in lines if named in line], declared)
        assert [row.reject_reason for row in rows if row.reject_reason] == []
        reported[name] = changes(rows, list(columns))

    differing = [pair for pair in zip(*reported.values(), strict=True) if pair[0] != pair[1]]
    print(f"{table}: {len(reported['canal'])} changes compared, {len(differing)} differ")
    assert differing[:3] == []
    assert len(reported["canal"]) > 300
