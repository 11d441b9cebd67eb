"""The memory of a load doesn't grow with the days that it brings."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from benchmarks.generate_maxwell import generate
from tests.support.warehouse import Warehouse

ROWS, DAYS = 40_000, 3_650


@pytest.mark.soak
def test_ten_years_of_days_are_written_in_one_load_with_little_memory(tmp_path: Path) -> None:
    # few large files: each task has rows of all days
    small = {"spark_driver_memory": "1g", "spark_master": "local[2]", "spark_submit_opts": ""}
    warehouse = Warehouse(tmp_path, **small)
    generate(
        warehouse.landing,
        ROWS,
        days=DAYS,
        files=2,
        partitions=2,
        start=dt.date(2015, 1, 1),
        processes=1,
    )
    done = warehouse.subprocess("run", "--select", "ods_binlog", "ods_shop__order_info")
    assert done.returncode == 0, done.stdout
    found = "select count(*) as n, count(distinct cut_date) as days from dw.ods_shop__order_info"
    [row] = Warehouse(tmp_path).query(found)
    assert row["n"] == ROWS
    assert abs(row["days"] - DAYS) < 10
