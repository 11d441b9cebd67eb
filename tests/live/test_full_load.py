"""`make full-load` of a real MySQL: its rows land, and decode to what the server holds."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session
from pyspark.sql import functions as F

from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.formats.maxwell import images
from tests.live.workload import TABLE, create_table, statements
from tests.support.dbt_project import REPO
from tests.support.latest import order_columns
from tests.support.mysql_server import (
    PASSWORD,
    MysqlClient,
    MysqlServer,
    mysql_client,
    mysql_folder,
    rows_of,
)
from tests.support.sql_client import SqlError
from tests.support.warehouse import Warehouse, differing

ZONE = "+08:00"
KINDS = {
    "id": "bigint unsigned",
    "flag": "tinyint(1)",
    "filled": "int unsigned zerofill",
    "bits": "bit(64)",
    "wide": "decimal(38,30)",
    "money": "decimal(12,2)",
    "f": "float",
    "d": "double",
    "day": "date",
    "at": "datetime",
    "at3": "datetime(3)",
    "stamp6": "timestamp(6)",
    "clock": "time(3)",
    "y": "year",
    "fixed": "char(10)",
    "latin": "varchar(40) character set latin1",
    "words": "text",
    "raw": "binary(4)",
    "bytes": "blob",
    "kind": "enum('x','it''s')",
    'odd "name': "int",
}
ROWS = [
    "1, 1, 42, 18446744073709551615, -12345678.000000000000000000000000000001, -0.10, 1.1, 1.1, "
    "'2026-03-01', '2026-03-01 23:59:59', '2026-03-01 10:00:00.100', "
    "'2026-03-01 10:00:00.000001', '10:11:12.500', 2026, 'ab', _utf8mb4 x'c3a9', "
    "_utf8mb4 x'f09f98800a2209001f5ce280a8', x'01ff0002', x'00ff10', 'it''s', -7",
    "18446744073709551615, -128, 0, 0, 0.000000000000000000000000000001, 9999999999.99, "
    "16777217, -1e300, 0, 0, 0, 0, '00:00:00', 1901, '', '', '', '', '', 'x', 0",
    f"9223372036854775808, {', '.join(['null'] * 20)}",
]


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    server, client = mysql_folder(), mysql_client()
    if not (server and client):
        pytest.skip("CDC_LAB names no folder with mysql-connector/lib and mysql56/package/server")
    with ExitStack() as stack:
        started = MysqlServer(tmp_path_factory.mktemp("mysql"), server, client)
        stack.callback(started.stop)
        made = started.connect()
        for statement in create_table(order_columns()):
            made.execute(statement)
        yield started


def full_load(warehouse: Warehouse, mysql: MysqlServer, table: str, **env: str) -> str:
    """Run the command; what it printed. The password stands in nothing that it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "tools", "full-load", table],
        env=os.environ | warehouse.env | mysql.load_settings | {"SPARK_MASTER": "local[2]"} | env,
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    assert PASSWORD not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout


def topics(warehouse: Warehouse) -> list[Path]:
    return sorted((warehouse.landing / "topics").iterdir())


def ends(topic: Path) -> list[dict[str, Any]]:
    """The two messages of partition 0."""
    [file] = (topic / "partition=0").iterdir()
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def decoded(warehouse: Warehouse, table: str, kinds: dict[str, str]) -> dict[int, dict[str, Any]]:
    """Key -> row, of the snapshot messages of ods_binlog; each key once, nothing refused."""
    database, name = table.split(".")
    first = next(iter(kinds))
    meta = {"database": database, "table": name, "primary_key": [first], "columns": kinds}
    source = table_source("loaded", meta)
    session = own_session(warehouse.credentials()).session
    rows = session.table("dw.ods_binlog").where(
        (F.col("op") == "snapshot") & (F.col("table_name") == name)
    )
    values = [
        kind.value(F.col("data")[column], ZONE).alias(column)
        for column, kind in source.columns.items()
    ]
    found = images(rows, source).select(*values, "image_reason").toArrow().to_pylist()
    assert {row.pop("image_reason") for row in found} == {None}
    keyed = {int(row[first]): row for row in found}
    assert len(keyed) == len(found)
    return keyed


