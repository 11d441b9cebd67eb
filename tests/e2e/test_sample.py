"""The sample log of a real MySQL: the warehouse's counts are the server's own.

Longer than 500 lines: its tests ask the same builds of the sample, which are made once a
module.
"""

from __future__ import annotations

import csv
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import latest, order_versions, window_oracle
from tests.support.cleaning_oracle import clean_row
from tests.support.dbt_project import REPO, Outcome
from tests.support.details import HIGH_VALUE, order_details, stored_customers
from tests.support.warehouse import (
    SAMPLE,
    Warehouse,
    differing,
    lines_of,
    sample_days,
    sample_lines,
    summed,
    truth,
)
from tools.lineage.commits import commits_query
from tools.lineage.warehouse import Lineage
from tools.report.charts import to_date
from tools.report.facts import SERIES, Asker, Gathering
from tools.report.make import context_of
from tools.report.page import html_of, libraries

ORDER_SETS = {
    "all": (),
    "platform": ("platform",),
    "product_type": ("product_type",),
    "customer_kind": ("customer_kind",),
    "platform_customer_kind": ("platform", "customer_kind"),
}


DAYS_OF_NEWEST_LOAD = """
    select distinct cut_date
    from dw.ods_shop__order_info
    where load_id = (select max_by(load_id, message_offset) from dw.ods_binlog)
"""


@pytest.fixture(scope="module")
def expected(in_one_go: Warehouse) -> dict[str, list[str]]:
    return in_one_go.contents()


DAYS_OF_STATUS = "dws_trade__user_status_1d"
DETAILS = ("dwd_trade__order_detail", "dwd_trade__order_coupon")


def _details(warehouse: Warehouse, name: str) -> list[str]:
    """The rows, without the number of the run that wrote them."""
    return warehouse.rows(name, without=["commit_number"])


def _day_by_day(warehouse: Warehouse, with_prices: Collection[str], ends: Collection[str]) -> None:
    """Land the sample's days one by one, build at the end of some and compare the counts with the
    server's answers; at the end of some of them, and of the last, the prices too, and the orders'
    details are built. Each build touches only the days in its files. The models' own tests take
    longer than the counts: they run on the last day.

    Args:
        with_prices: days at whose end prices are compared.
        ends: days at whose end the warehouse is built.
    """
    compared, landed = 0, []
    days = sample_days()
    assert set(with_prices) <= set(ends) <= {tag for tag, _ in days}
    warehouse.run("seed", "--select", "city")  # once, or the details would be rebuilt
    for tag, files in days:
        warehouse.land(*files)
        landed += files
        if tag not in ends:
            continue
        more = [f"+{detail}" for detail in ("dim_product_price_bizip", *DETAILS)]
        chosen = more if tag in with_prices else []
        outcome = warehouse.build(*chosen, data_tests=tag == days[-1][0])

        came = outcome.results["ods_binlog"].adapter_response["rows_affected"]
        assert came == sum(len(lines_of(file)) for file in landed)
        landed = []
        assert warehouse.written_partitions("dw.dws_trade__user_status_1d") == {
            f"cut_date={day}" for day in warehouse.column(DAYS_OF_NEWEST_LOAD)
        }
        wanted, got, daily = truth(tag), warehouse.td(), warehouse.daily()
        assert differing(wanted, got) == [], f"counts at the end of {tag}"
        assert differing(wanted, summed(daily)) == [], f"daily counts at the end of {tag}"
        prices = latest.compare_zipper(warehouse, "product_price", tag) if chosen else 0
        compared += len(wanted) + prices
        print(f"{tag}: {len(wanted)} counts and {prices} prices compared with MySQL's, 0 differ")
    assert landed == []
    print(f"{compared} rows compared in all")
    assert compared > 1_250 * len(ends)
    stored = warehouse.column("select count(distinct cut_date) from dw.dws_trade__user_status_1d")
    assert 0 < len(warehouse.written_partitions("dw.dws_trade__user_status_1d")) < stored[0]


