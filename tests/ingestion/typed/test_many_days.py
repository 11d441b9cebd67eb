"""The memory of a load doesn't grow with the days that it brings."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from benchmarks.generate_maxwell import generate
from tests.support.warehouse import Warehouse

ROWS, DAYS = 40_000, 3_650
SMALL_MEMORY = {"SPARK_DRIVER_MEMORY": "1g", "SPARK_MASTER": "local[2]", "SPARK_SUBMIT_OPTS": ""}


@pytest.mark.soak
def test_ten_years_of_days_are_written_in_one_load_with_little_memory(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    # few large files: each task has rows of all days
    generate(
        warehouse.landing,
        ROWS,
        days=DAYS,
        files=2,
        partitions=2,
        start=dt.date(2015, 1, 1),
        processes=1,
    )

    chosen = ("ods_binlog", "ods_shop__order_info")
    done = warehouse.subprocess("run", "--select", *chosen, env=dict(SMALL_MEMORY))

    assert done.returncode == 0, done.stdout
    [row] = warehouse.query(
        "select count(*) as n, count(distinct cut_date) as days from dw.ods_shop__order_info"
    )
    assert row["n"] == ROWS
    assert abs(row["days"] - DAYS) < 10
