"""The versions of the wide orders, from the typed logs of the orders and their addresses."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.support.warehouse import Warehouse
from tests.support.zipper_oracle import Event, Group, Partial, wide_versions

PLACE = ("binlog_file_number", "binlog_position", "row_number")
OF_TABLE = {
    "order": ("ods_shop__order_info", ("user_id", "amount", "order_status", "biz_status")),
    "address": ("ods_shop__order_address", ("start_city_name", "end_city_name")),
}
COLUMNS = [column for _, columns in OF_TABLE.values() for column in columns]
SEQUENCES = {name: [f"{name}_{part}" for part in PLACE] for name in OF_TABLE}


def compare(warehouse: Warehouse) -> int:
    """Assert that dim_order_history_zip has the versions of one sorted pass; how many there are."""
    by_order: dict[Any, list[Event]] = defaultdict(list)
    nothing = dict.fromkeys([*COLUMNS, *(part for parts in SEQUENCES.values() for part in parts)])
    for name, (table, columns) in OF_TABLE.items():
        rows = warehouse.query(
            f"select order_id, {', '.join((*columns, *PLACE))}, op_type, event_time, "
            "before.order_id as old_order_id "
            f"from dw.{table} where reject_reason is null"
        )
        for row in rows:
            place = dict(zip(SEQUENCES[name], (row[part] for part in PLACE), strict=True))
            change = nothing | place | {"event_time": row["event_time"]}
            values = {column: row[column] for column in columns}
            if row["op_type"] == "delete":
                by_order[row["order_id"]].append(change | {"kind": "-D"})
                continue
            by_order[row["order_id"]].append(change | values | {"kind": "+U"})
            if row["op_type"] == "update" and row["old_order_id"] != row["order_id"]:
                by_order[row["old_order_id"]].append(change | {"kind": "-D"})
    groups = [
        Group(SEQUENCES[name], columns, removes_row=name == "order")
        for name, (_, columns) in OF_TABLE.items()
    ]
    wanted = {
        (order, start): (end, *(row[column] for column in [*COLUMNS, *SEQUENCES["order"]]))
        for order, events in by_order.items()
        for start, end, row in wide_versions(
            events,
            groups,
            ("event_time", "kind"),
            COLUMNS,
            Partial(),
            lambda row: row["order_binlog_file_number"] is not None,
        )
    }
    columns = ", ".join([*COLUMNS, *SEQUENCES["order"]])
    rows = warehouse.query(
        f"select order_id, valid_from, valid_to, {columns} from dw.dim_order_history_zip"
    )
    got = {(row.pop("order_id"), row.pop("valid_from")): tuple(row.values()) for row in rows}
    assert len(got) == len(rows)
    differing = [
        (key, got.get(key), wanted.get(key))
        for key in got.keys() | wanted.keys()
        if got.get(key) != wanted.get(key)
    ]
    assert not differing, f"{len(differing)} differ, e.g. {differing[0]}"
    return len(got)