def test_after_some_days_and_everything_twice_the_counts_are_the_servers_own(
    tmp_path: Path, expected: dict[str, list[str]], in_one_go: Warehouse
) -> None:
    warehouse, seed = Warehouse(tmp_path, compiles=True), random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    _day_by_day(warehouse, with_prices=("day6", "final"), ends=("day6", "final"))
    assert warehouse.contents() == expected
    for name in DETAILS:
        assert _details(warehouse, name) == _details(in_one_go, name), name

    _everything_again(warehouse, expected, seed)


@pytest.mark.soak
def test_after_every_day_the_counts_and_prices_are_the_servers_own(
    tmp_path: Path, expected: dict[str, list[str]], in_one_go: Warehouse
) -> None:
    warehouse = Warehouse(tmp_path, compiles=True)
    every = [tag for tag, _ in sample_days()]
    _day_by_day(warehouse, with_prices=every, ends=every)
    assert warehouse.contents() == expected
    for name in DETAILS:
        assert _details(warehouse, name) == _details(in_one_go, name), name


def test_in_one_go_the_counts_are_the_servers_own(in_one_go: Warehouse) -> None:
    wanted = truth("final")

    assert differing(wanted, in_one_go.td()) == []
    assert differing(wanted, summed(in_one_go.daily())) == []


@pytest.mark.parametrize("table", latest.VIEWS)
def test_the_latest_rows_are_the_servers_own(in_one_go: Warehouse, table: str) -> None:
    latest.compare(in_one_go, "maxwell", table)


@pytest.mark.parametrize("table", ["product_price", "user_account"])
def test_the_current_versions_are_the_servers_own(in_one_go: Warehouse, table: str) -> None:
    assert latest.compare_zipper(in_one_go, table) > 100


def test_the_wide_orders_are_a_join_of_the_servers_tables(in_one_go: Warehouse) -> None:
    compared = latest.compare_wide(in_one_go)

    print(f"{compared} wide orders are the server's")
    assert compared > 3_000


def test_the_versions_of_wide_orders_follow_from_the_typed_logs(in_one_go: Warehouse) -> None:
    compared = order_versions.compare(in_one_go)

    print(f"{compared} versions of orders with their addresses, 0 differ")
    assert compared > 10_000


def test_the_orders_of_the_last_day_stand_at_the_totals_to_date(in_one_go: Warehouse) -> None:
    standing = """
        select biz_status, order_count, amount_sum from dw.dws_trade__order_standing_1d
        where cut_date = (select max(cut_date) from dw.dws_trade__order_standing_1d)
            and order_count <> 0
    """
    totals = """
        select biz_status, sum(order_count), cast(sum(amount_sum) as decimal(38,2))
        from dw.dws_trade__user_status_td group by biz_status having sum(order_count) <> 0
    """
    assert len(in_one_go.query(totals)) > 10
    assert in_one_go.query(f"({standing}) except all ({totals})") == []
    assert in_one_go.query(f"({totals}) except all ({standing})") == []


def test_the_details_of_orders_are_those_of_their_time(in_one_go: Warehouse) -> None:
    """Prices by replaying the log, customers from the server's orders, cities from the seed."""
    wanted, _ = order_details(sample_lines(), *HIGH_VALUE)

    rows = in_one_go.query(
        "select order_id, product_name, price, customer_kind, is_high_value, start_city_code, "
        "start_country_code from dw.dwd_trade__order_detail"
    )

    got = {row["order_id"]: tuple(row.values())[1:] for row in rows}
    assert len(got) == len(rows)
    assert got == wanted
    priced = sum(item[1] is not None for item in got.values())
    old = sum(item[2] == "old" for item in got.values())
    print(f"{len(got)} order details: {priced} with a price, {old} of old customers")
    assert priced > 100
    assert old > 100


