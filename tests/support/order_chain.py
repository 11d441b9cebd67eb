"""Open breaks of the orders' chain, as the oracle writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.support import oracle
from tests.support.warehouse import Warehouse

BREAKS = "dw.meta_order_chain_break"


PLACE = ("binlog_file_number", "binlog_position", "row_number")


def breaks_of(warehouse: Warehouse) -> dict[tuple, tuple]:
    """The model's rows, as the oracle writes a break; each once."""
    rows = warehouse.query(f"select * from {BREAKS}")
    found = [
        oracle.Break(
            key=(int(row["order_id"]),),
            kind=row["kind"],
            columns=tuple(row["differing_columns"] or ()),
            previous=mark(row, "previous_") if row["previous_op_type"] else None,
            change=mark(row, ""),
        )
        for row in rows
    ]
    assert max(Counter(found).values(), default=1) == 1
    return by_place(found)


def mark(row: dict, prefix: str) -> tuple:
    order = tuple(row[prefix + name] for name in PLACE)
    return row[f"{prefix}op_type"], order, row[f"{prefix}cut_date"]


def by_place(breaks: Sequence[oracle.Break] | set[oracle.Break]) -> dict[tuple, oracle.Break]:
    return {(item.key, item.change[1]): item for item in breaks}
