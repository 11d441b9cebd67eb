"""Runs that are killed, and a reader of the published views beside them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from tests.support.dbt_project import DbtProject

READ = """
    select
        (select count(*) from published.rows) as n,
        (select count(distinct id) from published.rows) as ids,
        (select sum(n) from published.days) as days,
        (select n from published.total) as total,
        (select max(id) + 1 from published.latest) as newest
"""


class Reader(threading.Thread):
    """Asks the published views again and again, ten times a second at most.

    Args:
        sql: gives one row; a reader that saw several versions at once has different values in it.
    """

    def __init__(self, project: DbtProject, sql: str = READ) -> None:
        super().__init__(name="reader", daemon=True)
        self.project, self.sql, self.done = project, sql, threading.Event()
        self.seen: set[tuple] = set()
        self.reads = self.asked_to_read_again = 0
        self.error: Exception | None = None

    def run(self) -> None:
        while not self.done.wait(0.1):
            try:
                (row,) = self.project.query(self.sql)
                self.seen.add(tuple(row.values()))
                self.reads += 1
            except Exception as exc:
                if "Read again" not in str(exc):
                    self.error = exc
                    return
                self.asked_to_read_again += 1

    def stop(self) -> None:
        """End it, and assert that nothing torn was seen."""
        self.done.set()
        self.join(60)
        print(f"  {self.reads} reads, {self.asked_to_read_again} asked to read again")
        assert self.error is None
        assert self.reads > 0
        assert {item for item in self.seen if len(set(item)) != 1} == set()


def start(project: DbtProject, log: Path, *args: str) -> subprocess.Popen:
    """A `dbt build` as a process group of its own."""
    with log.open("wb") as file:
        return subprocess.Popen(
            project.command("build", *args),
            env={**os.environ, **project.env, "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill(run: subprocess.Popen, with_java: bool) -> None:
    """End a run without a warning; its Java process with it, or left to notice."""
    if with_java:
        os.killpg(run.pid, signal.SIGKILL)
    else:
        run.kill()
    run.wait()


def wait_for(run: subprocess.Popen, log: Path, step: str, seconds: float = 120) -> bool:
    """Wait until the run's log states `step`; whether it did before the run ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if step in log.read_text(errors="replace"):
            return True
        if run.poll() is not None:
            return step in log.read_text(errors="replace")
        time.sleep(0.01)
    raise AssertionError(f"the run never reported {step!r}:\n{log.read_text(errors='replace')}")


def orphans(
    project: DbtProject, tables: Iterable[str] = ("rows", "days", "latest__runs")
) -> set[str]:
    """Data files below the tables' folders that no snapshot of theirs knows."""
    known: set[str] = set()
    found: set[str] = set()
    for table in tables:
        files = project.column(f"select file_path from dw.{table}.all_files")
        known |= {Path(file).name for file in files}
        folder = project.warehouse / "data" / "dw" / table
        assert folder.is_dir()
        found |= {path.name for path in folder.rglob("*.parquet")}
    return found - known


def is_right(project: DbtProject, end: int, schema: str) -> None:
    """Whether the tables are what ids 0 to end - 1 come to."""
    assert project.column(f"select id from {schema}.rows order by id") == list(range(end))
    days = project.query(f"select day, n from {schema}.days")
    expected = {day: min(10, end - 10 * day) for day in range((end + 9) // 10)}
    assert {day["day"]: day["n"] for day in days} == expected
    assert len(days) == len(expected)
    latest = {row["user_id"]: row["id"] for row in project.query(f"select * from {schema}.latest")}
    assert latest == {user: max(range(user, end, 7)) for user in range(min(7, end))}
    assert project.column(f"select n from {schema}.total") == [end]
