"""An executor that is killed in mid-run doesn't fail the run, and takes no row with it."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from dbt.adapters.sparksession.session import checkpointed
from pyspark.sql import SparkSession

from benchmarks.spark_servers import standalone
from tests.support.dbt_project import DbtProject
from tests.support.warehouse import Warehouse, differing, sample_days, truth

# it kills an executor once its rows are kept, and the executors' number is seen to have fallen
MODEL = """
    import os
    import signal
    import time

    import psutil

    def model(dbt, session):
        dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="id")
        from dbt.adapters.sparksession.session import checkpointed

        # no place
        rows = session.range(0, 1000, 1, 8).selectExpr("id", "rand() as drawn")
        rows = checkpointed(rows)
        total = rows.selectExpr("sum(drawn)").first()[0]
        context = session.sparkContext
        mark = context.applicationId
        pids = [
            process.pid
            for process in psutil.process_iter(["name", "cmdline"])
            if process.info["name"] == "java" and mark in (process.info["cmdline"] or [])
        ]
        tracker = context._jsc.sc().statusTracker()
        there = len(tracker.getExecutorInfos())
        assert len(pids) == 2, pids
        os.kill(pids[0], signal.SIGKILL)
        until = time.monotonic() + 60
        while len(tracker.getExecutorInfos()) == there and time.monotonic() < until:
            time.sleep(0.1)
        return rows.selectExpr("*", f"{total!r}D as total")
"""


NO_PLACE = """set_place = getattr(session.sparkContext._jsc.sc(), "checkpointDir_$eq")
        set_place(session._jvm.scala.Option.empty())
"""


def executors_of(master: str) -> list[int]:
    """Processes of the executors that work for a driver of this master's applications."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command:
            parent = " ".join(process.parent().cmdline())
            if master in parent:
                found.append(process.pid)
    return found


CHANGES = {
    "beside the tables": ("", ""),
    "on two executors": ("# no place\n", NO_PLACE),
    # as a Spark in this process keeps them: the test must be able to fail
    "on one executor": ("checkpointed(rows)", "rows.localCheckpoint()"),
}


@pytest.mark.soak
@pytest.mark.parametrize("kept", CHANGES)
def test_kept_rows_outlive_an_executor(
    make_project: Callable[..., DbtProject], tmp_path: Path, kept: str
) -> None:
    project = make_project({"models/kept.py": MODEL.replace(*CHANGES[kept])})
    with standalone(tmp_path / "servers", workers=2) as cluster:
        project.env |= cluster.env | {"SPARK_SHUFFLE_PARTITIONS": "2"}
        done = project.subprocess("run")
        if kept == "on one executor":
            assert done.returncode != 0
            assert "Checkpoint block" in done.stdout, done.stdout
            return
        assert done.returncode == 0, done.stdout
    here = DbtProject(project.root, project.warehouse, profiles=project.profiles)
    total = "select abs(sum(drawn) - max(total)) < 1e-9 as same, count(*) as n from dw.kept"
    assert here.query(total) == [{"same": True, "n": 1000}]
    left, until = project.warehouse / ".checkpoints", time.monotonic() + 30
    while left.exists() and any(left.iterdir()):  # Java ends a moment after Python
        assert time.monotonic() < until, list(left.iterdir())
        time.sleep(0.2)


@pytest.mark.soak
def test_the_sample_is_built_while_executors_are_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("PLACE_SEED") or random.SystemRandom().randrange(10**6))
    chance, done, killed = random.Random(seed), threading.Event(), []
    warehouse = Warehouse(tmp_path)
    days = sample_days()[:2]
    warehouse.land(*[file for _, files in days for file in files])
    with standalone(tmp_path / "servers", workers=2) as cluster:
        warehouse.env |= cluster.env | {"SPARK_SHUFFLE_PARTITIONS": "4"}

        def kill_some() -> None:
            while not done.wait(chance.uniform(10, 25)):
                pids = executors_of(cluster.master)
                if len(pids) > 1 and len(killed) < 4:
                    psutil.Process(chance.choice(pids)).kill()
                    killed.append(1)

        killer = threading.Thread(target=kill_some)
        killer.start()
        try:
            ran = warehouse.subprocess("run", "--select", "+dws_trade__user_status_td")
        finally:
            done.set()
            killer.join()
        print(f"\nseed {seed}: {len(killed)} executors killed")
        assert ran.returncode == 0, ran.stdout
    assert killed
    here = Warehouse(tmp_path)
    assert differing(truth(days[-1][0]), here.td()) == []


def test_rows_of_a_local_spark_are_kept_in_it(spark: SparkSession) -> None:
    rows = checkpointed(spark.range(10).selectExpr("id", "rand() as drawn"))
    assert rows.collect() == rows.collect()
    assert "Scan ExistingRDD" in rows._jdf.queryExecution().toString()
    assert spark.sparkContext._jsc.sc().getCheckpointDir().isEmpty()
