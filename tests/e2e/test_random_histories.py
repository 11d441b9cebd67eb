"""Random histories, delivered late, twice and in any order, against the plain-Python oracle."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support import histories, latest, oracle
from tests.support.details import customers_of_orders, stored_customers
from tests.support.levels import Levels
from tests.support.warehouse import MESSAGE, Warehouse, differing

CUSTOMERS = "dim_user_customer_zip"
COUNTS = ("dws_trade__user_status_td", "dws_trade__user_coupon_td", "dws_trade__order_5m")
COUNTS += ("dws_trade__city_product_1d", "meta_order_chain_break")
# what comes out differently when it is built at once, such as an append stream, isn't compared
SAME = ("ods_shop__order_info", "dwd_trade__order_wide", "dwd_trade__order_customer", CUSTOMERS)
SAME += ("dws_trade__user_status_1d", "dws_trade__user_status_1m", "dws_trade__user_status_1y")
SAME += ("dws_trade__user_coupon_1d", *COUNTS)


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


def _coupons_of_orders(changes: list[oracle.Change]) -> dict[int, tuple[int, Decimal]]:
    """order_id -> (number, amount) of the coupons used for it, as far as changes tell."""
    sums: dict[int, tuple[int, Decimal]] = {}
    for row in oracle.retract_rows(changes):
        order = row["image"]["used_order"]
        if order is not None:
            count, amount = sums.get(order, (0, Decimal(0)))
            amount += row["sign"] * row["image"]["amount"]
            sums[order] = (count + row["sign"], amount)
    return sums


def _check_wide(folder: Path, seeds: range, batches: int) -> None:
    """Build the wide orders and the customers' versions after every batch: the orders are a join of
    what the oracle knows then, the versions follow from these orders."""
    warehouse = Warehouse(folder)
    arrived: list[bytes] = []
    compared = with_coupons = versions = 0

    def build(models: str, *args: str, **variables: bool) -> None:
        nonlocal compared, with_coupons, versions
        warehouse.run("run", "--select", models, *args, vars=variables)
        orders = oracle.replay(oracle.read_messages(arrived))
        of_addresses = oracle.read_messages(arrived, table="order_address")
        compared += latest.compare_wide(
            warehouse, orders.values(), oracle.replay(of_addresses).values()
        )
        wanted = _coupons_of_orders(_changes_of_coupons(arrived))
        rows = warehouse.query(
            "select order_id, coalesce(coupon_count, 0) as n, coalesce(coupon_amount, 0) as amount "
            "from dw.dwd_trade__order_wide"
        )
        got = {int(row["order_id"]): (row["n"], row["amount"]) for row in rows}
        nothing = (0, Decimal(0))
        expected = {order: wanted.get(order, nothing) for (order,) in orders}
        assert differing(expected, got) == []
        with_coupons += sum(item != nothing for item in got.values())
        customers = stored_customers(warehouse)
        assert differing(customers_of_orders(oracle.read_messages(arrived)), customers) == []
        versions += sum(map(len, customers.values()))

    for number, batch in enumerate(histories.pack(seeds, batches, wide=True)):
        histories.write_batch(warehouse.landing, batch, max_lines=50_000)
        arrived += [line for _, line in batch]
        build(f"+dwd_trade__order_wide {CUSTOMERS}", merge_runs=number == 2)
    incremental = warehouse.rows("dwd_trade__order_wide")
    # once everything has come, the sums are those of the coupons that are there
    coupons = oracle.replay(_changes_of_coupons(arrived)).values()
    there = Counter(row["used_order"] for row in coupons if row["used_order"] is not None)
    sums = _coupons_of_orders(_changes_of_coupons(arrived))
    assert there == {order: count for order, (count, _) in sums.items() if count}

    build(f"dwd_trade__order_wide {CUSTOMERS}", "--full-refresh")

    assert warehouse.rows("dwd_trade__order_wide") == incremental
    assert with_coupons
    assert versions
    print(
        f"{len(seeds)} histories, {len(arrived)} messages, {compared} wide orders and "
        f"{versions} versions of customers compared"
    )


def _changes_of_coupons(lines: list[bytes]) -> list[oracle.Change]:
    key = ("user_id", "coupon_code")
    return oracle.read_messages(lines, table="coupon", key_columns=key)


@pytest.mark.soak
def test_the_wide_orders_are_a_join_of_what_has_come(tmp_path: Path) -> None:
    first = random.SystemRandom().randrange(10**6)
    print(f"first seed {first}")
    _check_wide(tmp_path, range(first, first + 2), batches=2)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(2_000, 2_500, 50))
def test_the_wide_orders_of_many_histories(tmp_path: Path, first: int) -> None:
    _check_wide(tmp_path, range(first, first + 50), batches=4)


def _check_reset(folder: Path, seed: int) -> None:
    """The server begins its binlog again in mid-history. Undeclared, the counts are those of the
    log before; declared, those of both logs, and of a full refresh."""
    warehouse, rng = Warehouse(folder), random.Random(seed)
    history = histories.generate(seed, reset=True)
    begin = history.reset_at
    stream = _sent(history.lines[:begin], rng)
    first = len(stream)
    stream += _sent(history.lines[begin:], rng)
    before = oracle.read_messages(history.lines[:begin])
    behind = oracle.read_messages(history.lines[begin:])
    # what is no later than the log before may be of a transaction that began before its end
    ended = max(change.ts for change in before)
    later = [n for n in range(first, len(stream)) if _time_of(stream[n]) > ended]
    cut = rng.choice(later) + 1
    begin_by_orders = next(n for n in range(first, len(stream)) if _is_change(stream[n]))
    refused = {"reject_threshold": 1}

    for number, offset in enumerate((0, cut)):
        lines = stream[offset : cut if number == 0 else len(stream)]
        warehouse.land_lines(lines, offset)
        warehouse.build(vars=refused)
        assert differing(oracle.daily_counts(before), warehouse.daily()) == [], seed
    refusals = warehouse.column(
        "select distinct reject_reason from dw.ods_shop__order_info where reject_reason is not null"
    )
    assert len(refusals) == 1
    assert f'"maxwell": {{"0": {begin_by_orders}}}' in refusals[0]

    declared = {"shop_log_resets": [{"offsets": {"maxwell": {"0": first}}}]}
    warehouse.build(vars=declared)

    both = before + oracle.of_later_log(behind)
    assert warehouse.refused() == 0
    assert differing(oracle.daily_counts(both), warehouse.daily()) == [], seed
    assert differing(oracle.counts_to_date(both), warehouse.td()) == [], seed
    incremental = warehouse.contents(without=MESSAGE)
    warehouse.build("--full-refresh", vars=declared)
    assert warehouse.contents(without=MESSAGE) == incremental
    print(f"seed {seed}: {len(before)} changes before the reset, {len(behind)} behind it")


def _is_change(line: bytes) -> bool:
    message = json.loads(line)
    return message["database"] == "shop" and message["type"] in oracle.ROW_OPERATIONS


def _seed_with_orders_behind(seed: int) -> int:
    """The first seed from this seed on whose history changes orders behind the reset too."""

    def changes_behind(candidate: int) -> list[oracle.Change]:
        history = histories.generate(candidate, reset=True)
        return oracle.read_messages(history.lines[history.reset_at :])

    return next(filter(changes_behind, itertools.count(seed)))


def _time_of(line: bytes) -> int:
    return json.loads(line)["ts"] if _is_change(line) else 0


def _sent(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """The lines as a producer sends them that is started again now and then."""
    stream: list[bytes] = []
    for number, line in enumerate(lines):
        stream.append(line)
        if rng.random() < 0.01:
            stream += lines[max(0, number - rng.randrange(60)) : number + 1]
    return stream


@pytest.mark.soak
def test_counts_behind_a_reset_of_the_binlog_are_exact_once_it_is_declared(tmp_path: Path) -> None:
    seed = _seed_with_orders_behind(random.SystemRandom().randrange(10**6))
    print(f"seed {seed}")
    _check_reset(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3_000, 3_020))
def test_counts_behind_resets_of_many_histories(tmp_path: Path, seed: int) -> None:
    _check_reset(tmp_path, _seed_with_orders_behind(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", [3, 4])
def test_models_that_run_at_any_time_come_to_the_same(tmp_path: Path, seed: int) -> None:
    """Some of the models, any of them, run while batches come in; then all of them once."""
    warehouse, rng = Warehouse(tmp_path), random.Random(seed)
    listed = ("--resource-type", "model", "--output", "name")
    wanted = [f"+{name}" for name in COUNTS]
    names = sorted(warehouse.run("list", "--select", *wanted, *listed).raw)
    arrived: list[bytes] = []
    packed = histories.pack(range(10 * seed, 10 * seed + 3), 4, gaps=True, wide=True)
    for number, batch in enumerate(packed):
        histories.write_batch(warehouse.landing, batch, max_lines=50_000)
        arrived += [line for _, line in batch]
        if number == 0:  # all tables are there
            warehouse.run("run", "--select", *names)
        else:
            for _ in range(3):
                some = rng.sample(names, rng.randint(1, len(names)))
                warehouse.run("run", "--select", *some)
    warehouse.run("run", "--select", *names)

    changes = oracle.read_messages(arrived)
    compared = Levels(warehouse).compare(changes, f"seed {seed}", rng)
    of_addresses = oracle.read_messages(arrived, table="order_address")
    orders = oracle.replay(changes).values()
    compared += latest.compare_wide(warehouse, orders, oracle.replay(of_addresses).values())

    def rows() -> dict[str, list[str]]:
        left_out = {*MESSAGE, "commit_number", "buyer_sketch"}
        return {table: warehouse.rows(table, without=left_out) for table in SAME}

    held = rows()
    warehouse.run("run", "--select", *names, "--full-refresh")
    assert [name for name, all_rows in rows().items() if all_rows != held[name]] == []
    print(f"seed {seed}: {len(names)} models, {compared} rows compared, 0 differ")