def test_windows_of_placed_orders_are_those_of_the_servers_orders(in_one_go: Warehouse) -> None:
    """Per 5 minutes to days; no page views have landed: the day's traffic is null."""
    details, _ = order_details(sample_lines(), *HIGH_VALUE)
    logged_at = {}
    for line in sample_lines():
        message = json.loads(line)
        if message.get("table") == "order_info" and "data" in message:
            logged_at[message["data"]["order_id"]] = datetime.fromtimestamp(message["ts"], UTC)
    orders = [
        row
        | {
            "at": row["create_time"],
            "platform": row["plat_name"] and row["plat_name"].strip().lower(),
            "customer_kind": details[row["order_id"]][2],
            "sign": 1,
        }
        for row in latest.server_rows("order_info")
        if isinstance(row["create_time"], datetime)
    ]
    placed = [
        order
        for order in orders
        if window_oracle.is_possible(
            order["at"], logged_at[order["order_id"]], ahead=1, behind=3650
        )
    ]
    zone = timezone(timedelta(hours=8))
    wanted = {}
    for key, some in window_oracle.grouped(placed, ORDER_SETS, zone).items():
        buyers = window_oracle.there(some, lambda row: row["user_id"], zone)
        wanted[key] = (len(some), sum(row["amount"] for row in some), buyers, buyers)

    rows = in_one_go.query(
        "select dimension_set, grain, window_start, window_end, platform, product_type, "
        "customer_kind, order_count, gmv, buyer_count, theta_sketch_estimate(buyer_sketch) as b "
        "from dw.dws_trade__order_5m"
    )

    got = {tuple(row.values())[:7]: tuple(row.values())[7:] for row in rows}
    assert len(got) == len(rows)
    assert differing(wanted, got) == []
    city_of = {
        row["order_id"]: row["start_city_name"] for row in latest.server_rows("order_address")
    }
    of_cities: dict[tuple, tuple] = {}
    for item in placed:
        key = (
            item["at"].astimezone(zone).date(),
            city_of.get(item["order_id"]),
            item["product_type"],
        )
        count, gmv = of_cities.get(key, (0, 0))
        of_cities[key] = (count + 1, gmv + item["amount"])
    rows = in_one_go.query("select * from dw.dws_trade__city_product_1d")
    got_of_cities = {tuple(row.values())[:3]: tuple(row.values())[3:] for row in rows}
    assert differing(of_cities, got_of_cities) == []
    days = in_one_go.query(
        "select * from dw.dws_operations__platform_1d where dimension_set = 'all'"
    )
    assert sum(row["order_count"] or 0 for row in days) == len(placed) < len(orders)
    assert any(row["coupons_new"] for row in days)
    assert {row["pv"] for row in days} == {row["conversion_rate"] for row in days} == {None}
    print(f"{len(placed)} orders in {len(got)} windows, 0 differ")


def test_the_versions_of_customers_follow_from_their_orders(in_one_go: Warehouse) -> None:
    _, wanted = order_details(sample_lines(), *HIGH_VALUE)

    got = stored_customers(in_one_go)

    assert got == wanted
    print(f"{sum(map(len, got.values()))} versions of {len(got)} customers")
    assert any(state[1] for versions in got.values() for _, _, state in versions)


def test_the_coupons_of_orders_are_the_coupons_that_name_them(in_one_go: Warehouse) -> None:
    of_order: dict = {}
    for row in in_one_go.query("select * from dw.dwd_trade__coupon_latest"):
        coupon = (row["user_id"], row["coupon_code"], row["amount"], row["state"])
        of_order.setdefault(row["used_order"], []).append(coupon)
    wanted = {
        (row["order_id"], *coupon)
        for row in latest.server_rows("order_info")
        for coupon in of_order.get(row["order_id"], [(None,) * 4])
    }

    rows = in_one_go.query(
        "select order_id, coupon_user_id, coupon_code, coupon_amount, coupon_state "
        "from dw.dwd_trade__order_coupon"
    )

    assert len(rows) == len(wanted)
    assert {tuple(row.values()) for row in rows} == wanted
    used = sum(item[1] is not None for item in wanted)
    print(f"{len(wanted)} rows of orders and coupons, {used} with a coupon")
    assert used > 10


