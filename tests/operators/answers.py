"""What the small log comes to, in plain Python, and what the warehouse holds of it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.support import oracle, zipper_oracle
from tests.support.dbt_project import DbtProject

Rows = Counter  # row as a tuple -> how often it stands there
ZIPPED = {"sequence": ["place"], "time": "time", "tracked": ["price"], "kind": "kind"}


def expected(
    layers: Sequence[Iterable[bytes]],
    held: Iterable[tuple[str, int, int]],
    refused: int,
    statuses: str,
) -> dict[str, Rows]:
    """Query of QUERIES -> the rows that it gives.

    Args:
        layers: the lines that landed, of the running log and of each batch that counts, in the
            order that counts.
        held: batch, partition and offset of each message.
        refused: how many lines are no messages.
        statuses: text of the seed's file.
    """
    changes = oracle.corrected(
        *(oracle.read_messages(layer, skip_malformed=True) for layer in layers)
    )
    labels = {row["status"]: row["label"] for row in csv.DictReader(io.StringIO(statuses))}
    orders = oracle.replay(changes)
    joined = [
        (key, order["user_id"], _money(order["amount"]), labels.get(order["biz_status"]))
        for (key,), order in orders.items()
    ]
    users: Counter = Counter()
    for (_, user, _), (count, _) in oracle.daily_counts(changes).items():
        users[user] += count
    by_label: dict[Any, list[Decimal]] = {}
    for _, _, amount, label in joined:
        by_label.setdefault(label, []).append(amount)
    years: Counter = Counter()
    for row in oracle.retract_rows(changes):
        image = row["image"]
        amount = _money(image["amount"])
        years[(*row["key"], image["user_id"], amount, image["biz_status"])] += row["sign"]
    daily, total = oracle.daily_counts(changes), oracle.counts_to_date(changes)
    return {
        "held": Counter(held),
        "refused": Counter([(refused,)]),
        "changes": Counter(
            (change.file_number, change.pos, change.row_number) for change in changes
        ),
        "order_count": Counter((*group, *sums) for group, sums in daily.items()),
        "order_count_td": Counter((*group, *sums) for group, sums in total.items()),
        "user_count": Counter((user, count) for user, count in users.items() if count),
        "order_newest": Counter(
            (key, order["user_id"], _money(order["amount"]), order["biz_status"])
            for (key,), order in orders.items()
        ),
        "order_status": Counter(joined),
        "order_flow": Counter((key, amount, label) for key, _, amount, label in joined),
        "order_year": Counter((*row, times) for row, times in years.items() if times),
        "label_count": Counter(
            (label, len(amounts), sum(amounts)) for label, amounts in by_label.items()
        ),
        "price_zip": _price_versions(layers),
        "price_belief": _price_versions(layers),
        "statuses": Counter(labels.items()),
        "status_versions": Counter(labels.items()),
    }


# a message that was refused and then read again, as its topic has another format, stands in the log
# with both: what was refused is settled then, as in meta_quarantine
_MESSAGES = (
    "(select *, count_if(reject_reason is null) over (partition by batch_id, topic, "
    "partition_number, message_offset) as good from {schema}.ods_binlog where cut_reason is null)"
)
QUERIES = {
    "held": (
        f"select batch_id, partition_number, message_offset from {_MESSAGES} "
        "where reject_reason is null or good = 0"
    ),
    "refused": f"select count(*) from {_MESSAGES} where reject_reason is not null and good = 0",
    "changes": (
        "select binlog_file_number, binlog_position, row_number "
        "from {schema}.ods_shop__order_info where reject_reason is null"
    ),
    "order_count": (
        "select cut_date, user_id, biz_status, order_count_change, amount_sum_change "
        "from {schema}.order_count"
    ),
    "order_count_td": (
        "select user_id, biz_status, order_count, amount_sum from {schema}.order_count_td"
    ),
    "user_count": "select user_id, order_count from {schema}.user_count where order_count <> 0",
    "order_newest": "select order_id, user_id, amount, biz_status from {schema}.order_newest",
    "order_status": "select order_id, user_id, amount, label from {schema}.order_status",
    "order_flow": (
        "select order_id, amount, label, sum(sign) as times from {schema}.order_flow "
        "group by order_id, amount, label having sum(sign) <> 0"
    ),
    "order_year": (
        "select order_id, user_id, amount, biz_status, sum(sign) from {schema}.order_year "
        "group by order_id, user_id, amount, biz_status having sum(sign) <> 0"
    ),
    "label_count": "select label, order_count, amount_sum from {schema}.label_count",
    "price_zip": "select product_id, price, valid_from, valid_to from {schema}.price_zip",
    "price_belief": (
        "select product_id, price, valid_from, valid_to from {schema}.price_belief "
        "where known_to is null"
    ),
    "statuses": "select status, label from {schema}.statuses",
    "status_versions": (
        "select status, label from {schema}.status_versions where dbt_valid_to is null"
    ),
}


def found(project: DbtProject, name: str, schema: str) -> Rows:
    """The rows of a query of QUERIES."""
    rows = project.query(QUERIES[name].format(schema=schema))
    if name == "order_flow":
        return Counter({_values(row, "times"): row["times"] for row in rows})
    return Counter(_values(row) for row in rows)


def _values(row: dict[str, Any], without: str = "") -> tuple:
    return tuple(_value(value) for name, value in row.items() if name != without)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value  # a whole decimal is equal to its int, and has its hash


def _money(value: Any) -> Decimal:
    return Decimal(value)


def _price_versions(layers: Sequence[Iterable[bytes]]) -> Rows:
    """(product_id, price, valid from, valid to) of each version of a price."""
    named = {"table": "product_price", "key_columns": ("product_id",), "skip_malformed": True}
    events: dict[int, list[dict[str, Any]]] = {}
    for item in oracle.corrected(*(oracle.read_messages(layer, **named) for layer in layers)):
        row = item.after or item.before
        events.setdefault(item.key[0], []).append(
            {
                "place": item.order,
                "time": datetime.fromtimestamp(item.ts, UTC),
                "kind": "-D" if item.after is None else "+U",
                "price": Decimal(row["price"]),
            }
        )
    return Counter(
        (key, event["price"], start, end)
        for key, item in events.items()
        for start, end, event in zipper_oracle.versions(item, **ZIPPED)
    )


def difference(wanted: Rows, got: Rows) -> str:
    """What one lacks of the other, in a line; '' where they are the same."""
    missing, surplus = wanted - got, got - wanted
    if not missing and not surplus:
        return ""
    few = [str(list(item.elements())[:3]) for item in (missing, surplus)]
    return (
        f"{missing.total()} of {wanted.total()} rows are missing, e.g. {few[0]}; "
        f"{surplus.total()} are too many, e.g. {few[1]}"
    )
