"""MySQL -> Maxwell -> Kafka -> dbt while statements come in and processes are killed; at the end
the tables say what the server itself states.

The tables hold rows before Maxwell first starts, which the log never holds. They come by full
loads in the middle of it all: some tables by Maxwell's own bootstrap, among the log's messages,
the others by `make full-load`, as files beside Kafka. The table without key can't be loaded, and
is empty at first.

Maxwell is killed in a bootstrap too. It begins that one again by itself, so rows come twice. But
what it had called complete and not got to the broker yet would be lost: nobody can tell, so what
an operator does is done here, a bootstrap that a kill came near is asked for again. Maxwell runs
with bootstrapper=sync; what its default would lose is described in tests/support/maxwell.py.

    LIVE_SECONDS  how long statements come in at least, default 240; they go on until all is loaded
                  and a build has ended well
    LIVE_SEED     seed of the statements and of the order of the kills, default a random one
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.live.builds import BUILDS, STOP
from tests.live.loads import Bootstraps, FullLoads
from tests.live.side_tables import KEYS, REACHED, TABLES, SideTable
from tests.live.workload import BEYOND, TABLE, Writer, create_table, fill, statements
from tests.support.dbt_project import REPO
from tests.support.kafka_broker import KafkaBroker, kafka_lib
from tests.support.latest import VIEWS, declaration, order_columns
from tests.support.maxwell import Maxwell, maxwell_lib, place
from tests.support.mysql_server import MysqlServer, mysql_client, mysql_folder, rows_of
from tests.support.warehouse import Warehouse, differing

TOPIC, PARTITIONS = "maxwell", 3
LONGEST_PAUSE = 0.03  # s between two statements of a writer of orders
LONGEST_SIDE_PAUSE = 0.3  # and of another table
WAIT = 300  # s, for what has to come by itself
BOOTSTRAPPED = (TABLE, "shop.order_address", "shop.product_price")
FULLY_LOADED = ("shop.coupon", "shop.user_account")
ROW_OPS = "'insert', 'update', 'delete'"


class Builds:
    """dbt again and again in a process of its own; see tests/live/builds.py."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse, self._folder = warehouse, warehouse.landing.parent
        self.start()

    def start(self) -> None:
        self._ended_before = len(self.done())
        with (self._folder / "builds.log").open("a") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.live.builds", str(self._folder)],
                env=os.environ | self._warehouse.env,
                cwd=REPO,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End dbt and its Spark as kill -9 does."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self) -> None:
        """Let the build under way end, and no other begin."""
        (self._folder / STOP).touch()
        assert self._process.wait(WAIT) == 0, (self._folder / "builds.log").read_text()[-3000:]

    def one_ended(self) -> bool:
        """Whether a build has ended since the start."""
        return len(self.done()) > self._ended_before

    def one_was_good(self) -> bool:
        return any(row["ok"] for row in self.done())

    def done(self) -> list[dict[str, Any]]:
        path = self._folder / BUILDS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Live:
    """Everything that runs: the servers, what goes between them, the writers, dbt."""

    def __init__(self, folder: Path, seed: int, stack: ExitStack) -> None:
        lib, server, client, maxwell = kafka_lib(), mysql_folder(), mysql_client(), maxwell_lib()
        if not (lib and server and client and maxwell):
            pytest.skip(
                "CDC_LAB names no folder that holds kafka/lib, maxwell/lib, mysql-connector/lib "
                "and mysql56/package/server"
            )
        self.kills: Counter[str] = Counter()
        self.broker_down: list[tuple[float, float]] = []  # from, until
        self.loaded: float | None = None  # when all was loaded
        self.restarts = 0  # of a Maxwell that ended by itself
        self.columns = order_columns()
        self.sides = [SideTable(name, declaration(name)) for name in TABLES]
        for name in ("broker", "mysql", "maxwell", "dbt"):
            (folder / name).mkdir()
        self.broker = KafkaBroker(folder / "broker", lib)
        stack.callback(self.broker.stop)
        self.broker.create(TOPIC, PARTITIONS)
        self.mysql = MysqlServer(folder / "mysql", server, client)
        stack.callback(self.mysql.stop)
        self.client = self.mysql.connect()
        for statement in [
            *create_table(self.columns)[:2],
            *fill(seed, self.columns),
            *(side.create() for side in self.sides),
            *(side.fill(seed) for side in self.sides if side.key),
        ]:
            self.client.execute(statement)
        self.maxwell = Maxwell(
            folder / "maxwell",
            maxwell,
            self.mysql,
            self.broker.servers,
            TOPIC,
            "exclude: *.*, include: shop.*",
        )
        stack.callback(self.maxwell.stop)
        self.warehouse = Warehouse(
            folder / "dbt",
            kafka_servers=self.broker.servers,
            kafka_topics=TOPIC,
            # a build that meets a dead broker gives up soon
            kafka_options=json.dumps({"default.api.timeout.ms": 5000}),
        )
        self.bootstraps = Bootstraps(self.client, self.maxwell)
        self.loads = FullLoads(self.warehouse, self.mysql, folder / "full_load.log")
        stack.callback(self.loads.kill)
        self.wait(lambda: "Binlog connected" in self.maxwell.log.read_text(), "Maxwell")
        self.client.execute(create_table(self.columns)[2])
        self.builds = Builds(self.warehouse)
        stack.callback(self.builds.kill)
        plays = [
            (TABLE, statements(seed, number, self.columns), LONGEST_PAUSE) for number in range(2)
        ]
        plays += [(side.name, side.statements(seed), LONGEST_SIDE_PAUSE) for side in self.sides]
        self.writers = [
            (table, Writer(play, self.mysql.connect(), pause)) for table, play, pause in plays
        ]

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not is_so():
            assert time.monotonic() < deadline, f"waited {WAIT} s for {what}"
            self.tend()
            time.sleep(0.5)

    def tend(self) -> None:
        """Start Maxwell again where it has ended, and see to the loads, as whoever runs it does."""
        if not self.maxwell.is_running:
            self.restarts += 1
            self.maxwell.start()
        self.bootstraps.tend()
        self.loads.tend()
        asked = self.bootstraps.asked > 0
        if asked and self.bootstraps.are_done and self.loads.are_done:
            self.loaded = self.loaded or time.time()

    def load(self, table: str) -> None:
        """Ask for all loads, and kill Maxwell while it reads `table`."""
        for item in BOOTSTRAPPED:
            self.bootstraps.ask(item)
        self.loads.ask(*FULLY_LOADED)
        deadline = time.monotonic() + WAIT
        while not self.bootstraps.is_sending(table):
            assert time.monotonic() < deadline, "Maxwell didn't begin a bootstrap"
            if not self.maxwell.is_running:
                self.tend()
            time.sleep(0.02)  # `wait` would look too seldom
        self.kill("maxwell", 0)

    def may_kill(self, name: str, is_late: bool) -> bool:
        """Whether the test goes on if that is killed (once more). Late it waits for dbt."""
        if name == "loads":
            return not (self.loads.are_done or self.kills[name])
        # a process's first build takes much longer than the others
        return name != "builds" or not self.kills[name] or (self.builds.one_ended() and not is_late)

    def kill(self, name: str, pause: float) -> None:
        """Kill one of maxwell, broker, builds and loads; start it again `pause` seconds later."""
        victim: Any = getattr(self, name)
        began = time.time()
        victim.kill()
        time.sleep(pause)
        victim.start()
        self.kills[name] += 1
        if name == "broker":
            self.broker_down.append((began, time.time()))

    def drain(self) -> None:
        """Stop the writers and wait until the broker has all that they wrote."""
        for _, item in self.writers:
            item.stop()
        end = place(*self.client.query("show master status")[0][:2])
        self.wait(lambda: self.maxwell.noted(self.client) >= end, "Maxwell at the binlog's end")

    @property
    def changes(self) -> dict[str, Counter[str]]:
        """Table -> insert, update, delete -> rows, of all that was written since Maxwell runs."""
        total = {table: Counter[str]() for table, _ in self.writers}
        total[TABLE]["insert"] = 1  # the fence
        for table, item in self.writers:
            total[table].update(item.changes)
        return {table: +item for table, item in total.items()}


