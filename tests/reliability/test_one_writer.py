"""The lease: one run writes at a time, a dead one's lease is taken over, and nothing comes twice.

PAIRS sets how many pairs of runs are started at once.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from dbt.adapters.sparksession.lease import (
    HEARTBEAT,
    Lease,
    LeaseRefusedError,
    process_mark,
    utc_now,
)
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, make_raw


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    project = make_project(FILES)
    make_raw(project)
    return project


@pytest.fixture
def lease(project: DbtProject) -> Callable[[str], Lease]:
    def made(run_id: str) -> Lease:
        credentials = project.credentials()
        return Lease(lambda: own_session(credentials).session, "dw.meta_lease", run_id)

    return made


def held_by(project: DbtProject, **columns: Any) -> None:
    """Let the lease's row say something else, as if another process had taken it."""
    values = ", ".join(f"{name} = {value}" for name, value in columns.items())
    project.query(f"update dw.meta_lease set {values}")


def no_wait(_: float) -> None:
    """A waiting that takes no time."""


def test_two_runs_at_once_neither_lose_nor_double_a_row(project: DbtProject) -> None:
    pairs = int(os.environ.get("PAIRS", "1"))
    refused = 0
    for number in range(pairs):
        project.query(f"insert into dw.raw select id from range({10 * number}, {10 * number + 10})")
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda _: project.subprocess("build"), range(2)))
        codes = sorted(one.returncode for one in done)
        assert codes in ([0, 0], [0, 1], [0, 2]), [one.stdout[-2000:] for one in done]
        for one in done:
            if one.returncode:
                refused += 1
                assert "The warehouse is being written by" in one.stdout
                assert f"on {socket.gethostname()}, pid " in one.stdout
        ids = project.column("select id from dw.rows order by id")
        assert ids == list(range(10 * number + 10)), number
    print(f"\n{pairs} pairs of runs, {refused} runs refused")


def test_a_second_run_is_refused_and_told_who_writes(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    first, second = lease("first"), lease("second")
    assert first.take() is None
    # the same process would take it over from itself: another one that lives holds it
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        mark = process_mark(other.pid)
        held_by(project, pid=other.pid, process=f"'{mark}'", engine_pid="null")
        with pytest.raises(LeaseRefusedError, match=rf"pid {other.pid}, since .* \(run first\)"):
            second.take()
    finally:
        assert other.stdin is not None
        other.stdin.close()
        other.wait()
    dead = second.take(no_wait)  # its process is gone
    assert dead is not None and dead.run_id == "first"
    with pytest.raises(LeaseRefusedError, match=r"taken over by .*run second"):
        first.confirm()
    first.give_back()  # changes nothing: it isn't its own any more
    second.confirm()
    second.give_back()
    assert lease("third").take() is None


def test_a_process_number_that_is_used_again_is_another_process(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    lease("first").take()
    held_by(project, pid=os.getppid(), process="'another boot/1'", engine_pid="null")
    dead = lease("second").take(no_wait)
    assert dead is not None and dead.run_id == "first"


def test_the_java_process_of_a_dead_run_is_waited_for(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    lease("first").take()
    mark = process_mark(os.getppid())
    held_by(project, process="'gone'", pid=os.getppid(), engine_pid=os.getppid())
    held_by(project, engine_process=f"'{mark}'")
    waited: list[float] = []
    with pytest.raises(LeaseRefusedError):
        lease("second").take(waited.append)
    assert sum(waited) == 60
    held_by(project, engine_process="'gone too'")
    assert lease("second").take(no_wait) is not None


def test_a_run_of_another_host_is_dead_when_its_heart_is_seen_not_to_beat(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    other = lease("first")
    other.take()
    held_by(project, host="'elsewhere'")

    def was_alive(at: datetime) -> None:
        held_by(project, started_at=f"timestamp_ntz '{at}'")
        project.query(f"alter table dw.meta_lease set tblproperties ('{HEARTBEAT}' = '{at}')")

    def is_refused(wait: Callable[[float], None]) -> None:
        with pytest.raises(LeaseRefusedError, match="on elsewhere"):
            lease("second").take(wait)

    is_refused(no_wait)  # it started a moment ago
    for away in (timedelta(days=-1), timedelta(days=1)):  # or one of the clocks has jumped
        was_alive(utc_now() + away)
        is_refused(lambda _: other._beat())
    was_alive(utc_now() - timedelta(days=1))
    other._beat()
    is_refused(no_wait)
    was_alive(utc_now() + timedelta(days=1))
    dead = lease("second").take(no_wait)
    assert dead is not None and dead.host == "elsewhere"


def test_of_many_that_ask_at_once_one_gets_it(lease: Callable[[str], Lease]) -> None:
    first = lease("first")
    first.take()
    first.give_back()

    def taken(number: int) -> bool:
        try:
            one = lease(f"run {number}")
            one._is_dead = lambda *_: False  # type: ignore[method-assign]
            one.take()
        except LeaseRefusedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(taken, range(4))) == 1
