"""Random histories, delivered late, twice and in any order, against the plain-Python oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import histories, oracle
from tests.support.warehouse import Warehouse, differing


def _check(folder: Path, seed: int, batches: int) -> None:
    """Build after every batch; after each the counts are the oracle's over what has come so far."""
    warehouse = Warehouse(folder)
    history = histories.generate(seed)
    arrived: list[bytes] = []
    compared = 0
    deliveries = histories.deliver(history, seed, batches=batches, late_files=seed % 2 == 1)
    for number, batch in enumerate(deliveries):
        histories.write_batch(warehouse.landing, batch)
        arrived += [line for _, line in batch]
        warehouse.build()

        changes = oracle.read_messages(arrived)
        where = f"seed {seed}, after batch {number + 1} of {len(deliveries)}"
        assert differing(oracle.daily_counts(changes), warehouse.daily()) == [], where
        assert differing(oracle.counts_to_date(changes), warehouse.td()) == [], where
        compared += len(warehouse.daily()) + len(warehouse.td())
    incremental = warehouse.contents()
    assert warehouse.refused() == 0

    warehouse.build("--full-refresh")

    assert warehouse.rows("dws_trade__user_status_1d") == incremental["dws_trade__user_status_1d"]
    assert warehouse.td() == oracle.counts_to_date(oracle.read_messages(history.lines))
    print(f"seed {seed}: {len(history.lines)} messages, {compared} rows compared, 0 differ")


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, *range(100, 130)])
def test_counts_equal_the_oracle_over_many_histories(tmp_path: Path, seed: int) -> None:
    _check(tmp_path, seed, batches=3 + seed % 5)
