"""The warehouse itself is killed while it builds random histories; one rerun makes it right.

Each run is killed at a named step: once messages have landed, while they are decoded, once they are
decoded, counted, tested, once the version is published. What comes of it is compared with the
plain-Python oracle. KILLS_SEED plays the same histories again.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.support import histories, oracle
from tests.support.killed_runs import Reader, kill, orphans, start, wait_for
from tests.support.levels import Levels
from tests.support.warehouse import Warehouse, differing

STEPS = {
    "landed": "OK created python incremental model dw.ods_binlog",
    "writing": "START python incremental model dw.ods_shop__order_info",
    "decoded": "OK created python incremental model dw.ods_shop__order_info",
    "committed": "OK created sql incremental model dw.dws_trade__user_status_1d",
    "tested": "PASS a_day_has_each_user_and_status_once",
    "published": "Published as version",
}
MODELS = ("--select", "+dws_trade__user_status_td", "--exclude-resource-type", "unit_test")
READ = """
    select
        (select sum(sign) from published.dwd_trade__order_changelog) as signs,
        (select sum(order_count_change) from published.dws_trade__user_status_1d) as days,
        (select sum(order_count) from published.dws_trade__user_status_td) as total
"""


@pytest.mark.soak
def test_one_rerun_of_the_warehouse_is_the_recovery(tmp_path: Path) -> None:
    seed = int(os.environ.get("KILLS_SEED", random.SystemRandom().randrange(10**6)))
    chance = random.Random(seed)
    # whether workers write the typed rows, or Spark
    least = chance.choice(["0", "never"])
    warehouse = Warehouse(tmp_path, WORKER_DECODING_FROM=least)
    print(f"\nseed {seed}, WORKER_DECODING_FROM={least}")
    levels, log = Levels(warehouse), tmp_path / "run.log"
    steps = [*STEPS, *chance.sample(list(STEPS), len(STEPS))]
    lines: list[bytes] = []

    def land(batch: list[histories.Message]) -> list[oracle.Change]:
        histories.write_batch(warehouse.landing, batch, max_lines=50_000)
        lines.extend(line for _, line in batch)
        return oracle.read_messages(lines)

    first, *batches = histories.pack(range(seed, seed + 4), len(steps) + 1, gaps=True)
    before = oracle.counts_to_date(land(first))
    warehouse.run("build", *MODELS)
    reader = Reader(warehouse, READ)
    reader.start()
    for number, (step, batch) in enumerate(zip(steps, batches, strict=True)):
        changes = land(batch)
        wanted = oracle.counts_to_date(changes)
        run = start(warehouse, log, *MODELS)
        assert wait_for(run, log, STEPS[step], seconds=600)
        time.sleep((8 if step == "writing" else 0.5) * chance.random())
        with_java = chance.random() < 0.5
        kill(run, with_java)
        seen = warehouse.td("published.dws_trade__user_status_td")
        assert seen in (before, wanted), (seed, number)

        warehouse.run("build", *MODELS)

        compared = levels.compare(changes, f"seed {seed}, kill {number}", chance)
        before = warehouse.td("published.dws_trade__user_status_td")
        assert differing(wanted, before) == [], (seed, number)
        tables = {row["tableName"] for row in warehouse.query("show tables in dw")}
        views = {row["viewName"] for row in warehouse.query("show views in dw")}
        assert orphans(warehouse, tables - views) == set(), (seed, number)
        print(
            f"  {number}: killed {'with Java ' * with_java}once {step}, readers saw the "
            f"{'new' if seen == wanted else 'old'} version; {compared} rows compared, 0 differ"
        )
    reader.stop()
