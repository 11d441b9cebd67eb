"""A run on a Spark Connect server that is killed commits nothing behind the run that takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dbt.adapters.sparksession import session

from benchmarks.spark_servers import connect_server
from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, make_raw

LONGER = (30, 90, 240)  # seconds that a statement takes, if it ends too soon, the next
STOPPED_BEFORE = 120  # seconds
# a row whose id is a time (milliseconds) is read when that has come
SLOW_ROWS = """
    {{ config(materialized='incremental') }}
    select id, id % 7 as user_id, id div 10 as day from {{ new_rows(source('raw', 'raw')) }}
    where coalesce(
        java_method(
            'java.lang.Thread',
            'sleep',
            if(id < 1000, 0, greatest(0, id - unix_millis(current_timestamp())))
        ),
        ''
    ) <> 'awake'
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


def begun(project: DbtProject, remote: dict[str, str], log: Path) -> subprocess.Popen:
    """A build on the server, whose model `rows` is slow, a moment after that model began."""
    with log.open("wb") as file:
        run = subprocess.Popen(
            project.command("build", "--select", "rows"),
            env={**os.environ, **project.env, **remote, "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    until = time.monotonic() + 120
    while "START sql incremental model dw.rows" not in log.read_text():
        assert time.monotonic() < until and run.poll() is None, log.read_text()
        time.sleep(0.2)
    time.sleep(3)  # the server works on it
    return run


@pytest.mark.soak
def test_a_run_that_is_killed_commits_nothing_behind_the_next_run(
    make_project: Callable[..., DbtProject], server: str, tmp_path: Path
) -> None:
    project = make_project(FILES | {"models/rows.sql": SLOW_ROWS})
    make_raw(project)
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    remote = {"DBT_TARGET": "connect", "SPARK_REMOTE": server, "SPARK_SHUFFLE_PARTITIONS": "2"}
    expected = list(range(10))
    for longer in LONGER:
        until = 1000 * int(time.time() + longer)
        new = [len(expected), until]
        project.query(f"insert into dw.raw values {', '.join(f'({number})' for number in new)}")
        expected = sorted([*expected, *new])
        dead = begun(project, remote, tmp_path / "log")
        if time.time() < until / 1000 - 5:
            break
        dead.wait()  # the machine is slow: the statement has ended before the run is killed
    else:
        raise AssertionError(f"no run began within {longer} s")
    dead.kill()
    dead.wait()
    second = project.subprocess("build", env=remote)
    assert second.returncode == 0, second.stdout
    time.sleep(max(0.0, until / 1000 + 3 - time.time()))
    assert project.column("select id from dw.rows order by id") == expected
    assert project.column("select n from published.total") == [len(expected)]
    assert "took over the lease of a run that is gone" in second.stdout
    assert "out of this run's sight" not in second.stdout
    properties = project.query("show tblproperties dw.meta_lease")
    assert [row["key"] for row in properties if "lease.session" in row["key"]] == []


class RemoteSession:
    """What a session of a Spark Connect server is asked here."""

    def __init__(self, is_closed: bool = False) -> None:
        self.interrupted, self._is_closed = 0, is_closed

    def interruptAll(self) -> None:
        self.interrupted += 1
        if self._is_closed:
            raise RuntimeError("INVALID_HANDLE.SESSION_CLOSED")


def test_the_statements_of_all_threads_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = {"a": RemoteSession(), "b": RemoteSession(is_closed=True), "c": RemoteSession()}
    monkeypatch.setattr(session, "own_remote_sessions", sessions)
    session.cancel_statements(sessions["a"])
    assert [each.interrupted for each in sessions.values()] == [1, 1, 1]


@pytest.mark.soak
def test_ctrl_c_ends_the_statement_on_the_server(
    make_project: Callable[..., DbtProject], server: str, tmp_path: Path
) -> None:
    project = make_project(FILES | {"models/rows.sql": SLOW_ROWS})
    make_raw(project)
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    remote = {"DBT_TARGET": "connect", "SPARK_REMOTE": server, "SPARK_SHUFFLE_PARTITIONS": "2"}
    log, until = tmp_path / "log", 1000 * int(time.time() + STOPPED_BEFORE)
    project.query(f"insert into dw.raw values (10), ({until})")
    run = begun(project, remote, log)
    run.send_signal(signal.SIGINT)
    assert run.wait(90) != 0
    assert time.time() < until / 1000 - 5, "the statement ended by itself"
    printed = log.read_text()
    assert "Stopped by Ctrl-C" in printed
    assert "the next run goes on from here" in printed
    again = project.subprocess("build", env=remote)
    assert again.returncode == 0, again.stdout
    assert "took over the lease" not in again.stdout
    assert project.column("select id from dw.rows order by id") == [*range(11), until]
