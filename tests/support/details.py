"""What the details of the sample's orders must be, in plain Python: from the log's lines and the
server's own tables."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from tests.support import oracle
from tests.support.dbt_project import REPO
from tests.support.latest import server_rows
from tests.support.warehouse import Warehouse
from tests.support.zipper_oracle import versions

PRICES = "product_price"
HIGH_VALUE = (2, 3)  # the vars high_value_orders and high_value_days
Version = tuple[datetime, datetime | None, Any]


def price_versions(lines: Iterable[bytes]) -> dict[int, list[Version]]:
    """product_id -> versions of (name, price), by replaying Maxwell's lines in their order.

    A table that gets the name of another one brings its rows with it.
    """
    tables: dict[str, dict[int, dict]] = defaultdict(dict)
    events: dict[int, list[dict]] = defaultdict(list)

    def tell(key: int, place: tuple[int, int], ts: int, row: dict | None) -> None:
        kind = "-D" if row is None else "+U"
        named = row or {"product_name": None, "price": None}
        time = datetime.fromtimestamp(ts, UTC)
        events[key].append(named | {"place": place, "time": time, "kind": kind})

    for number, line in enumerate(lines):
        message = json.loads(line, parse_float=Decimal)
        if message.get("database") != "shop" or "table" not in message:
            continue
        name, kind = message["table"], message["type"]
        if kind == "table-alter" and message["def"]["table"] != name:
            moved, ts = tables.pop(name, {}), message["ts"] // 1000
            if name == PRICES:
                for key in moved:
                    tell(key, (number, 0), ts, None)
            if message["def"]["table"] == PRICES:
                for key, row in moved.items():
                    tell(key, (number, 1), ts, row)
            tables[message["def"]["table"]] = moved
        if kind not in ("insert", "update", "delete") or "product_id" not in message["data"]:
            continue
        row = message["data"]
        key, old = row["product_id"], {**row, **message.get("old", {})}["product_id"]
        if kind == "delete" or old != key:
            tables[name].pop(old, None)
            if name == PRICES:
                tell(old, (number, 0), message["ts"], None)
        if kind != "delete":
            tables[name][key] = row
            if name == PRICES:
                tell(key, (number, 1), message["ts"], row)
    return {
        key: [
            (start, end, (last["product_name"], last["price"]))
            for start, end, last in versions(
                event, ["place"], "time", ["product_name", "price"], "kind"
            )
        ]
        for key, event in events.items()
    }


def customer_versions(
    orders: list[dict[str, Any]], needed: int, days: int
) -> dict[Any, list[Version]]:
    """user_id -> versions of (kind, whether of high value), from the orders that there are."""
    by_user = defaultdict(list)
    for order in orders:
        if order["user_id"] is not None:
            by_user[order["user_id"]].append(order)
    window, found = timedelta(days=days), {}
    for user, own in by_user.items():
        paid = [row["decision_time"] for row in own if row["decision_time"] is not None]
        starts = {row["create_time"] for row in own if row["create_time"] is not None}
        reported: list[list[Any]] = []
        for time in sorted(starts | set(paid) | {number + window for number in paid}):
            recent = sum(number <= time < number + window for number in paid)
            kind = "old" if any(number <= time for number in paid) else "new"
            state = (kind, recent >= needed)
            if reported and reported[-1][2] == state:
                continue
            if reported:
                reported[-1][1] = time
            reported.append([time, None, state])
        if reported:
            found[user] = [tuple(row) for row in reported]
    return found


def customers_of_orders(changes: Iterable[oracle.Change]) -> dict[Any, list[Version]]:
    """The same from changes of orders, as far as they tell which orders a user has."""
    orders: dict[tuple, dict[str, Any]] = {}
    for row in oracle.retract_rows(changes):
        image = row["image"]
        key = (image["user_id"], image["order_id"])
        orders.pop(key, None)
        if row["sign"] > 0:
            times = ("create_time", "decision_time")
            orders[key] = {time: _time(image[time]) for time in times} | {"user_id": key[0]}
    return customer_versions(list(orders.values()), *HIGH_VALUE)


def stored_customers(warehouse: Warehouse) -> dict[Any, list[Version]]:
    """What dim_user_customer_zip has, in the same form."""
    found: dict[Any, list[Version]] = {}
    rows = warehouse.query("select * from dw.dim_user_customer_zip")
    for row in sorted(rows, key=lambda row: row["valid_from"]):
        assert row["is_current"] == (row["valid_to"] is None)
        state = (row["customer_kind"], row["is_high_value"])
        version = (_utc(row["valid_from"]), _utc(row["valid_to"]), state)
        found.setdefault(row["user_id"], []).append(version)
    return found


def _time(text: Any) -> datetime | None:
    """A time of the log, as a text in the business zone."""
    time = oracle.parse_datetime(text)
    return None if time is None else time.replace(tzinfo=timezone(timedelta(hours=8)))


def _utc(time: datetime | None) -> datetime | None:
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)


def at(known: list[Version], time: datetime | None) -> Any:
    """What a version states that was valid at a time; None where there was none."""
    for start, end, what in known:
        if time is not None and start <= time and (end is None or time < end):
            return what
    return None


def order_details(
    lines: Iterable[bytes], needed: int, days: int
) -> tuple[dict[Any, tuple], dict[Any, list[Version]]]:
    """order_id -> (product name, price, customer kind, high value, city, country) of each order of
    the server; and the versions of its customers."""
    prices = price_versions(lines)
    orders = [
        {name: None if value == "0000-00-00" else value for name, value in row.items()}
        for row in server_rows("order_info")
    ]
    customers = customer_versions(orders, needed, days)
    addresses = {row["order_id"]: row["start_city_name"] for row in server_rows("order_address")}
    with (REPO / "seeds" / "city.csv").open(encoding="utf-8", newline="") as file:
        cities = {
            row["city_name"]: (row["city_code"], row["country_code"])
            for row in csv.DictReader(file)
        }
    details = {}
    for order in orders:
        time, key = order["create_time"], order["order_id"]
        price = at(prices.get(order["ref_id"], []), time) or (None, None)
        customer = at(customers.get(order["user_id"], []), time) or (None, None)
        city = cities.get(addresses.get(key), (None, None))
        details[key] = (*price, *customer, *city)
    return details, customers