@pytest.fixture
def live(tmp_path: Path, seed: int) -> Iterator[Live]:
    with ExitStack() as stack:
        yield Live(tmp_path, seed, stack)


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("LIVE_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LIVE_SEED={chosen}")
    return chosen


@pytest.mark.live
def test_tables_equal_the_servers_own_after_kills_of_everything(live: Live, seed: int) -> None:
    chance = random.Random(f"{seed}/kills")
    seconds = float(os.environ.get("LIVE_SECONDS", "240"))
    load_at = time.monotonic() + seconds * chance.uniform(0.1, 0.4)
    until = time.monotonic() + seconds
    deck: list[str] = []
    # the last build has to find a warehouse that an earlier build has left
    while time.monotonic() < until or not (live.loaded and live.builds.one_was_good()):
        assert time.monotonic() < until + WAIT, "the loads or the first build came to no end"
        pause = time.monotonic() + chance.uniform(4, 20)
        while time.monotonic() < pause:
            live.tend()
            time.sleep(0.2)
        if load_at is not None and time.monotonic() > load_at:
            load_at = None
            live.load(chance.choice(BOOTSTRAPPED))
        if not deck:
            deck = chance.sample(["maxwell", "broker", "builds", "loads"], 4)
        name = deck.pop()
        if live.may_kill(name, time.monotonic() > until):
            live.kill(name, chance.choice([0, 0, 1, 4]))
    live.drain()
    live.builds.finish()

    # the command itself, with all its tests
    last = live.warehouse.subprocess("build", "--exclude-resource-type", "unit_test")
    assert last.returncode == 0, last.stdout

    check_counts(live)
    check_rows(live)
    check_messages(live)
    check_loads(live)
    check_builds(live)


