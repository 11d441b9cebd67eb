"""The lease: one run writes at a time, a dead one's lease is taken over, and nothing comes twice.

PAIRS sets how many pairs of runs are started at once.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session
from dbt.adapters.sparksession.versions import processes
from dbt.adapters.sparksession.versions.lease import HEARTBEAT, Lease, LeaseRefusedError, utc_now
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.processes import is_running, process_mark
from dbt.adapters.sparksession.versions.publications import Publications
from dbt.adapters.sparksession.versions.published_views import PublishedViews
from dbt.adapters.sparksession.versions.targets import StoreState, TableUpdate, UpdateResult

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, left_behind, make_raw

pytestmark = pytest.mark.in_turn


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


def mark_of_another_start() -> str:
    """The mark of a process of this boot and namespace that has ended, of a number used again."""
    mark = process_mark(os.getppid())
    assert mark is not None
    return f"{mark.rpartition('/')[0]}/1"


def no_wait(_: float) -> None:
    """A waiting that takes no time."""


def test_two_runs_at_once_neither_lose_nor_double_a_row(project: DbtProject) -> None:
    pairs = int(os.environ.get("PAIRS", "1"))
    refused = 0
    for number in range(pairs):
        project.query(f"insert into dw.raw select id from range({10 * number}, {10 * number + 10})")
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(lambda _: project.subprocess("build"), range(2)))
        codes = sorted(process.returncode for process in done)
        assert codes in ([0, 0], [0, 1], [0, 2]), [process.stdout[-2000:] for process in done]
        for process in done:
            if process.returncode:
                refused += 1
                assert "The warehouse is being written by" in process.stdout
                assert f"on {socket.gethostname()}, pid " in process.stdout
        ids = project.column("select id from dw.rows order by id")
        assert ids == list(range(10 * number + 10)), number
    print(f"\n{pairs} pairs of runs, {refused} runs refused")


@pytest.mark.soak
def test_a_run_that_begins_while_another_one_takes_the_lease_is_no_lost_catalog(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run takes and gives back the lease behind this run's first look at it."""
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    row = Lease._row
    others: list[int] = []

    def row_and_another_run(self: Lease) -> Any:
        found = row(self)
        if not others:
            others.append(project.subprocess("build").returncode)
        return found

    monkeypatch.setattr(Lease, "_row", row_and_another_run)
    project.query("insert into dw.raw select id from range(10, 20)")
    project.run("build")
    assert others == [0]
    assert project.column("select id from dw.rows order by id") == list(range(20))


