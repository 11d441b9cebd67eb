"""History as metadata: Iceberg plans by it as by files that are there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest
from dbt.adapters.sparksession.session import own_session

from benchmarks.bench_size import files_of, level_of, split
from benchmarks.metadata_history import History, Piece
from tests.support.dbt_project import DbtProject


def test_a_read_opens_the_history_that_it_asks_for_and_no_other(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project({})
    for statement in (
        "create schema dw",
        "create table dw.kept (id int, user_id decimal(20, 0), day date) partitioned by (day)",
        "insert into dw.kept values (7, 5, date '2026-03-01')",
    ):
        project.query(statement)
    spark = own_session(project.credentials()).session
    long_ago = date(2020, 1, 2)
    days = [date(2026, 2, day) for day in range(1, 28)]
    pieces = [
        Piece(f"day={day}", 10, 1_000, 2, {"day": (day, day), "user_id": (Decimal(0), Decimal(9))})
        for day in days
    ]
    there = Piece("day=2020-01-01", 10, 1_000, bounds={"user_id": (Decimal(0), Decimal(9))})
    real = Piece("day=2020-01-02", 1, 0, bounds={"day": (long_ago, long_ago)}, is_real=True)
    history = History(spark, "dw.kept")

    assert history.add([pieces[:20], [*pieces[20:], there, real]]) == 56

    table = "dw.kept"
    (counts,) = project.query(f"select count(*) n, sum(record_count) r from {table}.files")
    assert counts == {"n": 57, "r": 27 * 2 * 10 + 10 + 1 + 1}
    # a file that is there, by its partition, and another that its bounds leave out
    assert project.column(f"select id from {table} where day > '2026-02-28'") == [7]
    assert project.query(f"select id, day from {table} where day = '2020-01-02'") == [
        {"id": 7, "day": long_ago}
    ]
    assert project.column(f"select id from {table} where day = '2020-01-01' and user_id = 10") == []
    with pytest.raises(Exception, match="does not exist"):
        project.column(f"select id from {table} where day = '2026-02-03'")
    # readers of new rows pass the history over
    operations = project.column(f"select operation from {table}.snapshots")
    assert operations == ["replace", "replace", "replace"]


def test_ranges_and_files_cover_all_keys() -> None:
    assert split(-10, -1, 3) == [
        (Decimal(-10), Decimal(-8)),
        (Decimal(-7), Decimal(-5)),
        (Decimal(-4), Decimal(-1)),
    ]
    assert files_of(1, 1.0) == 1
    assert files_of(3 * 2**20, 400.0) == 3
    assert level_of(7_300_000_000) == 6
