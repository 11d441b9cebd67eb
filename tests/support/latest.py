"""The latest rows of the sample's tables, compared with the server's own in every cell."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import yaml

from tests.support.dbt_project import REPO
from tests.support.warehouse import TRUTH, Warehouse

VIEWS = {
    "order_info": "dwd_trade__order_latest",
    "order_address": "dwd_trade__order_address_latest",
    "coupon": "dwd_trade__coupon_latest",
    "product_price": "dwd_product__product_price_latest",
    "user_account": "dwd_user__user_account_latest",
    "audit_nopk": "dwd_audit__audit_entry_latest",
}
ZONE = timedelta(hours=8)  # the business zone, which DATETIME columns are in
# (table, column) -> what the server has where the log has nothing: the rows got the column by
# ALTER TABLE .. ADD COLUMN .. DEFAULT, which writes no row into the log
NOT_IN_THE_LOG = {("order_info", "priority"): 5, ("user_account", "note"): "n/a"}
# (producer, table, column) -> the cells that the producer writes wrong
WRITTEN_WRONG = {
    ("maxwell", "user_account", "wake_at"): lambda text: (
        text is not None and (text.startswith("-") or int(text.split(":")[0]) >= 24)
    ),
}
TRUNCATED = datetime(2026, 3, 5, 22, 38, 12, tzinfo=UTC)  # the coupons; Maxwell doesn't tell


def compare(warehouse: Warehouse, producer: str, table: str) -> None:
    """Assert that the view of the table's latest rows is the server's table.

    Cells that the log can't tell are counted and printed, and must be as listed above.
    """
    columns = _declared(table)
    wanted = server_rows(table)
    got = [_ours(row, columns) for row in warehouse.query(f"select * from dw.{VIEWS[table]}")]
    excused: Counter = Counter()
    key = _key(table)
    if not key:
        assert Counter(map(_frozen, got)) == Counter(map(_frozen, wanted))
        print(f"{producer} {table}: {len(wanted)} rows are the server's")
        return
    found = {tuple(row[0][name] for name in key): row for row in got}
    assert len(found) == len(got), "a key stands there twice"
    for row in wanted:
        ours, _ = found.pop(tuple(row[name] for name in key), (None, None))
        assert ours is not None, f"{table}: {row} is missing"
        for name in columns:
            if ours[name] == row[name]:
                continue
            lacking = ours[name] is None and NOT_IN_THE_LOG.get((table, name)) == row[name]
            wrong = WRITTEN_WRONG.get((producer, table, name), lambda _: False)(row[name])
            assert lacking or wrong, f"{table}.{name}: {ours[name]!r}, MySQL has {row[name]!r}"
            excused[name] += 1
    if (producer, table) == ("maxwell", "coupon"):
        assert found and all(time <= TRUNCATED for _, time in found.values())
        excused["rows that a TRUNCATE took away"] = len(found)
        found = {}
    assert not found, f"{table}: rows that the server doesn't have"
    expected = {name for item, name in NOT_IN_THE_LOG if item == table} | {
        name for by, item, name in WRITTEN_WRONG if (by, item) == (producer, table)
    }
    assert set(excused) - {"rows that a TRUNCATE took away"} == expected
    cells = len(wanted) * len(columns)
    print(f"{producer} {table}: {cells} cells compared, not in the log: {dict(excused) or 'none'}")


def compare_wide(
    warehouse: Warehouse,
    orders: Iterable[dict[str, Any]] | None = None,
    addresses: Iterable[dict[str, Any]] | None = None,
) -> int:
    """Assert that the wide orders are these orders, each joined to its address; how many.

    Args:
        orders: rows as the log or the server has them; without them the server's own.
        addresses: the same.
    """
    columns, of_address = _declared("order_info"), _declared("order_address")
    columns = {name: kind for name, kind in columns.items() if name not in ("comment", "priority")}
    cities = {name: kind for name, kind in of_address.items() if name.endswith("city_name")}
    orders = _truth("order_info") if orders is None else orders
    addresses = _truth("order_address") if addresses is None else addresses
    address_of = {row["order_id"]: _row(row, cities) for row in addresses}
    nowhere = dict.fromkeys(cities)
    wanted = {
        str(row["order_id"]): _row(row, columns) | address_of.get(row["order_id"], nowhere)
        for row in orders
    }
    rows = warehouse.query(
        "select *, map_from_entries(order_raw_values) as raw_values from dw.dwd_trade__order_wide"
    )
    got = {str(row["order_id"]): _ours(row, columns | cities)[0] for row in rows}
    assert len(got) == len(rows), "an order stands there twice"
    assert got.keys() == wanted.keys()
    differing = {key: (got[key], row) for key, row in wanted.items() if got[key] != row}
    assert not differing, f"{len(differing)} differ, e.g. {next(iter(differing.values()))}"
    return len(got)


def compare_zipper(warehouse: Warehouse, table: str, tag: str = "final") -> int:
    """Assert that the current versions of a table's zipper are the server's rows; how many."""
    (key,) = _key(table)
    rows = warehouse.query(f"select * from dw.dim_{table}_zip where is_current")
    columns = {name: kind for name, kind in _declared(table).items() if name in rows[0]}
    wanted = {row[key]: _row(row, columns) for row in _truth(table, tag)}
    got = {str(row[key]): _ours(row | {"raw_values": {}}, columns)[0] for row in rows}
    assert len(got) == len(rows)
    assert got == wanted, f"current versions of {table} at the end of {tag}"
    return len(got)


def server_rows(table: str) -> list[dict[str, Any]]:
    """The rows that the server had at the end, as values; see _row."""
    columns = _declared(table)
    return [_row(item, columns) for item in _truth(table)]


def declaration(table: str) -> dict[str, Any]:
    """`meta.source` of the table's model, its variables unresolved."""
    text = (REPO / "models" / "ods" / "shop" / "_shop__models.yml").read_text(encoding="utf-8")
    models = {model["name"]: model for model in yaml.safe_load(text)["models"]}
    return models[f"ods_shop__{table}"]["config"]["meta"]["source"]


