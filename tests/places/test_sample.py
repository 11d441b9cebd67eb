"""The sample on a standalone cluster and on a Spark Connect server: built, killed and built again.

PLACE_KILLS sets how many runs are killed in each place, PLACE_SEED plays their moments again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO
from tests.support.killed_runs import kill, start
from tests.support.spark_servers import can_isolate, connect_server, standalone
from tests.support.warehouse import SAMPLE, Warehouse, differing, truth

MODELS = ("--select", "+dws_trade__user_status_td", "--exclude-resource-type", "unit_test")
LAST_FILES = 8  # that come in one by one, each with a run that is killed


@contextmanager
def place(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of runs in a place: `cluster` or `connect`."""
    if name == "connect":
        with connect_server(folder) as remote:
            yield {"DBT_TARGET": "connect", "SPARK_REMOTE": remote, "SPARK_SHUFFLE_PARTITIONS": "2"}
        return
    # a worker without the project's code, where it may have a file system of its own
    far = can_isolate()
    with standalone(folder, another_host=far, hidden=[REPO / "python_udfs"]) as cluster:
        yield cluster.env | {"SPARK_SHUFFLE_PARTITIONS": "2"}


@pytest.mark.soak
@pytest.mark.parametrize("name", ["cluster", "connect"])
def test_the_sample_is_the_server_s_own_counts_after_kills(tmp_path: Path, name: str) -> None:
    seed = int(os.environ.get("PLACE_SEED") or random.SystemRandom().randrange(10**6))
    kills, chance = int(os.environ.get("PLACE_KILLS", "2")), random.Random(seed)
    files, log = sorted(SAMPLE.iterdir()), tmp_path / "run.log"
    here = Warehouse(tmp_path)  # asks from this process
    with place(name, tmp_path / "servers") as env:
        there = Warehouse(tmp_path, **{key.lower(): value for key, value in env.items()})
        here.land(*files[:-LAST_FILES])
        begun = time.monotonic()
        done = there.subprocess("build", *MODELS)
        took = time.monotonic() - begun
        assert done.returncode == 0, done.stdout
        print(f"\n{name}, seed {seed}: first build {took:.0f} s")
        for number in range(kills):
            here.land(*files[-LAST_FILES:][: 1 + number * LAST_FILES // kills])
            run = start(there, log, *MODELS)
            time.sleep(chance.uniform(0.2, 1.0) * took)
            kill(run, with_java=False)
            begun = time.monotonic()
            done = there.subprocess("build", *MODELS)
            assert done.returncode == 0, done.stdout
            ids = "select count(*), count(distinct message_offset) from dw.ods_binlog"
            (row,) = here.query(ids)
            assert len(set(row.values())) == 1, (seed, number, row)
            print(f"  kill {number}: run again {time.monotonic() - begun:.0f} s")
        here.land(*files)
        done = there.subprocess("build", *MODELS)
        assert done.returncode == 0, done.stdout
        again = there.subprocess("build", *MODELS)
        assert again.returncode == 0, again.stdout
        assert "Published as version" not in again.stdout
    assert differing(truth("final"), here.td()) == []
    assert differing(truth("final"), here.td("published.dws_trade__user_status_td")) == []
    local = Warehouse(tmp_path / "local")
    local.land(*files)
    local.build()
    assert differing(local.contents(), here.contents()) == []
