"""Days, months, years and totals of random histories over years, against the plain-Python oracle.

Many histories are played into one table, each with orders and users of its own, so that few builds
try many of them. Some of their days come late, some changes years late.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support import histories, oracle
from tests.support.levels import Levels
from tests.support.warehouse import Warehouse


def _check(folder: Path, seeds: range, batches: int) -> None:
    warehouse, rng = Warehouse(folder), random.Random(seeds.start)
    levels = Levels(warehouse)
    arrived: list[bytes] = []
    compared = 0
    for number, batch in enumerate(histories.pack(seeds, batches, gaps=True)):
        histories.write_batch(warehouse.landing, batch, max_lines=50_000)
        arrived += [line for _, line in batch]
        warehouse.build()
        changes = oracle.read_messages(arrived)
        where = f"seeds {seeds}, after batch {number + 1} of {batches}"
        compared += levels.compare(changes, where, rng)
    assert warehouse.refused() == 0
    assert warehouse.daily("1y", "cut_year")

    warehouse.build("--full-refresh")
    compared += levels.compare(changes, f"seeds {seeds}, after a full refresh", rng)
    print(f"{len(seeds)} histories, {len(arrived)} messages, {compared} rows compared, 0 differ")


# the same levels are compared in test_corrections, which `make test` runs in its turn
@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 2_000, 250))
def test_every_level_of_a_thousand_histories(tmp_path: Path, first: int) -> None:
    _check(tmp_path, range(first, first + 250), batches=4)
