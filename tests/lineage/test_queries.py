"""Columns of one query, and the columns of tables that they come from."""

from __future__ import annotations

import pytest

from tools.lineage.queries import Leaf, Origin, QueryError, columns_of

SCHEMA = {
    ("dw", "orders"): ["order_id", "user_id", "amount", "op_type", "before"],
    ("dw", "users"): ["user_id", "name"],
}
ORDERS, USERS = ("dw", "orders"), ("dw", "users")


def origin(*leaves: tuple[str, ...], reasons: tuple[str, ...] = ()) -> Origin:
    """An origin of leaves, each as `table.column` or `table.column.field` in parts."""
    tables = {"orders": ORDERS, "users": USERS}
    return Origin(
        frozenset(Leaf(tables[table], *names) for table, *names in leaves), frozenset(reasons)
    )


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select amount as total from dw.orders", {"total": origin(("orders", "amount"))}),
        (
            "select * from dw.users where name is not null",
            {"user_id": origin(("users", "user_id")), "name": origin(("users", "name"))},
        ),
        (
            "with joined as (select orders.amount, users.name from dw.orders as orders "
            "left join dw.users as users on orders.user_id = users.user_id) "
            "select concat(name, cast(amount as string)) as label from joined",
            {"label": origin(("orders", "amount"), ("users", "name"))},
        ),
        (
            "select user_id as id from dw.orders union all select user_id from dw.users",
            {"id": origin(("orders", "user_id"), ("users", "user_id"))},
        ),
        (
            "with kept as (select before from dw.orders) select before.amount as old from kept",
            {"old": origin(("orders", "before", "amount"))},
        ),
        (
            "select placed.order_id as id, known.label from ("
            "select placed, case when user_id > 1 then if(user_id > 2, known, null) end as known "
            "from (select user_id, struct(order_id, amount) as placed, "
            "last_value(struct(concat(op_type, '!') as label, before), true) "
            "over (partition by user_id order by amount) as known from dw.orders) as rows_in_order "
            "union all select null as placed, null as known) as found",
            {"id": origin(("orders", "order_id")), "label": origin(("orders", "op_type"))},
        ),
        (
            "select latest.amount from (select max_by(struct(amount, before), order_id) as latest "
            "from dw.orders) as found",
            {"amount": origin(("orders", "amount"), ("orders", "before"), ("orders", "order_id"))},
        ),
        (
            "select sign from dw.orders lateral view explode("
            "case op_type when 'insert' then array(1) else array(-1, 1) end) signs as sign",
            {"sign": origin(("orders", "op_type"))},
        ),
        (
            "select transform(array(amount), each -> each + order_id) as sums from dw.orders",
            {"sums": origin(("orders", "amount"), ("orders", "order_id"))},
        ),
        (
            "select (select max(name) from dw.users) as last_name, amount from dw.orders",
            {"last_name": origin(("users", "name")), "amount": origin(("orders", "amount"))},
        ),
        (
            "select count(*) as n, 'x' as kind, current_timestamp() as at, sum(1) as units, "
            "row_number() over (order by amount) as place from dw.orders",
            {
                "n": origin(reasons=("count",)),
                "kind": origin(reasons=("constant",)),
                "at": origin(reasons=("run",)),
                "units": origin(reasons=("count",)),
                "place": origin(("orders", "amount")),
            },
        ),
        (
            "select summary['dbt.run'] as run_id from dw.orders.snapshots",
            {"run_id": Origin(frozenset({Leaf(("dw", "orders", "snapshots"), "summary")}))},
        ),
    ],
)
def test_columns_come_from(sql: str, expected: dict[str, Origin]) -> None:
    assert columns_of(sql, SCHEMA) == expected


def test_a_column_that_no_table_has_is_unknown() -> None:
    sql = "select nothing from dw.orders as o join dw.users as u on o.user_id = u.user_id"
    assert columns_of(sql, SCHEMA) == {"nothing": origin(reasons=("unknown",))}


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(QueryError):
        columns_of("select from where", SCHEMA)