def check_counts(live: Live) -> None:
    """Counts per user and status are the server's."""
    expected = {
        (_whole(user), status): (int(count), Decimal(amount or 0))
        for user, status, count, amount in live.client.query(
            "select user_id, biz_status, count(*), sum(amount) "
            f"from {TABLE} group by user_id, hex(biz_status)"
        )
    }
    assert differing(expected, live.warehouse.td()) == []
    print(f"{len(expected)} counts equal")


def check_rows(live: Live) -> None:
    """The latest rows are the server's rows, in every column; some came by loads alone."""
    compared, by_loads = 0, Counter[str]()
    for table in [TABLE, *(side.name for side in live.sides)]:
        name = table.removeprefix("shop.")
        declared = declaration(name)
        kinds, key = declared["columns"], declared["primary_key"]
        expected = rows_of(live.client, table, kinds)
        latest = live.warehouse.query(f"select * from dw.{VIEWS[name]}")
        got = [{column: row[column] for column in kinds} for row in latest]
        assert differing(_keyed(expected, key), _keyed(got, key)) == [], table
        assert len(got) == len(expected) > 20
        compared += len(got)
        if key:
            by_loads[table] = sum(row["binlog_file_number"] == -1 for row in latest)
    assert set(by_loads) == {*BOOTSTRAPPED, *FULLY_LOADED}
    # of these the log can't tell anything
    assert by_loads[TABLE] >= len(BEYOND)
    assert min(by_loads.values()) >= (KEYS - REACHED) // 2
    print(f"{compared} rows of {len(live.sides) + 1} tables equal")
    print(f"{by_loads.total()} of them came by loads alone: {dict(by_loads)}")