def test_the_coupon_totals_are_those_of_the_coupons_that_are_there(in_one_go: Warehouse) -> None:
    wanted: dict[tuple, list] = {}
    for row in in_one_go.query("select user_id, state, amount from dw.dwd_trade__coupon_latest"):
        wanted.setdefault((row["user_id"], row["state"]), []).append(row["amount"])

    got = {
        (row["user_id"], row["state"]): tuple(row.values())[2:]
        for row in in_one_go.query("select * from dw.dws_trade__user_coupon_td")
    }

    print(f"{len(wanted)} totals of coupons compared")
    assert len(wanted) > 300
    assert got == {
        key: (len(amounts), sum(amounts), max(amounts), min(amounts))
        for key, amounts in wanted.items()
    }


def test_changes_of_nothing_that_is_counted_are_those_of_equal_images(
    in_one_go: Warehouse,
) -> None:
    """By the images before and after, not by what the log states has changed."""
    for table, columns in {
        "order_info": ("user_id", "biz_status", "amount"),
        "coupon": ("user_id", "state", "amount"),
    }.items():
        model = f"ods_shop__{table}"
        assert latest.declaration(table)["columns_of_interest"] == list(columns)
        equal = " and ".join(f"before.{name} <=> {name}" for name in columns)
        (wanted,) = in_one_go.query(
            f"select count(*) as updates, count_if({equal}) as filtered from dw.{model} "
            "where op_type = 'update' and reject_reason is null"
        )
        (got,) = in_one_go.query(
            "select sum(update_count) as updates, sum(filtered_count) as filtered "
            f"from dw.meta_changes_of_interest where table_name = '{model}'"
        )
        assert got == wanted
        print(f"{model}: {got['filtered']} of {got['updates']} updates change nothing counted")
        assert got["filtered"] > 50


@pytest.mark.in_turn
def test_a_second_run_of_everything_adds_nothing_either(in_one_go: Warehouse) -> None:
    in_one_go.build(everything=True)  # what tests before this one have built alone has caught up
    tables = [row["tableName"] for row in in_one_go.query("show tables in dw")]
    before = {table: in_one_go.snapshots(table) for table in tables}
    assert len(before) > 45

    outcome = in_one_go.build(everything=True)

    assert "Nothing new has landed: no row was added." in outcome.log
    after = {table: in_one_go.snapshots(table) for table in tables}
    changed = {table for table in tables if after[table] != before[table]}
    assert changed == {"meta_lease"}  # which a run takes and gives back


@pytest.mark.in_turn
def test_a_full_refresh_gives_the_same_tables(
    in_one_go: Warehouse, expected: dict[str, list[str]]
) -> None:
    before = len(in_one_go.snapshots("dws_trade__user_status_1d"))

    in_one_go.build("--full-refresh")

    assert in_one_go.contents() == expected
    assert len(in_one_go.snapshots("dws_trade__user_status_1d")) == before + 1


@pytest.mark.in_turn
def test_the_summary_names_columns_that_nobody_takes_and_the_tests_that_ran(
    first_build: tuple[Warehouse, Outcome],
) -> None:
    warehouse, outcome = first_build
    assert "No data test ran" in outcome.log

    tested = warehouse.run("build", "--select", "ods_binlog")

    undeclared = warehouse.query("select * from dw.meta_undeclared_column")
    assert undeclared
    for row in undeclared:
        assert (
            f"Column {row['column_name']} of {row['database_name']}.{row['table_name']} stands in "
            f"{row['message_count']:,} messages of {row['topic']} and is declared in no model"
        ) in tested.log
    assert re.search(r"\d+ data tests: \d+ passed, 1 warned \(.*\), 0 failed", tested.log)

    strict = ("--warn-error-options", '{"error": ["LogTestResult"]}')
    failed = warehouse.run("build", "--select", "ods_binlog", *strict, expect_ok=False)
    assert re.search(r"\d+ data tests: \d+ passed, 0 warned, 1 failed", failed.log)
    assert "every_column_of_a_declared_table_is_taken failed with 1 row, the first:" in failed.log
    assert re.search(r'^  \{"topic":"maxwell",.*"column_name":"legacy_flag"', failed.log, re.M)


