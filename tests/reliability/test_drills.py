"""What can go wrong around a run: the catalog, the disk, the clock. One rerun is the recovery."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.clocks import put_ahead
from tests.support.dbt_project import DbtProject
from tests.support.killed_runs import is_right, orphans, start, wait_for
from tests.support.small_warehouse import FILES, make_raw

LARGEST_FILE = 3 * 2**20  # bytes; the tables' files of so many ids are larger
MANY_IDS = 6_000_000


def test_a_run_waits_for_a_catalog_that_another_process_has_locked(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    make_raw(project)
    project.query("insert into dw.raw select id from range(12)")
    held = threading.Event()

    def hold() -> None:
        catalog = sqlite3.connect(project.warehouse / "catalog.db", isolation_level=None)
        catalog.execute("begin exclusive")
        held.set()
        time.sleep(5)
        catalog.execute("rollback")
        catalog.close()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    project.run("build")
    holder.join()
    is_right(project, 12, "published")


def descendants(pid: int) -> list[int]:
    """A process and all that it and its own have started."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += descendants(int(child))
    return found


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_a_full_disk_fails_the_run_and_leaves_nothing_behind(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    project = make_project(FILES)
    make_raw(project)
    project.query("insert into dw.raw select id from range(12)")
    project.run("build")
    project.query(f"insert into dw.raw select id from range(12, {MANY_IDS}) order by hash(id)")

    run = start(project, log)
    wait_for(run, log, "START sql incremental model dw.rows")
    for pid in descendants(run.pid):  # as on a disk without room: a file that grows is refused
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    assert run.wait(300) == 1, log.read_text()
    assert "File too large" in log.read_text()
    is_right(project, 12, "published")

    project.query(f"delete from dw.raw where id >= {12 + 100}")
    project.run("build", "--full-refresh")
    is_right(project, 112, "dw")
    is_right(project, 112, "published")
    assert orphans(project) == set()


def build_12_land_30(project: DbtProject) -> None:
    """A version of ids 0 to 11, and ids up to 29 that no build has taken yet."""
    make_raw(project)
    project.query("insert into dw.raw select id from range(12)")
    project.run("build")
    project.query("insert into dw.raw select id from range(12, 30)")


def one_rerun_is_the_recovery(project: DbtProject) -> None:
    """After a run that failed: readers saw nothing of it, and the next run takes all."""
    is_right(project, 12, "published")
    project.run("build")
    is_right(project, 30, "dw")
    is_right(project, 30, "published")
    assert orphans(project) == set()


@pytest.mark.soak
def test_a_run_without_memory_leaves_nothing_behind(
    make_project: Callable[..., DbtProject],
) -> None:
    hungry = "(select size(collect_list(repeat(id, 100000))) from range(100000)) > 0"
    rows = FILES["models/rows.sql"].rstrip() + f" {{% if var('hungry', false) %}} where {hungry}"
    project = make_project(FILES | {"models/rows.sql": rows + " {% endif %}"})
    build_12_land_30(project)

    done = project.subprocess("build", vars={"hungry": True, "accept_definition": ["rows"]})

    assert done.returncode == 1
    assert "Spark's Java ran out of memory and ended: Spark may use 2g" in done.stdout
    assert "interrupt" not in done.stdout
    assert done.stderr == ""
    one_rerun_is_the_recovery(project)


@pytest.mark.soak
@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_whose_java_is_killed_names_it_and_leaves_nothing_behind(
    make_project: Callable[..., DbtProject], tmp_path: Path, threads: int
) -> None:
    long = "(select count(*) from range(1000000) a cross join range(1000000) b) > 0"
    rows = FILES["models/rows.sql"].rstrip() + f" {{% if var('long', false) %}} where {long}"
    project = make_project(FILES | {"models/rows.sql": rows + " {% endif %}"})
    build_12_land_30(project)

    log = tmp_path / "run.log"
    run = start(
        project, log, "--threads", str(threads), "--vars", "{long: true, accept_definition: [rows]}"
    )
    wait_for(run, log, "START sql incremental model dw.rows")
    time.sleep(3)
    for child in psutil.Process(run.pid).children():
        if child.name() == "java":
            child.kill()
    assert run.wait(60) == 1
    printed = log.read_text()
    assert "Spark's Java was killed (SIGKILL), as systems do that run out of memory" in printed
    assert "interrupt" not in printed
    assert "Traceback" not in printed
    assert "Connection refused" not in printed
    one_rerun_is_the_recovery(project)


# root may write what is read-only: the run gets no such power
WITHOUT_POWER = """
import ctypes, os, sys
for power in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    ctypes.CDLL(None).prctl(24, power, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_catalog_that_is_read_only_fails_the_run_and_readers_go_on(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    build_12_land_30(project)
    catalog = project.warehouse / "catalog.db"
    catalog.chmod(0o444)
    project.warehouse.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POWER, *project.command("build")],
        env=os.environ | project.env,
        capture_output=True,
        text=True,
    )
    catalog.chmod(0o644)
    project.warehouse.chmod(0o755)

    assert done.returncode != 0
    assert f"The catalog of the warehouse {project.warehouse} can't be written" in done.stdout
    one_rerun_is_the_recovery(project)


def test_a_table_whose_files_are_gone_is_named(make_project: Callable[..., DbtProject]) -> None:
    project = make_project(FILES)
    build_12_land_30(project)
    aside = project.warehouse / "data" / "dw" / "meta_lease_aside"
    (project.warehouse / "data" / "dw" / "meta_lease").rename(aside)

    done = project.run("build", expect_ok=False)

    assert "dw.meta_lease can't be read: the catalog names its file" in str(done.exception)
    assert "\tat " not in done.log + str(done.exception)
    aside.rename(aside.with_name("meta_lease"))
    one_rerun_is_the_recovery(project)


@pytest.mark.in_turn
def test_a_clock_that_was_a_day_ahead_keeps_no_table_from_being_written(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    build_12_land_30(project)
    for table in ("rows", "days", "latest__runs", "meta_version", "meta_lease"):
        put_ahead(project, f"dw.{table}")

    outcome = project.run("build")

    assert "dw.rows: its newest commit was dated 86,3" in outcome.log
    is_right(project, 30, "dw")
    is_right(project, 30, "published")
    project.query("insert into dw.raw select id from range(30, 40)")
    assert "its newest commit was dated" not in project.run("build").log
    is_right(project, 40, "published")
