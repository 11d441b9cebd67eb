"""Rows of typed models come out the same whether Python workers decode them or Spark does.

The tests of both ways (`tests/ingestion/fast`) compare what is decoded, these what becomes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.fast import canal, workers
from python_udfs.ingestion.fast.columns import PROVEN
from python_udfs.ingestion.fast.settings import WorkerSettings, worker_settings
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.tables.source import TableSource
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.duplicates import deduplicate
from python_udfs.ingestion.typed.proven import IN_SPARK, InWorkers
from tests.support import mutated_formats, mutated_rows
from tests.support.lines import ZONE, numbered, raw_messages, source
from tests.support.lines import line as message
from tests.support.mutated_formats import CONVERT, tables_of
from tests.support.mutated_rows import ORDERS
from tests.support.typed_model import uncompiled
from tests.support.written_rows import rows_by_files

ALWAYS = InWorkers(WorkerSettings(0, 1000))
TWICE = InWorkers(WorkerSettings(0, 1))
FROM_ENV = "WORKER_DECODING_FROM"
SEED = 7
TABLES = {"maxwell": ORDERS, **{name: tables_of(name)["orders"] for name in CONVERT}}


def made_for(log_format: str) -> ModuleType:
    """The module that makes messages of a format."""
    return mutated_formats if log_format in CONVERT else mutated_rows


def changes(spark: SparkSession, payloads: list, table: TableSource) -> DataFrame:
    binlog = with_envelope(raw_messages(uncompiled(spark), payloads), table.format)
    mine = binlog.where(
        (F.col("database_name") == table.database)
        & (F.col("table_name") == table.table)
        & F.col("op").isin("insert", "update", "delete")
        & F.col("reject_reason").isNull()
    )
    return mine.withColumn("load_id", F.lit("load")).localCheckpoint()


def rows_by(workers: InWorkers, messages: DataFrame, table: TableSource) -> list[Row]:
    rows, _ = deduplicate(messages, None, table, BusinessDay(table, ZONE, 24), [LIVE], workers)
    return in_order(rows)


def in_order(rows: DataFrame) -> list[Row]:
    return sorted(rows.collect(), key=lambda row: (row.message_offset, row.row_number))


def is_decoded_by_workers(frame: DataFrame) -> bool:
    return "ArrowEvalPython" in frame._jdf.queryExecution().optimizedPlan().toString()


@pytest.mark.parametrize(
    "log_format",
    [
        *(pytest.param(name, marks=pytest.mark.in_turn) for name in ("maxwell", "canal", "events")),
        pytest.param("debezium", marks=pytest.mark.soak),
    ],
)
def test_rows_are_the_same_by_workers_by_spark_and_by_both(
    spark: SparkSession, log_format: str, tmp_path: Path
) -> None:
    table = TABLES[log_format]
    made = made_for(log_format)
    payloads = [*made.normal(SEED, table, 300), *made.mutated(SEED, table, 300)]
    messages = changes(spark, payloads, table)
    expected = rows_by(IN_SPARK, messages, table)
    assert len(expected) > 350
    assert sum(row.reject_reason is not None for row in expected) > 5
    # of a format with a row a message Maxwell shows what is decoded twice
    for setting in [ALWAYS] if log_format == "debezium" else [ALWAYS, TWICE]:
        assert list(map(repr, rows_by(setting, messages, table))) == list(map(repr, expected))
    written = in_order(rows_by_files(ALWAYS, messages, table, tmp_path))
    assert list(map(repr, written)) == list(map(repr, expected))


def in_another_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    right = workers.layout_of

    def wrong(session: SparkSession, table: TableSource, zone: str, ahead: int) -> object:
        return right(session, table, "+09:00", ahead)

    monkeypatch.setattr(workers, "layout_of", wrong)


def with_a_row_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    right = canal.decode

    def wrong(*batch: Any) -> tuple[Any, Any]:
        kept, rows = right(*batch)
        return np.append(kept, kept[-1]), pa.concat_arrays([rows, rows.slice(len(rows) - 1)])

    monkeypatch.setattr(canal, "decode", wrong)


def without_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    right = canal.decode

    def wrong(*batch: Any) -> tuple[Any, Any]:
        kept, rows = right(*batch)
        return kept[:-1], rows.slice(0, len(rows) - 1)

    monkeypatch.setattr(canal, "decode", wrong)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("log_format", "read_wrongly"),
    [
        ("maxwell", in_another_zone),
        ("canal", in_another_zone),
        ("canal", with_a_row_too_many),
        ("canal", without_the_last_row),
    ],
)
def test_a_message_that_is_read_otherwise_fails_the_run_and_is_named(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    log_format: str,
    read_wrongly: Callable[[pytest.MonkeyPatch], None],
) -> None:
    orders = TABLES[log_format]
    # the last of these messages of Canal has two rows
    messages = changes(spark, made_for(log_format).normal(6, orders, 3), orders)
    read_wrongly(monkeypatch)
    for made in (
        lambda: rows_by(TWICE, messages, orders),
        lambda: rows_by_files(TWICE, messages, orders, tmp_path),
    ):
        error = ""
        try:
            made()
        except Exception as exc:
            error = str(exc)
        assert re.search(r"the message at live:t:3:10[0-2] .* was read otherwise", error)


@pytest.mark.in_turn
def test_a_change_that_came_twice_is_judged_the_same(spark: SparkSession) -> None:
    table = source({"id": "int", "state": "varchar(9)"})
    lines = numbered(message(data=f'{{"id":{number},"state":"new"}}') for number in range(20))
    other = lines[3].replace("new", "old")
    messages = changes(spark, [*lines, lines[2], other, '{"no": "row"}'], table)
    expected = rows_by(IN_SPARK, messages, table)
    assert [row.reject_payload for row in expected if row.reject_reason] == [other]
    assert rows_by(ALWAYS, messages, table) == expected


@pytest.mark.in_turn
def test_workers_with_other_libraries_leave_all_to_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = source({"id": "int"})
    messages, day = changes(spark, [message()], table), BusinessDay(table, ZONE, 24)
    layout = workers.layout_of(spark, table, day.zone, day.max_ahead_hours)

    def proven() -> list[bool]:
        read = workers.with_proven_rows(messages, table, layout, 1000)
        return [
            row.found for row in read.select((F.col(PROVEN).isNotNull()).alias("found")).collect()
        ]

    assert proven() == [True]
    monkeypatch.setattr(pa, "__version__", "999.0.1")  # of this process alone
    assert proven() == [False]


@pytest.mark.in_turn
def test_small_batches_and_tables_with_unproven_types_are_decoded_by_spark(
    spark: SparkSession,
) -> None:
    table = source({"id": "int"})
    messages, day = changes(spark, [message()], table), BusinessDay(table, ZONE, 24)
    assert is_decoded_by_workers(
        InWorkers(WorkerSettings(5, 1000)).decoded(5, messages, table, day)
    )
    assert not is_decoded_by_workers(
        InWorkers(WorkerSettings(5, 1000)).decoded(4, messages, table, day)
    )
    assert not is_decoded_by_workers(IN_SPARK.decoded(10**9, messages, table, day))
    for kind in ("set('a','b')", "varbinary(9)"):
        table = source({"id": "int", "labels": kind})
        day = BusinessDay(table, ZONE, 24)
        assert not is_decoded_by_workers(ALWAYS.decoded(5, messages, table, day))


def test_settings_come_from_the_vars_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FROM_ENV, raising=False)
    settings: dict[str, object] = {}
    dbt = SimpleNamespace(project_var=lambda name, default: settings.get(name, default))
    assert worker_settings(dbt) == WorkerSettings(50_000, 1000)
    settings |= {"worker_decoding_from": 100, "worker_decoding_checked_in": 5}
    assert worker_settings(dbt) == WorkerSettings(100, 5)
    settings["worker_decoding_from"] = "never"
    assert worker_settings(dbt) == WorkerSettings(None, 5)
    monkeypatch.setenv(FROM_ENV, "0")
    assert worker_settings(dbt) == WorkerSettings(0, 5)
    monkeypatch.setenv(FROM_ENV, "-1")
    with pytest.raises(ValueError, match="worker_decoding_from is '-1', must be a number"):
        worker_settings(dbt)
    monkeypatch.delenv(FROM_ENV)
    settings["worker_decoding_checked_in"] = 0
    with pytest.raises(ValueError, match="worker_decoding_checked_in is '0', must be a whole"):
        worker_settings(dbt)