def held(client: MysqlClient, table: str, kinds: dict[str, str]) -> dict[int, dict[str, Any]]:
    """Key -> row, as the server holds it."""
    first = next(iter(kinds))
    return {int(row[first]): row for row in rows_of(client, table, kinds)}


def test_every_row_of_an_order_table_lands_once_with_its_values(
    mysql: MysqlServer, tmp_path: Path
) -> None:
    client = mysql.connect()
    seed = Random().randrange(10**6)
    print(f"seed {seed}")
    for writer in (0, 1):
        play = statements(seed, writer, order_columns())
        for _ in range(600):
            kind, sql = next(play)
            try:
                client.execute(sql)
            except SqlError as exc:
                assert exc.number in (1062, 1264, 1690), (kind, exc)
        client.execute("commit")
    warehouse = Warehouse(tmp_path)

    printed = full_load(warehouse, mysql, TABLE, MYSQL_RANGES="5")
    again = full_load(warehouse, mysql, TABLE)  # a topic of its own

    expected = held(client, TABLE, order_columns())
    assert len(expected) > 100
    assert f"{len(expected)} rows of {TABLE} landed in" in printed.replace(",", "")
    first, second = topics(warehouse)
    assert first.name in printed and second.name in again
    assert first.name.startswith(f"full_load.{TABLE}.")
    [position] = {":".join(map(str, client.query("show master status")[0][:2]))}
    start, complete = ends(first)
    assert (start["type"], start["binlog_before"]) == ("bootstrap-start", position)
    assert (complete["type"], complete["binlog_after"]) == ("bootstrap-complete", position)
    assert complete["rows"] == len(expected)
    assert 2 <= len(list(first.iterdir())) <= 6  # a range without a row has no file

    # the first load alone: the second one holds every key once more
    second.rename(second.with_name(f"_{second.name}"))
    warehouse.build()
    assert differing(expected, decoded(warehouse, TABLE, order_columns())) == []
    assert warehouse.refused() == 0
    counts = {
        row["op"]: row["n"]
        for row in warehouse.query("select op, count(*) as n from dw.ods_binlog group by op")
    }
    assert counts == {"control": 2, "snapshot": len(expected)}


def test_every_type_comes_out_exact(mysql: MysqlServer, tmp_path: Path) -> None:
    client = mysql.connect()
    client.execute("set sql_mode = ''")  # zero dates
    body = ", ".join(
        f"`{name.replace('`', '``')}` {kind}{'' if name == 'id' else ' null'}"
        for name, kind in KINDS.items()
    )
    client.execute(f"create table shop.kinds ({body}, primary key (id))")
    for row in ROWS:
        client.execute(f"insert into shop.kinds values ({row})")
    warehouse = Warehouse(tmp_path)
    full_load(warehouse, mysql, "shop.kinds")
    warehouse.build("--select", "ods_binlog")
    # the check's own word for a character set is none of a type's
    kinds = {name: kind.replace(" character set latin1", "") for name, kind in KINDS.items()}
    assert (
        differing(held(client, "shop.kinds", kinds), decoded(warehouse, "shop.kinds", kinds)) == []
    )


def test_a_load_with_a_lock_is_of_one_position(mysql: MysqlServer, tmp_path: Path) -> None:
    client = mysql.connect()
    client.execute("create table shop.grows (id int primary key, twice int)")
    client.execute("insert into shop.grows values (1, 2)")
    stop = threading.Event()
    written = [1]

    def write() -> None:
        writer = mysql.connect()
        while not stop.is_set():
            written[0] += 1
            writer.execute(f"insert into shop.grows values ({written[0]}, {2 * written[0]})")
            stop.wait(0.002)

    thread = threading.Thread(target=write)
    thread.start()
    warehouse = Warehouse(tmp_path)
    try:
        full_load(warehouse, mysql, "shop.grows", MYSQL_LOCK="true")
    finally:
        stop.set()
        thread.join()
    [topic] = topics(warehouse)
    start, complete = ends(topic)
    assert start["binlog_before"] == complete["binlog_after"]
    loaded = {}
    for file in topic.glob("partition=[1-9]*/*.gz"):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            row = json.loads(line)["data"]
            loaded[row["id"]] = row["twice"]
    count = complete["rows"]
    assert 1 < count < written[0]  # writers went on before and after it
    assert loaded == {number: 2 * number for number in range(1, count + 1)}