@pytest.mark.in_turn
def test_the_first_runs_of_a_warehouse_may_begin_at_once(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run makes the lease's table behind this run's look for it."""
    location_of = Place.location_of
    others: list[int] = []

    def location_and_another_run(self: Any, table: str) -> str | None:
        found = location_of(self, table)
        if not others:
            others.append(project.subprocess("build").returncode)
        return found

    monkeypatch.setattr(Place, "location_of", location_and_another_run)
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    assert others == [0]
    assert project.column("select id from dw.rows order by id") == list(range(10))


def test_a_second_run_is_refused_with_who_writes(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    first, second = lease("first"), lease("second")
    assert first.take() is None
    # the same process would take it over from itself: another process that lives holds it
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
    held_by(project, pid=os.getppid(), process=f"'{mark_of_another_start()}'", engine_pid="null")
    dead = lease("second").take(no_wait)
    assert dead is not None and dead.run_id == "first"


def test_the_java_process_of_a_dead_run_is_waited_for(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    lease("first").take()
    mark = process_mark(os.getppid())
    gone = mark_of_another_start()
    held_by(project, process=f"'{gone}'", pid=os.getppid(), engine_pid=os.getppid())
    held_by(project, engine_process=f"'{mark}'")
    waited: list[float] = []
    with pytest.raises(LeaseRefusedError):
        lease("second").take(waited.append)
    assert sum(waited) == 60
    held_by(project, engine_process=f"'{gone}'")
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
            first = lease(f"run {number}")
            first._is_dead = lambda *_: False  # type: ignore[method-assign]
            first.take()
        except LeaseRefusedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(taken, range(4))) == 1


def silent_since(project: DbtProject, at: datetime) -> None:
    """Let the holder have started, and its heart have beaten last, at that time."""
    held_by(project, started_at=f"timestamp_ntz '{at}'")
    project.query(f"alter table dw.meta_lease set tblproperties ('{HEARTBEAT}' = '{at}')")


def test_a_live_process_of_another_pid_namespace_is_not_dead(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    other = lease("first")
    other.take()
    # of a container with this host's name: its pid may be this process's own, as 1 always is
    boot, _, start = str(process_mark(os.getpid())).split("/")
    for elsewhere in (f"{boot}/pid:[1]/{start}", f"another boot/pid:[2]/{start}", "boot/1"):
        for pid in (os.getpid(), 1):
            held_by(project, pid=pid, process=f"'{elsewhere}'", engine_pid="null")
            with pytest.raises(LeaseRefusedError, match="minutes after its last heartbeat"):
                lease("second").take(no_wait)
    silent_since(project, utc_now() - timedelta(days=1))
    with pytest.raises(LeaseRefusedError):
        lease("second").take(lambda _: other._beat())
    silent_since(project, utc_now() - timedelta(days=1))
    second = lease("second")
    assert second.take(no_wait) is not None
    assert not second.saw_end


def test_the_heartbeat_decides_where_proc_hides_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    own = process_mark(os.getpid())
    assert own is not None
    assert is_running(os.getpid(), own) is True
    assert is_running(os.getpid(), f"{own}1") is False
    hidden = processes._stat
    monkeypatch.setattr(processes, "_stat", lambda pid: [] if pid == 1 else hidden(pid))
    assert is_running(1, f"{own.rpartition('/')[0]}/7") is None  # it is there, whatever it is
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_running(ended.pid, own) is False
    # of a /proc that isn't this process's own nothing is read
    monkeypatch.setattr(processes, "_namespace", lambda: None)
    assert process_mark(os.getpid()) is None
    assert is_running(os.getpid(), own) is None


def test_a_process_in_a_namespace_of_its_own_does_not_see_this_process() -> None:
    unshare = shutil.which("unshare")
    asked = textwrap.dedent(
        """
        import os, sys
        from dbt.adapters.sparksession.versions.processes import is_running, process_mark
        pid, mark = int(sys.argv[1]), sys.argv[2]
        print(is_running(pid, mark), is_running(os.getpid(), mark), process_mark(os.getpid()))
        """
    )
    mark = process_mark(os.getpid())
    for options in (["-pf", "--mount-proc"], ["-Urpf", "--mount-proc"], ["-pf"], ["-Urpf"]):
        done = subprocess.run(
            [str(unshare), *options, sys.executable, "-c", asked, str(os.getpid()), str(mark)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            break
    else:
        pytest.skip("unshare can't make a pid namespace here")
    assert done.stdout.startswith("None None "), done.stdout + done.stderr
    assert str(mark).rpartition("/")[0] not in done.stdout


def taken_over(project: DbtProject) -> None:
    """Let another host take the lease over, as after a sleep of this host."""
    project.query(
        "update dw.meta_lease set generation = generation + 1, run_id = 'another', "
        "host = 'elsewhere', owner = 'somebody'"
    )


def test_a_run_that_lost_its_lease_deletes_nothing_at_its_end(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    files = left_behind(project)
    project.query("insert into dw.raw select id from range(10, 20)")
    sql = FILES["models/latest.sql"]
    stops = "where id = raise_error('stops')"
    project.write({"models/latest.sql": sql.rstrip() + f"\n{stops}\n"})
    give_back = OneWriter.give_back_lease

    def given_back_too_late(self: Any, *args: Any) -> None:
        taken_over(project)
        give_back(self, *args)

    monkeypatch.setattr(OneWriter, "give_back_lease", given_back_too_late)
    failed = project.run("run", expect_ok=False)
    output = f"{failed.exception}{failed.log}"
    assert "ERROR creating sql folded model dw.latest" in output  # whose files would be tidied
    assert "lease of the warehouse was taken over by somebody on elsewhere" in output
    assert all(file.exists() for file in files)
    (row,) = project.query("select run_id, host from dw.meta_lease")
    assert row == {"run_id": "another", "host": "elsewhere"}


def test_a_run_that_loses_its_lease_while_it_publishes_adds_no_version(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    write_views = PublishedViews.write_views

    def written_slowly(self: Any, *args: Any) -> None:
        write_views(self, *args)
        taken_over(project)

    monkeypatch.setattr(PublishedViews, "write_views", written_slowly)
    project.query("insert into dw.raw select id from range(10, 20)")
    lost = project.run("build", expect_ok=False)
    assert "lease of the warehouse was taken over" in f"{lost.exception}{lost.log}"
    assert project.column("select version from dw.meta_version") == [1]


EXPOSURES = """
    version: 2
    exposures:
      - {name: of_rows, type: application, owner: {name: a, email: a@b.c},
         depends_on: [ref('rows')], meta: {publish: {target: shop, key: [id]}}}
      - {name: of_latest, type: application, owner: {name: a, email: a@b.c},
         depends_on: [ref('latest')], meta: {publish: {target: shop}}}
"""


class SlowStore:
    """A store without a lock, behind whose first part another run takes the lease over."""

    together = False

    def __init__(self, project: DbtProject) -> None:
        self.project = project
        self.tables: list[str] = []

    def held(self, tables: Sequence[str]) -> dict[str, StoreState]:
        return {}

    def take(self, parts: Sequence[TableUpdate]) -> list[UpdateResult]:
        (part,) = parts
        self.tables.append(part.publication.table)
        taken_over(self.project)
        return [UpdateResult(part, 0, 0)]

    def close(self) -> None:
        pass


def test_a_run_that_loses_its_lease_sends_no_further_table_to_a_store(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"models/_exposures.yml": EXPOSURES})
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    store = SlowStore(project)
    stores = SimpleNamespace(targets=lambda: {"shop": "slow"}, open_store=lambda *_: store)
    monkeypatch.setattr(Publications, "_stores", stores)
    lost = project.run("run-operation", "publish_to", "--args", "{target: shop}", expect_ok=False)
    assert "lease of the warehouse was taken over" in f"{lost.exception}{lost.log}"
    assert store.tables == ["latest"]


@pytest.mark.parametrize(
    "command",
    [
        ("remove_orphans",),
        pytest.param(("compact",), marks=pytest.mark.soak),
        pytest.param(("expire_versions", "--args", "{keep: 1, days: 0}"), marks=pytest.mark.soak),
    ],
)
def test_an_operation_that_loses_its_lease_stops_before_the_next_table(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    for number in range(3):
        project.query(f"insert into dw.raw select id from range({number}, {number + 1})")
        project.run("build")
    files = left_behind(project)
    before = {
        name: project.column(f"select count(*) from dw.{name}.snapshots")
        for name in ("rows", "days", "latest__runs")
    }
    done: list[str] = []
    check = Place.check_delete

    def checked(self: Any, table: str) -> None:
        check(self, table)
        done.append(table)
        if len(done) == 1:
            taken_over(project)

    monkeypatch.setattr(Place, "check_delete", checked)
    failed = project.run("run-operation", *command, expect_ok=False)
    assert "was taken over by somebody on elsewhere" in f"{failed.exception}{failed.log}"
    assert len(done) == 1
    after_the_first = [file for file in files if f"{done[0].replace('.', '/')}/" not in str(file)]
    assert len(after_the_first) >= 2
    assert all(path.exists() for path in after_the_first)
    for name, count in before.items():
        assert project.column(f"select count(*) from dw.{name}.snapshots") == count, name


@pytest.mark.soak
def test_what_a_silent_run_wrote_stays_since_it_may_wake_up(
    project: DbtProject, lease: Callable[[str], Lease]
) -> None:
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    lease("first").take()
    held_by(project, host="'elsewhere'")
    silent_since(project, utc_now() - timedelta(minutes=10))
    files = left_behind(project)
    for file in files:
        os.utime(file, (0, 0)) if file == files[0] else None
    waits = Lease.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lease, "take", lambda self, **given: waits(self, wait=no_wait, **given))
        output = project.run("run-operation", "remove_orphans").log
    assert "only its heartbeat has stopped" in output
    assert [file.exists() for file in files] == [
        False,
        True,
        True,
    ]  # the first is of before its time
    project.run("run-operation", "remove_orphans")
    assert not any(file.exists() for file in files)