def test_a_second_run_adds_nothing_and_reports_it(in_one_go: Warehouse) -> None:
    tables = ("ods_binlog", "ods_shop__order_info", "dws_trade__user_status_1d")
    before = {table: in_one_go.snapshots(table) for table in tables}

    outcome = in_one_go.build()

    assert "Nothing new has landed: no row was added." in outcome.log
    assert {table: in_one_go.snapshots(table) for table in tables} == before


def test_the_clean_rows_are_those_of_plain_python(in_one_go: Warehouse) -> None:
    """By the rules and the seeds as they are in the files; and they are counted so."""
    orders, addresses = "dwd_trade__order_clean", "dwd_trade__order_address_clean"
    counts: Counter[tuple] = Counter()
    compared = 0
    for model, columns, raw in (
        (orders, ["plat_name", "amount", "biz_status"], "dw.dwd_trade__order_changelog"),
        (
            addresses,
            ["start_city_name", "start_city_code", "end_city_name", "end_city_code"],
            "(select *, 1 as sign, start_city_name as start_city_code, "
            "end_city_name as end_city_code from dw.ods_shop__order_address "
            "where reject_reason is null and op_type <> 'delete')",
        ),
    ):
        rules, dictionaries = _cleaning_of(model)
        asked = f"select unique_key, {', '.join(columns)}{{}} from {{}} where sign = 1"
        got = {
            row["unique_key"]: row
            for row in in_one_go.query(asked.format(", cleaning", f"dw.{model}"))
        }
        for row in in_one_go.query(asked.format("", raw)):
            expected = clean_row(row, rules, dictionaries)
            assert got.pop(row["unique_key"]) == expected
            compared += 1
            for item in expected["cleaning"]:
                counts[model, item["column_name"], item["rule"], item["outcome"]] += 1
        assert got == {}
        assert in_one_go.column(f"select count(*) from dw.{model} where sign = -1")[0] > 500
    rules, _ = _cleaning_of("dwd_trade__order_event")
    for row in in_one_go.query("select plat_name as platform from dw.dwd_trade__order_wide"):
        for item in clean_row(row, rules, {})["cleaning"]:
            counts["dwd_trade__order_event", "platform", item["rule"], item["outcome"]] += 1

    print(f"{compared} clean rows compared, {counts.total()} outcomes of rules")
    assert compared > 20_000
    found: Counter[tuple] = Counter()
    for row in in_one_go.query("select * from dw.meta_cleaning"):
        *key, changed, refused = row.values()
        found[*key, "changed"], found[*key, "refused"] = changed, refused
    assert +found == counts


def _cleaning_of(model: str) -> tuple[dict[str, dict], dict[str, dict[str, str]]]:
    """(column -> rules, seed -> word -> meaning) of a model, from the project's files."""
    text = (REPO / "models" / "dwd" / "trade" / "_trade__models.yml").read_text(encoding="utf-8")
    (described,) = (row for row in yaml.safe_load(text)["models"] if row["name"] == model)
    rules = {
        column["name"]: column["config"]["meta"]["cleaning"]
        for column in described["columns"]
        if "config" in column
    }
    dictionaries = {}
    for given in filter(None, (rule.get("dictionary") for rule in rules.values())):
        with (REPO / "seeds" / f"{given['seed']}.csv").open(encoding="utf-8", newline="") as file:
            words = {line[given["from"]]: line[given["to"]] for line in csv.DictReader(file)}
        dictionaries[given["seed"]] = words
    return rules, dictionaries


