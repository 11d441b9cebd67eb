"""The counts against what a real MySQL counts itself, at one place in its binlog."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from python_udfs.source.count import CountedTable, last_change
from tests.support.dbt_project import event_log
from tests.support.mysql_server import (
    PASSWORD,
    MysqlClient,
    MysqlServer,
    mysql_client,
    mysql_folder,
)
from tests.support.warehouse import Warehouse

COLUMNS = (
    "order_id bigint unsigned primary key, user_id bigint unsigned null, "
    "biz_status varchar(30) character set utf8mb4 collate utf8mb4_general_ci null, "
    "amount decimal(12,2) not null, update_time datetime(3) null"
)
AT_SOURCE = "dqc_trade__user_status_at_source"
CHECK = "dqc_trade__user_status_source_reconciliation"


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    server, client = mysql_folder(), mysql_client()
    if not (server and client):
        pytest.skip("CDC_LAB names no folder with mysql-connector/lib and mysql56/package/server")
    started = MysqlServer(tmp_path_factory.mktemp("mysql"), server, client)
    yield started
    started.stop()


class Shop:
    """The orders of a server, and the log that a producer would write of them.

    Each statement is a transaction of one row; its message has the place of its rows event.
    """

    def __init__(self, client: MysqlClient) -> None:
        self.client = client
        self.rows: dict[int, dict[str, Any]] = {}
        client.execute("drop database if exists shop")
        client.execute("create database shop")
        client.execute(f"create table shop.order_info ({COLUMNS})")

    def place(self) -> tuple[str, int]:
        file, position = self.client.query("show master status")[0][:2]
        return str(file), int(position or 0)

    def insert(self, order: int, user: int | None, status: str | None, amount: str) -> bytes:
        row = {
            "order_id": order,
            "user_id": user,
            "biz_status": status,
            "amount": Decimal(amount),
            "update_time": "2026-03-01 10:00:00.000",
        }
        values = ", ".join("null" if item is None else f"'{item}'" for item in row.values())
        reported = self._change(f"insert into shop.order_info values ({values})")
        self.rows[order] = row
        return self._message("insert", reported, row)

    def move(self, order: int, status: str) -> bytes:
        before = self.rows[order]
        reported = self._change(
            f"update shop.order_info set biz_status = '{status}' where order_id = {order}"
        )
        self.rows[order] = before | {"biz_status": status}
        return self._message(
            "update", reported, self.rows[order], old={"biz_status": before["biz_status"]}
        )

    def delete(self, order: int) -> bytes:
        reported = self._change(f"delete from shop.order_info where order_id = {order}")
        return self._message("delete", reported, self.rows.pop(order))

    def _change(self, sql: str) -> str:
        file, position = self.place()
        self.client.execute(sql)
        events = self.client.query(f"show binlog events in '{file}' from {position}")
        [at] = [row[1] for row in events if "_rows" in str(row[2])]
        return f"{file}:{at}"

    def _message(self, kind: str, place: str, row: dict[str, Any], **more: Any) -> bytes:
        head = {"database": "shop", "table": "order_info", "type": kind, "ts": int(time.time())}
        message = head | {"xid": 1, "commit": True, "position": place, "data": row} | more
        # an amount is a bare number, all its digits
        return (
            json.dumps(message, default=lambda item: f"<{item}>")
            .replace('"<', "")
            .replace('>"', "")
            .encode()
        )


def ask_source(warehouse: Warehouse, mysql: MysqlServer, *args: str, **env: str) -> None:
    events = warehouse.target / "events"
    events.mkdir(parents=True, exist_ok=True)
    own = {"SPARK_DRIVER_MEMORY": "1g", "SPARK_SUBMIT_OPTS": event_log(events)}
    words = ("run", "--select", AT_SOURCE, *args)
    done = warehouse.subprocess(*words, env=mysql.load_settings | own | env)
    written = [path for path in warehouse.target.rglob("*") if path.is_file()]
    logs = [*warehouse.logs.rglob("*.log")]
    assert [*events.iterdir()] != []
    assert not any(PASSWORD.encode() in path.read_bytes() for path in [*written, *logs])
    assert PASSWORD not in done.stdout + done.stderr
    assert done.returncode == 0, done.stdout[-3000:]


def verdict(warehouse: Warehouse, expect_ok: bool = True, **options: Any) -> dict[str, Any]:
    words = ("--selector", "source_reconciliation", "--exclude-resource-type", "unit_test")
    warehouse.run("build", *words, expect_ok=expect_ok, **options)
    return warehouse.query("select * from dw.meta_quality order by checked_at desc limit 1")[0]


def differing(warehouse: Warehouse) -> dict[tuple, tuple[int, int]]:
    """(user, status) -> orders that the warehouse has, and the source."""
    return {
        (row["user_id"], row["biz_status"]): (row["order_count_got"], row["order_count_expected"])
        for row in warehouse.query(f"select * from dw.{CHECK} where not is_total")
    }


def test_a_source_that_goes_on_agrees_and_planted_faults_are_listed(
    mysql: MysqlServer, tmp_path: Path
) -> None:
    shop, warehouse = Shop(mysql.connect()), Warehouse(tmp_path)
    log = [
        shop.insert(1, None, None, "10.10"),
        shop.insert(2, 2**64 - 1, "closed", "9999999999.99"),
        shop.insert(3, 2**64 - 1, "Closed ", "0.01"),  # one group by the column's collation
        shop.insert(4, 7, "", "1.00"),
        shop.insert(5, 7, "new", "2.00"),
        shop.insert(6, 8, "new", "3.00"),
    ]
    late = [shop.move(5, "paid"), shop.delete(4), shop.insert(9, 9, "\u5df2\u5b8c\u6210", "4.00")]
    warehouse.land_lines(log, 0)
    warehouse.build()
    ask_source(warehouse, mysql, MYSQL_LOCK="true")

    assert verdict(warehouse)["verdict"] == "not reached"
    assert differing(warehouse) == {}

    # the log comes, up to the last change that the answer has; nothing else need follow it
    warehouse.land_lines(late, len(log))
    warehouse.build()
    quiet = verdict(warehouse)
    assert (quiet["verdict"], quiet["groups_compared"]) == ("passed", 6)

    # and on beyond it: the answer stays of its place
    log += late
    after = [shop.move(1, "paid"), shop.delete(6), shop.insert(10, 7, "new", "5.00")]
    warehouse.land_lines(after, len(log))
    warehouse.build()
    busy = verdict(warehouse)
    assert (busy["verdict"], busy["groups_differing"]) == ("passed", 0)

    # a change that no log holds, and a change whose message got lost
    log += after
    shop.client.execute("set sql_log_bin = 0")
    shop.client.execute("update shop.order_info set user_id = 70 where order_id = 10")
    shop.client.execute("set sql_log_bin = 1")
    shop.move(5, "lost")
    warehouse.land_lines([shop.insert(11, 1, "new", "1.00")], len(log))
    warehouse.build()
    ask_source(warehouse, mysql)
    bad = verdict(warehouse, expect_ok=False)

    assert differing(warehouse) == {
        (7, "new"): (1, 0),
        (70, "new"): (0, 1),
        (7, "paid"): (1, 0),
        (7, "lost"): (0, 1),
    }
    assert (bad["verdict"], bad["groups_differing"], bad["count_difference"]) == ("failed", 4, 4)


def test_a_source_whose_binlog_began_again_agrees_at_a_place_in_the_new_binlog(
    mysql: MysqlServer, tmp_path: Path
) -> None:
    shop, warehouse = Shop(mysql.connect()), Warehouse(tmp_path)
    log = [shop.insert(1, 7, "new", "1.00"), shop.insert(2, 8, "new", "2.00")]
    log += [shop.move(1, "paid"), shop.move(1, "sent")]
    shop.client.execute("reset master")
    first = len(log)
    log += [shop.move(2, "paid"), shop.insert(3, 7, "new", "3.00")]
    late = shop.move(3, "paid")
    declared = {"shop_log_resets": [{"offsets": {"maxwell": {"0": first}}}]}
    warehouse.land_lines(log, 0)
    warehouse.build(vars=declared)
    ask_source(warehouse, mysql, "--vars", json.dumps(declared), MYSQL_LOCK="true")

    assert verdict(warehouse, vars=declared)["verdict"] == "not reached"

    behind = shop.delete(2)
    warehouse.land_lines([late, behind], len(log))
    warehouse.build(vars=declared)
    reached = verdict(warehouse, vars=declared)
    assert (reached["verdict"], reached["groups_differing"]) == ("passed", 0)


class Events:
    """A server that answers with these events: file -> [(position, kind, end, info)]."""

    def __init__(self, files: dict[str, list[tuple[int, str, int, str]]]) -> None:
        self.files = files

    def query(self, sql: str) -> list[tuple]:
        if sql == "show binary logs":
            return [(name, 1) for name in self.files]
        _, name, rest = sql.split("'")
        start = int(rest.split()[1])
        return [
            (name, str(at), kind, "1", str(end), info)
            for at, kind, end, info in self.files[name]
            if at >= start
        ]


ORDERS = CountedTable("shop", "order_info", [], {}, {})
OURS, OTHER = "table_id: 1 (shop.order_info)", "table_id: 2 (shop.coupon)"
FILES = {
    "bin.9": [(4, "Format_desc", 120, ""), (120, "Table_map", 150, OURS),
              (150, "Write_rows", 200, ""), (200, "Xid", 231, ""), (231, "Rotate", 260, "")],
    "bin.10": [(4, "Format_desc", 120, ""), (120, "Table_map", 150, OTHER),
               (150, "Write_rows", 200, ""), (200, "Xid", 231, ""), (231, "Table_map", 260, OURS),
               (260, "Update_rows", 300, ""), (300, "Xid", 331, ""),
               (331, "Query", 400, "truncate table order_info")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("known", "position", "expected"),
    [
        (("bin.9", 150), "bin.9:231", "bin.9:150"),  # nothing came behind it
        (("bin.9", 150), "bin.10:231", "bin.9:150"),  # another table's only
        (("bin.9", 150), "bin.10:331", "bin.10:260"),
        (("bin.9", 150), "bin.10:400", "bin.10:331"),  # a statement
        (("bin.10", 260), "bin.10:331", "bin.10:260"),
        (("bin.10", 331), "bin.10:331", "bin.10:331"),  # the log is further than the answer
        (None, "bin.10:331", "bin.10:331"),
        (("bin.8", 4), "bin.10:331", "bin.10:331"),  # that file is gone
    ],
)
def test_the_last_change_before_a_place_is_found_among_the_events(
    known: tuple[str, int] | None, position: str, expected: str
) -> None:
    assert last_change(Events(FILES), ORDERS, known, position) == expected