def _declared(table: str) -> dict[str, str]:
    names = _truth(table)[0]
    # a column that was dropped again isn't in the server's table
    return {name: kind for name, kind in declaration(table)["columns"].items() if name in names}


def _key(table: str) -> list[str]:
    return declaration(table)["primary_key"]


def _truth(table: str, tag: str = "final") -> list[dict[str, Any]]:
    with gzip.open(TRUTH / f"{tag}.{table}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _row(row: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """The server's texts as values; a date that none is stays text."""
    return {name: _value(row[name], kind) for name, kind in columns.items()}


def _value(text: Any, kind: str) -> Any:
    if text is None or kind.startswith(("varchar", "text", "longtext", "enum")) or kind == "time":
        return text
    if kind.startswith(("datetime", "timestamp", "date")):
        if text.startswith("0000-00-00"):
            return "0000-00-00"
        if kind == "date":
            return date.fromisoformat(text)
        wall = datetime.fromisoformat(text).replace(tzinfo=UTC)
        return wall - ZONE if kind.startswith("datetime") else wall
    if kind == "float":
        return f"{float(text):.6g}"  # as many digits as MySQL shows of a float
    return float(text) if kind == "double" else Decimal(text)


def _ours(row: dict[str, Any], columns: dict[str, str]) -> tuple[dict[str, Any], datetime | None]:
    values = {}
    for name, kind in columns.items():
        value = row[name]
        if kind == "float" and value is not None:
            value = f"{value:.6g}"
        if value is None and name in (row["raw_values"] or {}):
            value = row["raw_values"][name][:10]
        if isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        if isinstance(value, datetime) and value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        values[name] = value
    return values, row.get("event_time")


def _frozen(row: Any) -> tuple:
    values = row[0] if isinstance(row, tuple) else row
    return tuple(values.values())


def order_columns() -> dict[str, str]:
    """Column -> MySQL type, as the project declares the orders' table."""
    return declaration("order_info")["columns"]