def _deliver_in_random_files(warehouse: Warehouse, seed: int, parts: int, *more: str) -> None:
    """Land and build the sample, with more models, in a random split: other file bounds, arriving
    in any order.

    Some stretches of the log are delivered twice, the second time cut into other files. It comes
    in `parts` parts; with the last one everything comes once more.
    """
    rng = random.Random(seed)
    lines = sample_lines()
    bounds = sorted({0, len(lines), *rng.sample(range(1, len(lines)), rng.randint(3, 25))})
    pieces = list(itertools.pairwise(bounds))
    for _ in range(rng.randint(1, 5)):
        first = rng.randrange(len(lines))
        pieces.append((first, min(len(lines), first + rng.randint(1, 9_000))))
    rng.shuffle(pieces)
    batches = [pieces[place::parts] for place in range(parts)]
    batches[-1] = pieces
    if more:
        warehouse.run("seed", "--select", "city")
    for batch in batches:
        for first, last in batch:
            warehouse.land_lines(lines[first:last], first, gz=rng.random() < 0.5)
        wide = "+dwd_trade__order_wide"
        warehouse.run("run", "--select", "+dws_trade__user_status_td", wide, *more)
    warehouse.run(
        "test", "--select", "+dws_trade__user_status_td", "--exclude-resource-type", "unit_test"
    )


def _everything_again(warehouse: Warehouse, expected: dict[str, list[str]], seed: int) -> None:
    """The producer sends everything again: the same changes, shuffled, at new offsets."""
    lines = sample_lines()
    files = [lines[place : place + 4_000] for place in range(0, len(lines), 4_000)]
    random.Random(seed).shuffle(files)
    offset = len(lines)
    for number, file in enumerate(files):
        warehouse.land_lines(file, offset, gz=number % 2 == 0)
        offset += len(file)
    warehouse.build()

    assert warehouse.column("select count(*) from dw.ods_binlog") == [2 * len(lines)]
    for table, rows in expected.items():
        # the coordinates of messages differ, the changes don't
        if not table.startswith("ods_"):
            assert warehouse.rows(table) == rows, table
    changes = warehouse.column("select count(*) from dw.ods_shop__order_info")
    assert changes == [len(expected["ods_shop__order_info"])]


@pytest.mark.soak
def test_any_split_and_everything_twice_give_the_same_tables(
    tmp_path: Path, expected: dict[str, list[str]], in_one_go: Warehouse
) -> None:
    """A random split, and then everything again."""
    warehouse, seed = Warehouse(tmp_path, compiles=True), random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    _deliver_in_random_files(warehouse, seed, parts=1)
    assert warehouse.contents() == expected
    assert warehouse.rows("dwd_trade__order_wide") == in_one_go.rows("dwd_trade__order_wide")
    assert latest.compare_wide(warehouse) > 3_000

    _everything_again(warehouse, expected, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 20))
def test_many_splits_give_the_same_tables(
    tmp_path: Path, expected: dict[str, list[str]], in_one_go: Warehouse, seed: int
) -> None:
    warehouse = Warehouse(tmp_path, compiles=True)

    _deliver_in_random_files(warehouse, seed, 2 + seed % 3, *(f"+{detail}" for detail in DETAILS))

    assert warehouse.contents() == expected, f"seed {seed}"
    for name in ("dwd_trade__order_wide", *DETAILS):
        assert _details(warehouse, name) == _details(in_one_go, name), f"seed {seed}: {name}"


def test_the_freshness_of_a_log_is_the_age_of_its_newest_change(in_one_go: Warehouse) -> None:
    outcome = in_one_go.run("source", "freshness", expect_ok=None)

    results = [result for result in outcome.raw.results if result.node.resource_type == "source"]
    reported = {result.node.name: result for result in results}
    assert reported.keys() == {"shop", "app", "traffic"}
    [newest] = in_one_go.column("select max(event_time) from dw.ods_binlog")
    assert reported["shop"].max_loaded_at == newest
    assert reported["shop"].status == ("error" if reported["shop"].age > 24 * 3600 else "pass")


