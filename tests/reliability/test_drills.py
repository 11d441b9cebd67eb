"""What can go wrong around a run: a locked catalog, a full disk. One rerun is the recovery."""

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

from tests.reliability.test_kills import is_right, orphans
from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES

LARGEST_FILE = 3 * 2**20  # bytes; the tables' files of so many ids are larger
MANY_IDS = 6_000_000


def test_a_run_waits_for_a_catalog_that_another_process_has_locked(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    project.query("create namespace if not exists dw")
    project.query("create table dw.raw (id bigint) using iceberg")
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


def test_a_full_disk_fails_the_run_and_leaves_nothing_behind(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    project.query("create namespace if not exists dw")
    project.query("create table dw.raw (id bigint) using iceberg")
    project.query("insert into dw.raw select id from range(12)")
    project.run("build")
    project.query(f"insert into dw.raw select id from range(12, {MANY_IDS}) order by hash(id)")

    command = [str(Path(sys.executable).parent / "dbt"), "build", *project._options(None)]
    full = subprocess.run(
        command,
        env={**os.environ, **project.env},
        capture_output=True,
        text=True,
        check=False,
        # a file that grows beyond it is refused, as on a disk without room
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE,) * 2),
    )
    assert full.returncode == 1, full.stdout[-3000:]
    assert "File too large" in full.stdout
    is_right(project, 12, "published")

    project.query(f"delete from dw.raw where id >= {12 + 100}")
    project.run("build", "--full-refresh")
    is_right(project, 112, "dw")
    is_right(project, 112, "published")
    assert orphans(project) == set()
