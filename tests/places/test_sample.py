"""The sample on a standalone cluster, on a Spark Connect server, and in a REST catalog with an S3
store: built, killed and built again, documented, and published to PostgreSQL.

PLACE_KILLS sets how many runs are killed in each place, PLACE_SEED plays their moments again.
"""

from __future__ import annotations

import copy
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from benchmarks.object_store import java_of_nessie, nessie_and_s3, server_jars
from benchmarks.spark_servers import can_isolate, connect_server, standalone
from tests.support.child import child_process
from tests.support.dbt_project import REPO
from tests.support.killed_runs import kill, start
from tests.support.postgres_server import LOCALHOST, PASSWORD, USER, PostgresServer
from tests.support.warehouse import SAMPLE, Counts, Warehouse, differing, truth

MODELS = ("--select", "+dws_trade__user_status_td", "--exclude-resource-type", "unit_test")
UNREACHED = "the executors, which write the rows, don't (Connection refused)"
LAST_FILES = 8  # that come in one by one, each with a run that is killed


@contextmanager
def place(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of runs in a place: `cluster`, `connect` or `store`."""
    if name == "store":
        java, jars = java_of_nessie(), server_jars(folder / "jars")
        if java is None or jars is None:
            pytest.skip("needs a Java of 21 or later, and Nessie and s3mock from Maven")
        with nessie_and_s3(folder, jars, java) as env:
            yield env
        return
    if name == "connect":
        with connect_server(folder) as remote:
            yield {"DBT_TARGET": "connect", "SPARK_REMOTE": remote, "SPARK_SHUFFLE_PARTITIONS": "2"}
        return
    # a worker without the project's code, where it may have a file system of its own
    far = can_isolate()
    with standalone(folder, another_host=far, hidden=[REPO / "python_udfs"]) as cluster:
        yield cluster.env | {"SPARK_SHUFFLE_PARTITIONS": "2"}


@contextmanager
def reader(name: str, there: Warehouse) -> Iterator[Warehouse]:
    """The same warehouse, asked from a Spark of the tests: a store needs jars of its own, so its
    Spark is another process's."""
    if name != "store":
        yield Warehouse(there.landing.parent, compiles=True)
        return
    with child_process() as child:
        here = copy.copy(there)
        here.query = partial(child.query, there)  # type: ignore[method-assign]
        yield here


def ran(there: Warehouse, *arguments: str, **env: str | None) -> str:
    """What a dbt command printed that ended well."""
    done = there.subprocess(*arguments, env=env)
    assert done.returncode == 0, done.stdout
    return str(done.stdout)


def publish(name: str, there: Warehouse, server: PostgresServer) -> str:
    """What publishing to a server printed. A run on a Connect server has no Spark of its own, so
    another process with one writes the rows."""
    env: dict[str, str | None] = {
        "PUBLISH_TARGETS": "serving=postgres",
        "PUBLISH_SERVING_URL": server.url("postgres"),
        "PUBLISH_SERVING_USER": USER,
        "PUBLISH_SERVING_PASSWORD": PASSWORD,
    }
    if name == "connect":
        env |= {"DBT_TARGET": "local", "SPARK_REMOTE": None}
    arguments = ("run-operation", "publish_to", "--args", "{target: serving}")
    return str(there.subprocess(*arguments, env=env).stdout)


def published(server: PostgresServer) -> Counts:
    """The counts to date as PostgreSQL has them."""
    client = server.connect()
    rows = client.query("select user_id, biz_status, order_count, amount_sum from user_status")
    client.close()
    return {
        (None if user is None else int(user), status): (int(str(count)), Decimal(str(amount)))
        for user, status, count, amount in rows
    }


@pytest.mark.soak
@pytest.mark.parametrize("name", ["cluster", "connect", "store"])
def test_the_sample_is_the_server_s_own_counts_after_kills(
    tmp_path: Path, start_postgres: Callable[..., PostgresServer], name: str
) -> None:
    seed = int(os.environ.get("PLACE_SEED") or random.SystemRandom().randrange(10**6))
    kills, chance = int(os.environ.get("PLACE_KILLS", "2")), random.Random(seed)
    files, log = sorted(SAMPLE.iterdir()), tmp_path / "run.log"
    local = Warehouse(tmp_path / "local", compiles=True)
    local.land(*files)
    with place(name, tmp_path / "servers") as env:
        there = Warehouse(tmp_path, compiles=True)
        there.env |= env
        with reader(name, there) as here:
            there.land(*files[:-LAST_FILES])
            begun = time.monotonic()
            ran(there, "build", *MODELS)
            took = time.monotonic() - begun
            print(f"\n{name}, seed {seed}: first build {took:.0f} s")
            for number in range(kills):
                there.land(*files[-LAST_FILES:][: 1 + number * LAST_FILES // kills])
                run = start(there, log, *MODELS)
                time.sleep(chance.uniform(0.2, 1.0) * took)
                kill(run, with_java=False)
                begun = time.monotonic()
                ran(there, "build", *MODELS)
                ids = "select count(*), count(distinct message_offset) from dw.ods_binlog"
                (row,) = here.query(ids)
                assert len(set(row.values())) == 1, (seed, number, row)
                print(f"  kill {number}: run again {time.monotonic() - begun:.0f} s")
            there.land(*files)
            ran(there, "build", *MODELS)
            assert "Published as version" not in ran(there, "build", *MODELS)
            if name != "connect":  # it needs a Spark in the dbt process
                ran(there, "run-operation", "remove_orphans")
            ran(there, "run-operation", "expire_versions", "--args", "{keep: 1}")
            assert differing(truth("final"), here.td()) == []
            assert differing(truth("final"), here.td("published.dws_trade__user_status_td")) == []
            # where a worker on another host reaches it
            server = start_postgres(env.get("SPARK_DRIVER_HOST", LOCALHOST))
            printed = publish(name, there, server)
            assert differing(truth("final"), published(server)) == [], printed
            if name == "cluster" and can_isolate():
                assert UNREACHED in publish(name, there, start_postgres())
            ran(there, "docs", "generate", *MODELS[:2])
            found = here.contents()
    local.build()
    assert differing(local.contents(), found) == []