@pytest.mark.soak
def test_plain_dbt_commands_work(in_one_go: Warehouse) -> None:
    in_one_go.run("run", "--select", "+dws_trade__user_status_td")
    in_one_go.run(
        "test", "--select", "+dws_trade__user_status_td", "--exclude-resource-type", "unit_test"
    )
    shown = in_one_go.run(
        "show",
        "--inline",
        "select max(order_id) as order_id from {{ ref('ods_shop__order_info') }}",
        "--output",
        "json",
    )
    in_one_go.run("docs", "generate")

    assert '"order_id": 18446744073709544125' in shown.log
    catalog = (in_one_go.target / "catalog.json").read_text(encoding="utf-8")
    for name in ("ods_binlog", "dwd_trade__order_changelog", "dws_trade__user_status_1d"):
        assert f"model.binlog_warehouse.{name}" in catalog


@pytest.mark.in_turn
def test_the_models_do_what_their_unit_tests_say(in_one_go: Warehouse) -> None:
    outcome = in_one_go.run("test", "--select", "test_type:unit")

    tests = [status for name, status in outcome.statuses().items() if "on-run-" not in name]
    print(f"{len(tests)} unit tests")
    assert len(tests) > 50
    assert set(tests) == {"pass"}


def test_every_commit_records_run_code_and_inputs(in_one_go: Warehouse) -> None:
    for table, inputs in {
        "ods_binlog": set(),
        "ods_shop__order_info": {"dw.ods_binlog"},
        "dws_trade__user_status_1d": {"dw.ods_shop__order_info"},
    }.items():
        for commit in in_one_go.snapshots(table):
            summary = dict(commit["summary"])
            assert summary["dbt.model"] == f"model.binlog_warehouse.{table}"
            assert summary["dbt.run"]
            assert summary["dbt.code"].startswith("0.1.0+")
            named = {key.removeprefix("dbt.input.") for key in summary if "dbt.input." in key}
            assert named == inputs

    lineage = in_one_go.query("select * from dw.meta_lineage")
    known = {row["snapshot_id"] for row in lineage}
    assert {row["input_snapshot_id"] for row in lineage} - {None} <= known


def test_the_lineage_lists_every_incremental_table_of_the_daily_build(in_one_go: Warehouse) -> None:
    arguments = ("--select", "config.materialized:incremental", "--output", "name")
    folded = ("--select", "config.materialized:folded", "--output", "name")
    models = ("--resource-type", "model", "--exclude", "path:models/dqc", "meta_quality")
    expected = {f"dw.{name}" for name in in_one_go.run("list", *arguments, *models).raw}
    expected |= {f"dw.{name}__runs" for name in in_one_go.run("list", *folded, *models).raw}
    # a seed that a join follows is an input like any other: its own commits are listed too
    expected |= set(in_one_go.column("select distinct input_table from dw.meta_lineage")) - {None}
    listed = in_one_go.column("select distinct table_name from dw.meta_lineage")
    assert set(listed) == expected


# number of the report -> the query that must give it
NUMBERS = {
    "overview.version": "select count(*) from dw.meta_version",
    "overview.tables": "select size(max_by(snapshots, version)) from dw.meta_version",
    "input.messages": "select count(*) from dw.ods_binlog",
    "input.refused": "select count(*) from dw.meta_quarantine",
    "input.missing": "select sum(missing_count) from dw.meta_topic_volume",
    "correctness.breaks": "select count(*) from dw.meta_order_chain_break",
    "counts.dws_trade__user_status_td.order_count": """
        select sum(order_count) from dw.dws_trade__user_status_td
    """,
    "counts.dws_trade__user_status_td.amount_sum": """
        select sum(amount_sum) from dw.dws_trade__user_status_td
    """,
    "versions.version": "select max(version) from dw.meta_version",
}


