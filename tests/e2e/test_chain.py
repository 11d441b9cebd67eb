"""Open breaks of the orders' chain against the plain-Python oracle, while the log has gaps.

Many histories are played into one table, each with orders of its own. Events are missing for 1 to 7
days and issued again; some histories lack events for good, some begin before the log does.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import unquote_plus

import pytest

from tests.support import histories, oracle
from tests.support.lines import line, numbered
from tests.support.order_chain import breaks_of, by_place
from tests.support.warehouse import Warehouse, differing

DAYS = 10


def arrivals(tenant: int, seed: int) -> list[tuple[date, bytes]]:
    """One history's messages by their day of arrival; of every third tenant some never arrive."""
    history = histories.generate(seed, days=DAYS, tenant=tenant)
    rng, lines = random.Random(seed), history.lines
    if tenant % 6 == 1:  # the log begins in mid-history
        lines = lines[rng.randrange(len(lines) // 2) :]
    if tenant % 6 == 4:
        start = rng.randrange(len(lines))
        lines = lines[:start] + lines[start + rng.randint(1, 40) :]
    return histories.deliver_by_day(histories.History(lines, history.rows, history.days), seed)


def batches_of(seeds: range, ends: Sequence[int]) -> list[list[bytes]]:
    """Messages by the build that takes them; a build takes what arrived until the end of a day."""
    last_days = [histories.FIRST_DAY + timedelta(days=end) for end in ends]
    batches: list[list[bytes]] = [[] for _ in ends]
    for tenant, seed in enumerate(seeds):
        for day, message in arrivals(tenant, seed):
            place = next(place for place, last in enumerate(last_days) if day <= last)
            batches[place].append(message)
    for batch in batches:
        random.Random(seeds.start).shuffle(batch)
    return batches


def _check(folder: Path, seeds: range, ends: Sequence[int]) -> None:
    warehouse = Warehouse(folder)
    arrived: list[bytes] = []
    compared, kinds = 0, Counter()
    for number, batch in enumerate(batches_of(seeds, ends)):
        numbered = list(enumerate(batch, len(arrived)))
        histories.write_batch(warehouse.landing, numbered, max_lines=50_000)
        arrived += batch
        warehouse.run("run", "--select", "+meta_order_chain_break")
        changes = oracle.read_messages(arrived)
        expected = oracle.chain_breaks(changes)
        where = f"seeds {seeds}, after build {number + 1} of {len(ends)}"
        assert differing(by_place(expected), breaks_of(warehouse)) == [], where
        compared += len(expected)
        kinds += Counter(item.kind for item in expected)
        print(f"{where}: {len(changes)} changes, {len(expected)} open breaks, 0 differ")
    assert warehouse.refused() == 0
    # what was issued again has healed; what never came has not
    broken = {(item.key[0] - 2**63) // 1000 % 6 for item in expected}
    assert broken == {1, 4}
    assert len(kinds) == 6, kinds

    both = ("meta_order_chain_link", "meta_order_chain_break")
    warehouse.run("run", "--full-refresh", "--select", *both)
    assert differing(by_place(expected), breaks_of(warehouse)) == [], f"{seeds}, full refresh"
    print(f"{len(seeds)} histories, {len(arrived)} messages, {compared} breaks compared: {kinds}")


@pytest.mark.soak  # test_corrections compares the open breaks of other histories
def test_open_breaks_equal_the_oracle_after_every_build(tmp_path: Path) -> None:
    _check(tmp_path, range(12), ends=(5, 20))


@pytest.mark.in_turn
def test_a_run_without_a_break_reads_no_history(tmp_path: Path) -> None:
    """Its query runs all the same when the table's files, and those of other dates, are gone."""
    warehouse = Warehouse(tmp_path)
    lines = histories.generate(7, days=DAYS, tenant=0).lines
    for first, last in ((0, len(lines) - 20), (len(lines) - 20, len(lines))):
        warehouse.land_lines(lines[first:last], first)
        warehouse.run("run", "--select", "+meta_order_chain_break")
    (compiled,) = warehouse.target.glob("compiled/**/meta_order_chain_break.sql")
    sql = compiled.read_text(encoding="utf-8")

    tables = warehouse.warehouse / "data" / "dw"
    shutil.rmtree(tables / "ods_shop__order_info" / "data")
    parts = list((tables / "meta_order_chain_link" / "data").iterdir())
    other = [part for part in parts if f"'{unquote_plus(part.name)[5:]}'" not in sql]
    for part in other:
        shutil.rmtree(part)

    print(f"{len(parts) - len(other)} of {len(parts)} parts of the links were read")
    assert 0 < len(other) < len(parts)
    assert warehouse.query(sql) == []
    with pytest.raises(Exception, match=r"\.parquet"):
        warehouse.query("select sum(amount) from dw.ods_shop__order_info")


@pytest.mark.in_turn
def test_a_gap_before_a_change_of_no_declared_column_is_found(tmp_path: Path) -> None:
    """At one place of the log such a change takes the image that it leaves: it takes it first."""

    def message(order: int, op: str, status: str, flag: int, old: str | None = None) -> str:
        data = (
            f'{{"order_id":{order},"user_id":1,"amount":1.00,"biz_status":"{status}",'
            f'"update_time":"2026-03-02 00:00:00.000","legacy_flag":{flag}}}'
        )
        return line(table='"order_info"', type=f'"{op}"', data=data, old=old)

    warehouse, orders = Warehouse(tmp_path), range(1, 61)
    begun = [
        text
        for order in orders
        for text in (
            message(order, "insert", "a", 0),
            message(order, "update", "b", 0, '{"biz_status":"a"}'),
        )
    ]
    # that the status became `a` again is missing
    later = [message(order, "update", "a", 1, '{"legacy_flag":0}') for order in orders]
    arrived = [text.encode() for text in numbered(begun + later)]
    for first, last in ((0, len(begun)), (len(begun), len(arrived))):
        warehouse.land_lines(arrived[first:last], first)
        warehouse.run("run", "--select", "+meta_order_chain_break")
    expected = oracle.chain_breaks(oracle.read_messages(arrived))
    assert len(expected) == len(orders)
    assert differing(by_place(expected), breaks_of(warehouse)) == []


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 2_000, 125))
def test_open_breaks_of_a_thousand_histories(tmp_path: Path, first: int) -> None:
    _check(tmp_path, range(first, first + 125), ends=(*range(DAYS), 12, 14, 20))
