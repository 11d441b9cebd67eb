"""The memory of a load doesn't grow with the days that it brings."""

from __future__ import annotations

import datetime as dt

import pytest

from benchmarks.generate_maxwell import generate
from tests.support.warehouse import Warehouse

ROWS, DAYS = 40_000, 3_650
SMALL_MEMORY = {"SPARK_DRIVER_MEMORY": "1g", "SPARK_MASTER": "local[2]", "SPARK_SUBMIT_OPTS": ""}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Ten years of days have landed. The files are few, so that each task has rows of all days."""
    found = Warehouse(tmp_path_factory.mktemp("many_days"))
    generate(
        found.landing,
        ROWS,
        days=DAYS,
        files=2,
        partitions=2,
        start=dt.date(2015, 1, 1),
        processes=1,
    )
    return found


def check_days(warehouse: Warehouse, table: str) -> None:
    [days] = warehouse.column(f"select count(distinct cut_date) from dw.{table}")
    assert days > 0.9 * DAYS  # a day may have no order that was placed on it


@pytest.mark.soak
def test_ten_years_of_days_are_written_in_one_load_with_little_memory(warehouse: Warehouse) -> None:
    chosen = ("ods_binlog", "ods_shop__order_info")
    done = warehouse.subprocess("run", "--select", *chosen, env=dict(SMALL_MEMORY))

    assert done.returncode == 0, done.stdout
    assert warehouse.column("select count(*) from dw.ods_shop__order_info") == [ROWS]
    check_days(warehouse, "ods_shop__order_info")


@pytest.mark.soak
def test_counts_of_ten_years_of_days_are_written_with_little_memory(warehouse: Warehouse) -> None:
    counts = ("dws_trade__city_product_1d", "dws_trade__order_5m", "dws_trade__user_status_td")
    chosen = [f"+{count}" for count in counts]
    done = warehouse.subprocess("run", "--select", *chosen, env=dict(SMALL_MEMORY))

    assert done.returncode == 0, done.stdout
    for table in ("dws_trade__city_product_1d", "dws_trade__order_5m", "dws_trade__user_status_1d"):
        check_days(warehouse, table)
