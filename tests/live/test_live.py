"""MySQL -> Maxwell -> Kafka -> dbt while statements come in and processes are killed; at the end
the tables say what the server itself says.

    LIVE_SECONDS  how long statements come in, default 240
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
import yaml

from tests.live.builds import BUILDS, STOP
from tests.live.workload import TABLE, Writer, create_table
from tests.support.dbt_project import REPO
from tests.support.kafka_broker import KafkaBroker, kafka_lib
from tests.support.maxwell import Maxwell, maxwell_lib
from tests.support.mysql_server import MysqlServer, mysql_client, mysql_folder, value_of
from tests.support.warehouse import Warehouse, differing

TOPIC, PARTITIONS = "maxwell", 3
LONGEST_PAUSE = 0.03  # s between two statements of a writer
WAIT = 300  # s, for what has to come by itself
# of each change the row that it leaves, and the key that it leaves no row of
LATEST = """
with changes as (
    select *, true as is_there, order_id as key
    from dw.ods_shop__order_info
    where reject_reason is null and op_type <> 'delete'
    union all
    select *, false as is_there, before.order_id as key
    from dw.ods_shop__order_info
    where reject_reason is null
        and (op_type = 'delete' or op_type = 'update' and before.order_id <> order_id)
),
numbered as (
    select *, row_number() over (
        partition by key order by binlog_file_number desc, binlog_position desc, row_number desc
    ) as place
    from changes
)
select * from numbered where place = 1 and is_there
"""


def columns() -> dict[str, str]:
    """Column -> MySQL type, as the project declares the table."""
    text = (REPO / "models" / "ods" / "shop" / "_shop__models.yml").read_text(encoding="utf-8")
    [model] = [one for one in yaml.safe_load(text)["models"] if one["name"].endswith("order_info")]
    return model["config"]["meta"]["source"]["columns"]


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
        self.restarts = 0  # of a Maxwell that ended by itself
        self.columns = columns()
        for name in ("broker", "mysql", "maxwell", "dbt"):
            (folder / name).mkdir()
        self.broker = KafkaBroker(folder / "broker", lib)
        stack.callback(self.broker.stop)
        self.broker.create(TOPIC, PARTITIONS)
        self.mysql = MysqlServer(folder / "mysql", server, client)
        stack.callback(self.mysql.stop)
        self.client = self.mysql.connect()
        for statement in create_table(self.columns)[:2]:
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
        self.wait(lambda: "Binlog connected" in self.maxwell.log.read_text(), "Maxwell")
        self.client.execute(create_table(self.columns)[2])
        self.warehouse = Warehouse(
            folder / "dbt",
            kafka_servers=self.broker.servers,
            kafka_topics=TOPIC,
            # a build that meets a dead broker gives up soon
            kafka_options=json.dumps({"default.api.timeout.ms": 5000}),
        )
        self.warehouse.env["LANDING"] = ""
        self.builds = Builds(self.warehouse)
        stack.callback(self.builds.kill)
        self.writers = [
            Writer(seed, number, self.mysql.connect(), self.columns, LONGEST_PAUSE)
            for number in range(2)
        ]

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not is_so():
            assert time.monotonic() < deadline, f"waited {WAIT} s for {what}"
            self.tend()
            time.sleep(0.5)

    def tend(self) -> None:
        """Start Maxwell again where it has ended, as whoever runs it does."""
        if not self.maxwell.is_running:
            self.restarts += 1
            self.maxwell.start()

    def kill(self, name: str, pause: float) -> None:
        """Kill one of maxwell, broker and builds; start it again `pause` seconds later."""
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
        for one in self.writers:
            one.stop()
        end = _place(*self.client.query("show master status")[0][:2])

        def is_there() -> bool:
            # Maxwell notes a position once the broker has all messages before it
            [noted] = self.client.query(
                "select binlog_file, binlog_position from maxwell.positions"
            )
            return _place(*noted) >= end

        self.wait(is_there, "Maxwell to come to the binlog's end")

    @property
    def changes(self) -> Counter[str]:
        """insert, update, delete -> rows, of all that was written."""
        total = Counter({"insert": 1, "update": 0, "delete": 0})  # the fence
        for one in self.writers:
            total.update(one.changes)
        return total


def _place(file: str, position: str) -> tuple[int, int]:
    return int(file.rpartition(".")[2]), int(position)


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
    until = time.monotonic() + float(os.environ.get("LIVE_SECONDS", "240"))
    deck: list[str] = []
    while time.monotonic() < until:
        pause = time.monotonic() + chance.uniform(4, 20)
        while time.monotonic() < pause:
            live.tend()
            time.sleep(0.2)
        if not deck:
            deck = chance.sample(["maxwell", "broker", "builds"], 3)
        name = deck.pop()
        # most kills of dbt meet a later build than its first one, which takes much longer
        if name != "builds" or live.builds.one_ended() or chance.random() < 0.2:
            live.kill(name, chance.choice([0, 0, 1, 4]))
    live.drain()
    live.builds.finish()

    # the command itself, with all its tests
    last = live.warehouse.subprocess("build", "--exclude-resource-type", "unit_test")
    assert last.returncode == 0, last.stdout

    check_counts(live)
    check_rows(live)
    check_messages(live)
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
    """The latest images of all keys are the server's rows, in every column."""
    names = list(live.columns)
    expected = {
        int(row["order_id"]): {name: value_of(live.columns[name], row[name]) for name in names}
        for row in live.client.table(names, f"from {TABLE}")
    }
    latest = live.warehouse.query(LATEST)
    got = {int(row["key"]): {name: row[name] for name in names} for row in latest}
    assert differing(expected, got) == []
    assert len(expected) > 50
    print(f"{len(expected)} rows equal")


def check_messages(live: Live) -> None:
    """Every message of the broker once, every change of the server once, nothing refused."""
    held = {
        row["partition_number"]: (row["least"], row["most"], row["n"], row["offsets"])
        for row in live.warehouse.query(
            "select partition_number, min(message_offset) as least, max(message_offset) as most, "
            "count(*) as n, count(distinct message_offset) as offsets "
            "from dw.ods_binlog group by partition_number"
        )
    }
    ends = live.broker.ends(TOPIC, PARTITIONS)
    assert held == {one: (0, end - 1, end, end) for one, end in enumerate(ends)}
    assert live.warehouse.column("select count(*) from dw.meta_quarantine") == [0]
    typed = live.warehouse.query(
        "select op_type, count(*) as n, count(distinct unique_key) as changes "
        "from dw.ods_shop__order_info group by op_type"
    )
    assert {row["op_type"]: row["changes"] for row in typed} == live.changes
    assert {row["op_type"]: row["n"] for row in typed} == live.changes
    print(f"{sum(ends)} messages, {live.changes.total()} changes: {dict(live.changes)}")
    print(f"{sum(ends) - live.changes.total()} messages were sent again")


def check_builds(live: Live) -> None:
    """A build failed only where the broker was away while it ran."""
    builds = live.builds.done()
    failed = [one for one in builds if not one["ok"]]
    unexplained = [
        one
        for one in failed
        # clients take some seconds to notice that it is back
        if not any(
            one["began"] < end + 5 and begin < one["ended"] for begin, end in live.broker_down
        )
    ]
    assert unexplained == []
    assert len(builds) > len(failed)
    print(f"{len(builds)} builds ended, {len(failed)} of them failed without a broker")
    print(f"kills: {dict(live.kills)}; Maxwell gave up {live.restarts} times")
    for number, one in enumerate(live.writers):
        print(f"writer {number}: {one.sent} statements, {one.refused} of them refused")


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)