def _keyed(rows: list[dict[str, Any]], key: list[str]) -> dict[Any, Any]:
    """Key -> row; without key: row -> how often."""
    if not key:
        return Counter(tuple(row.items()) for row in rows)
    keyed = {tuple(row[name] for name in key): row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def check_messages(live: Live) -> None:
    """Every message of the broker once, every change of the server once, nothing refused."""
    held = {
        row["partition_number"]: (row["least"], row["most"], row["n"], row["offsets"])
        for row in live.warehouse.query(
            "select partition_number, min(message_offset) as least, max(message_offset) as most, "
            "count(*) as n, count(distinct message_offset) as offsets "
            f"from dw.ods_binlog where topic = '{TOPIC}' group by partition_number"
        )
    }
    ends = live.broker.ends(TOPIC, PARTITIONS)
    assert held == {item: (0, end - 1, end, end) for item, end in enumerate(ends)}
    assert live.warehouse.column("select count(*) from dw.meta_quarantine") == [0]
    for table, changes in live.changes.items():
        typed = live.warehouse.query(
            "select op_type, count(*) as n, count(distinct unique_key) as changes "
            f"from dw.ods_shop__{table.removeprefix('shop.')} "
            f"where metadata_op_type in ({ROW_OPS}) group by op_type"
        )
        assert {row["op_type"]: row["changes"] for row in typed} == changes, table
        assert {row["op_type"]: row["n"] for row in typed} == changes, table
    changes = sum(live.changes.values(), Counter())
    [sent] = live.warehouse.column(
        f"select count(*) from dw.ods_binlog where op in ({ROW_OPS}) and database_name = 'shop'"
    )
    print(f"{sum(ends)} messages, {changes.total()} changes: {dict(changes)}")
    print(f"{sent - changes.total()} changes were sent again")


def check_loads(live: Live) -> None:
    """Load rows stand among the log's; a table may have been loaded more than once."""
    rows = {
        (row["topic"].rpartition(".")[0] or TOPIC, row["table"]): row["n"]
        for row in live.warehouse.query(
            "select topic, concat_ws('.', database_name, table_name) as table, count(*) as n "
            "from dw.ods_binlog where op = 'snapshot' group by all"
        )
    }
    landed = {(f"full_load.{table}", table): n for table, n in live.loads.rows.items()}
    # one that was killed when its rows had landed, and made again, stands there twice
    assert {row for row in rows if row[0] != TOPIC} == set(landed)
    assert all(rows[name] >= n for name, n in landed.items())
    assert {table for topic, table in rows if topic == TOPIC} == set(BOOTSTRAPPED)
    among = live.warehouse.column(
        "select count(*) from (select min(if(op = 'snapshot', message_offset, null)) as first, "
        "max(if(op = 'snapshot', message_offset, null)) as last, "
        f"min(if(op in ({ROW_OPS}), message_offset, null)) as begin, "
        f"max(if(op in ({ROW_OPS}), message_offset, null)) as end "
        f"from dw.ods_binlog where topic = '{TOPIC}' and table_name = 'order_info' "
        "group by partition_number) as places where begin < first and last < end"
    )
    assert among == [PARTITIONS]
    # a kill came near each of the first loads
    assert live.bootstraps.asked > len(BOOTSTRAPPED)
    taken = [row for row in live.builds.done() if row["ok"]]
    before = [row for row in taken if row["ended"] < (live.loaded or 0)]
    print(f"rows of loads: {rows}; Maxwell was asked {live.bootstraps.asked} times")
    print(
        f"{len(before)} builds ended well before all was loaded, {len(taken) - len(before)} after"
    )


def check_builds(live: Live) -> None:
    """A build failed only where the broker was away while it ran."""
    builds = live.builds.done()
    failed = [build for build in builds if not build["ok"]]
    unexplained = [
        row
        for row in failed
        # clients take some seconds to notice that it is back
        if not any(
            row["began"] < end + 5 and begin < row["ended"] for begin, end in live.broker_down
        )
    ]
    assert unexplained == []
    assert len(builds) > len(failed)
    print(f"{len(builds)} builds ended, {len(failed)} of them failed without a broker")
    print(f"kills: {dict(live.kills)}; Maxwell gave up {live.restarts} times")
    for table, item in live.writers:
        print(f"writer of {table}: {item.sent} statements, {item.refused} of them refused")


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)
