"""Statements of any form: each is taken, or refused with its reason, and no run ends by one."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.canal import _value
from python_udfs.ingestion.formats.ddl import moves, table_op
from python_udfs.ingestion.formats.registry import FORMATS, with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.landing.spark import RAW_SCHEMA
from python_udfs.ingestion.tables.types import source_type
from python_udfs.ingestion.whole_table.statements import Statement, events_of, statements_of
from tests.support.hostile import MESSAGES, placed, row_messages
from tests.support.typed_model import Model


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "format_name",
    # Debezium's statements are read as MySQL wrote them, as Canal's
    [
        name if name != "debezium" else pytest.param(name, marks=pytest.mark.soak)
        for name in MESSAGES
    ],
)
def test_every_statement_is_taken_or_refused_with_its_reason(
    spark: SparkSession, format_name: str
) -> None:
    messages = MESSAGES[format_name]()
    texts = placed(format_name, messages)
    rows = [("live", "t", 0, n, 0, None, text.encode(), None) for n, text in enumerate(texts)]
    binlog = with_envelope(spark.createDataFrame(rows, RAW_SCHEMA), format_name)
    binlog = binlog.localCheckpoint()
    read = {row.message_offset: row for row in binlog.drop("payload_bytes").collect()}
    assert len(read) == len(texts)
    assert [row for row in read.values() if not (row.reject_reason or row.op)] == []

    model = Model(spark, format_name, ["_id"] if format_name == "mongodb" else ["id"])
    if format_name == "mongodb":
        columns = {"_id": "varchar(9)"} | model.meta["source"]["columns"]
        model.meta["source"] |= {"columns": columns}
    model.take_frame(binlog.withColumn("load_id", F.lit("load")), {"live": dict(enumerate(texts))})

    in_quarantine = {n for n, row in read.items() if row.reject_reason}
    in_quarantine |= {row.message_offset for row in model.rows if row.reject_reason}
    whole_table = [row for row in read.values() if row.op in ("truncate", "drop", "rename")]
    of_no_pattern = []
    for row, statement in zip(whole_table, statements(whole_table, format_name), strict=True):
        if row.message_offset not in in_quarantine and not statement.moves and statement.reason:
            of_no_pattern.append((statement.reason, row.payload[:120]))
    print(f"{len(in_quarantine)} of {len(texts)} in quarantine, {len(whole_table)} of whole tables")
    for reason, payload in of_no_pattern:  # statements on tables that aren't declared
        assert "`o`" not in payload and '"o"' not in payload.replace('"table": "o"', ""), reason
    assert in_quarantine


@pytest.mark.parametrize("format_name", ["canal", "debezium"])
def test_every_row_message_gives_a_row_or_is_refused(spark: SparkSession, format_name: str) -> None:
    """Of the formats in which no table of the project's own is read."""
    texts = row_messages()[format_name]
    model = Model(spark, format_name, ["order_id"])
    columns = {"order_id": "bigint", "user_id": "bigint", "product_type": "varchar(20)"}
    columns |= {"order_status": "tinyint", "biz_status": "varchar(30)", "comment": "varchar(50)"}
    if format_name == "canal":  # Debezium writes these in forms of their own
        columns |= {"amount": "decimal(16,2)", "update_time": "datetime(3)"}
    model.meta["source"] |= {"table": "order_info", "columns": columns}
    messages = {LIVE: dict(enumerate(texts))}
    binlog = model.binlog(messages)
    model.take_frame(binlog, messages)

    read = binlog.select(
        "message_offset", "reject_reason", "database_name", "table_name", "op"
    ).collect()
    envelopes = {row.message_offset for row in read if row.reject_reason}
    wanted = {
        row.message_offset
        for row in read
        if (row.reject_reason, row.database_name, row.table_name) == (None, "shop", "order_info")
        and row.op in ("insert", "update", "delete", "snapshot")
    }
    message = {row.message_offset for row in model.rows}
    refused = {row.message_offset for row in model.rows if row.reject_reason}
    print(
        f"{len(texts)}: {len(envelopes)} by their envelope, {len(refused)} of {len(message)} rows"
    )
    assert wanted - message == set()
    assert len(wanted) + len(envelopes) > len(texts) / 2
    assert refused < message


def statements(rows: list[Row], format_name: str) -> list[Statement]:
    """Of each row its statement, in the rows' order."""
    found = []
    for row in rows:
        given = Row(**row.asDict(), event_micros=0)
        found += statements_of([given], format_name)
    return found


def test_what_no_reader_foresaw_is_refused_with_its_reason(monkeypatch: Any) -> None:
    def fails(*_: Any) -> None:
        raise RecursionError("deep")

    monkeypatch.setattr(FORMATS["canal"], "table_moves", fails)
    names = ("binlog_file_number", "binlog_position", "binlog_file", "topic", "partition_number")
    row = Row(**dict.fromkeys(names, 1), message_offset=1, op="drop", payload="{}", batch_id="live")
    row = Row(**row.asDict(), database_name="shop", table_name="o", event_micros=1)
    [statement] = statements_of([row], "canal")
    assert "RecursionError" in statement.reason


def test_a_statement_of_many_tables_is_read_in_time_that_grows_with_it() -> None:
    names = ", ".join(f"t{n}" for n in range(100_000))
    found = moves(f"drop table {names}, o", "shop")
    statement = Statement(1, 1, "bin.000001", 0, "drop", tuple(found))
    [event] = events_of([statement], ("shop", "o"))
    assert (len(found), event.place) == (100_001, (1, 1))


def test_an_open_quote_hides_no_statement(spark: SparkSession) -> None:
    """Where a server takes backslashes as they are, a quote may end that seems to be open."""
    sql = "alter table o comment '\\', rename to o2"
    frame = spark.createDataFrame([(sql,)], "sql string").select(table_op(F.col("sql")))
    assert frame.first()[0] == "rename"
    with pytest.raises(ValueError, match="doesn't close its '"):
        moves(sql, "shop")


@pytest.mark.parametrize(
    ("kind", "declared", "raw", "expected"),
    [
        ("enum('a')", "enum('" + "a" * 10_000 + "','b''c')", "2", "b'c"),
        ("enum('a')", "enum('" + "''" * 10_000 + "','b')", "2", "b"),
        ("enum('a')", "enum('a','b')", "-2147483648", None),
        ("enum('a')", "enum('a','b')", "2147483648", None),
        ("set('a')", "set(" + ",".join(f"'{n}'" for n in range(70)) + ")", "3", None),
        ("set('a')", "set(" + ",".join(f"'{n}'" for n in range(64)) + ")", "3", "0,1"),
    ],
)
def test_canals_enums_and_sets_of_any_length(
    spark: SparkSession, kind: str, declared: str, raw: str, expected: str | None
) -> None:
    frame = spark.createDataFrame([(declared, raw)], "declared string, raw string")
    value = _value(F.col("raw"), F.col("declared"), source_type(kind), "index")
    assert frame.select(value).first()[0] == expected
