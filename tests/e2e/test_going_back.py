"""Going back to a version, or dropping a candidate, loses no message, though its file is gone."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.support import histories, oracle
from tests.support.warehouse import Warehouse, differing

MODELS = ("--select", "+dws_trade__user_status_td", "--exclude-resource-type", "test", "unit_test")
TOTALS = "dws_trade__user_status_td"


@pytest.mark.soak
def test_the_log_stays_and_the_next_run_is_exact(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"\nseed {seed}")
    warehouse = Warehouse(tmp_path)
    first, second = histories.pack(range(seed, seed + 5), batches=2)
    lines = [[line for _, line in batch] for batch in (first, second)]
    histories.write_batch(warehouse.landing, first, max_lines=50_000)
    warehouse.run("build", *MODELS)
    early = oracle.read_messages(lines[0])
    histories.write_batch(warehouse.landing, second, max_lines=50_000)
    warehouse.run("build", *MODELS)
    live = oracle.read_messages(lines[0] + lines[1])
    raw = warehouse.rows("ods_binlog")
    for file in (warehouse.landing / "topics").iterdir():
        shutil.rmtree(file)

    output = warehouse.run("run-operation", "roll_back", "--args", "{version: 1}").log

    assert "dw.ods_binlog stays as it is" in output
    gone_back = warehouse.td(f"published.{TOTALS}")
    assert differing(oracle.counts_to_date(early), gone_back) == []
    assert warehouse.rows("ods_binlog") == raw
    # nor do they go when all that nobody needs any more expires
    warehouse.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    warehouse.run("build", *MODELS)
    assert differing(oracle.counts_to_date(live), warehouse.td()) == []
    assert warehouse.rows("ods_binlog") == raw

    # a batch that was looked at and dropped, and whose files are gone, counts when it is named
    days = sorted({oracle.cut_date(item) for item in live})
    again = histories.import_again(lines[0] + lines[1], days[len(days) // 2 :], seed)
    landed = warehouse.land_lines(again, 0, batch="fix")
    both = {"batches": ["live", "fix"]}
    warehouse.run("build", *MODELS, vars=both | {"hold_back": True})
    landed.unlink()
    warehouse.run("run-operation", "drop_candidate")
    assert differing(oracle.counts_to_date(live), warehouse.td()) == []
    warehouse.run("build", *MODELS)
    assert differing(oracle.counts_to_date(live), warehouse.td()) == []
    warehouse.run("build", *MODELS, vars=both)
    wanted = oracle.counts_to_date(oracle.corrected(live, oracle.read_messages(again)))
    assert differing(wanted, warehouse.td()) == []
