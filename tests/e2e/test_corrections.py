"""Days of the log that are imported again with corrected rows, against the plain-Python oracle.

Many histories are played into one table. A batch corrects some of what the live log held and
brings some that it lacked; the live log sends the old words again, and another batch corrects the
first.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support import histories, oracle
from tests.support.dbt_project import Outcome
from tests.support.levels import Levels
from tests.support.order_chain import breaks_of, by_place
from tests.support.warehouse import MESSAGE, Warehouse, differing

MODELS = ("+dws_trade__user_status_td", "+meta_order_chain_break")


class Corrected:
    """A warehouse, what came by each of its batches, and what follows from that."""

    def __init__(self, folder: Path, seeds: range) -> None:
        self.warehouse, self.seeds = Warehouse(folder), seeds
        self.levels, self.rng = Levels(self.warehouse), random.Random(seeds.start)
        self.layers: dict[str, list[bytes]] = {"live": []}
        self.compared = 0

    def land_live(self, batch: list[histories.Message]) -> None:
        histories.write_batch(self.warehouse.landing, batch, max_lines=50_000)
        self.layers["live"] += [line for _, line in batch]

    def land_again(self, name: str, lines: list[bytes]) -> None:
        """Land as a batch the days of some of the messages, some corrected."""
        days = sorted({oracle.cut_date(message) for message in oracle.read_messages(lines)})
        chosen = self.rng.sample(days, len(days) // 4)
        self.layers[name] = histories.import_again(lines, chosen, self.rng.randrange(10**6))
        self.warehouse.land_lines(self.layers[name], 0, batch=name)

    def build_and_compare(self, *args: str) -> Outcome:
        done = self.warehouse.run(
            "run", "--select", *MODELS, *args, vars={"batches": list(self.layers)}
        )
        read = [oracle.read_messages(lines) for lines in self.layers.values()]
        changes = oracle.corrected(*read)
        where = f"seeds {self.seeds}, batches {list(self.layers)} {args}"
        self.compared += self.levels.compare(changes, where, self.rng)
        expected = by_place(oracle.chain_breaks(changes))
        assert differing(expected, breaks_of(self.warehouse)) == [], where
        assert self.warehouse.refused() == 0
        print(f"{where}: {len(changes)} changes, {len(expected)} open breaks, 0 differ")
        return done

    def corrected_days(self) -> set[str]:
        """Days whose counts the last build rewrote."""
        return self.warehouse.written_partitions("dw.dws_trade__user_status_1d")


def _check(folder: Path, seeds: range, apart: bool) -> None:
    """Build after each delivery; unless `apart`, the first two come together, and no build follows
    that has nothing to do."""
    corrected = Corrected(folder, seeds)
    first, second = histories.pack(seeds, batches=2, gaps=True)
    corrected.land_live(first)
    if apart:
        corrected.build_and_compare()
    # what the live log hasn't brought yet is among it
    corrected.land_again("fix_1", [line for _, line in first + second])
    corrected.build_and_compare()
    corrected.land_live(second)
    corrected.land_again("fix_2", [line for _, line in first + second])
    corrected.build_and_compare()
    days = corrected.warehouse.column(
        "select count(distinct cut_date) from dw.ods_shop__order_info"
    )
    assert 0 < len(corrected.corrected_days()) < days[0]

    tables = corrected.warehouse.contents(without=MESSAGE)
    if apart:
        again = corrected.build_and_compare()
        message = again.results["ods_shop__order_info"].message
        assert message.startswith("nothing new"), message
    corrected.build_and_compare("--full-refresh")
    assert corrected.warehouse.contents(without=MESSAGE) == tables
    print(f"{len(seeds)} histories, {corrected.compared} rows compared, 0 differ")


@pytest.mark.in_turn
def test_days_imported_again_with_corrections_equal_the_oracle(tmp_path: Path) -> None:
    _check(tmp_path, range(3), apart=False)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 2_000, 250))
def test_corrections_of_a_thousand_histories(tmp_path: Path, first: int) -> None:
    _check(tmp_path, range(first, first + 250), apart=True)