def in_order(commits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Commits, each with its inputs in the order of their names."""
    return [
        {**commit, "inputs": sorted(commit["inputs"], key=lambda read: read["input_table"])}
        for commit in commits
    ]


@pytest.mark.soak
def test_each_main_number_of_the_report_is_that_of_a_query(
    in_one_go: Warehouse, tmp_path: Path
) -> None:
    in_one_go.run("compile", "--target", "ci", "--select", "fqn:*", "--write-json")
    manifest = json.loads((in_one_go.target / "manifest.json").read_text(encoding="utf-8"))
    asker = Asker(in_one_go.credentials())
    gathering = Gathering(asker)
    context = context_of(REPO, manifest, gathering, in_one_go.target, tmp_path)
    # a long number may go on in the next line
    html = html_of(context, libraries(REPO / "target")).replace("<wbr>", "")
    numbers = dict(re.findall(r'data-number="([^"]+)">([^<]*)<', html))

    for name, sql in NUMBERS.items():
        assert numbers[name] == f"{in_one_go.column(sql)[0]:,}", name
    parts = ("applied", "duplicates", "filtered", "refused", "unaccounted")
    shown = [int(numbers[f"input.{part}"].replace(",", "")) for part in parts]
    assert f"{sum(shown):,}" == numbers["input.messages"]
    figures = Lineage(manifest).figures
    assert numbers["lineage.columns"] == f"{figures['columns']:,}"
    assert numbers["lineage.unknown"] == "0"

    # commits are read without a query: of the tables that meta_lineage lists they are its own
    listed = {commit["table_name"] for commit in asker.rows(commits_query("dw")) or ()}
    commits = [commit for commit in asker.commits() or () if commit["table_name"] in listed]
    assert in_order(commits) == in_order(asker.rows(commits_query("dw")) or []) != []

    # the curve of a count ends at the total, whatever days it shows
    [of_days] = [counted for counted in context.counted if counted.name == DAYS_OF_STATUS]
    totals = to_date(context.facts.counts[of_days.name], "amount_sum")
    last = {row["value"]: row["amount_sum"] for row in totals}
    expected = in_one_go.query("""
        select coalesce(biz_status, '-') as value, sum(amount_sum) as amount
        from dw.dws_trade__user_status_td group by 1
    """)
    assert len(last) == SERIES < len(expected)  # a chart shows the largest groups
    assert last == {row["value"]: row["amount"] for row in expected if row["value"] in last}
    # what is declared and what its models hold is shown, without code of its own
    assert {counted.count for counted in context.counted} == {
        *("city_product", "page_views", "placed_orders", "user_coupon", "user_status")
    }


def test_columns_have_the_types_of_the_yaml(in_one_go: Warehouse) -> None:
    """Also those of the Python models, which dbt holds to no contract."""
    differ, compared = [], 0
    built = {row["tableName"] for row in in_one_go.query("show tables in dw")}
    built |= {row["viewName"] for row in in_one_go.query("show views in dw")}
    for path in sorted((REPO / "models").rglob("*.yml")):
        for model in yaml.safe_load(path.read_text(encoding="utf-8")).get("models") or []:
            if model["name"] not in built:  # reconciliations
                continue
            declared = {column["name"]: column["data_type"] for column in model["columns"]}
            declared = {name: kind.replace(" ", "") for name, kind in declared.items()}
            stored = {
                row["col_name"]: row["data_type"]
                for row in in_one_go.query(f"describe table dw.{model['name']}")
                if row["col_name"] in declared
            }
            if stored != declared:
                differ.append((model["name"], set(declared.items()) ^ set(stored.items())))
            compared += len(declared)
    assert compared > 850
    assert differ == []


def test_the_sample_is_the_projects_default_landing() -> None:
    assert SAMPLE.is_relative_to(REPO / "landing")
