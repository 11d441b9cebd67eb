"""What runs that are gone have left behind, and what a run that only slept may still do."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session
from dbt.adapters.sparksession.versions import lease as lease_module
from dbt.adapters.sparksession.versions import orphans as orphans_module
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.lease import Lease
from dbt.adapters.sparksession.versions.orphans import Orphans
from dbt.adapters.sparksession.versions.processes import process_mark
from dbt.adapters.sparksession.versions.published_views import PublishedViews
from dbt.adapters.sparksession.versions.store import Version
from dbt.adapters.sparksession.versions.strays import may_have_strays
from dbt.adapters.sparksession.warehouse import Warehouse

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, left_behind, make_raw


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    project = make_project(FILES)
    make_raw(project)
    return project


def lease_of(project: DbtProject, run_id: str) -> Lease:
    credentials = project.credentials()
    return Lease(lambda: own_session(credentials).session, "dw.meta_lease", run_id)


def dies(project: DbtProject) -> None:
    """Let a run have died that held the lease: its process number is used again."""
    lease_of(project, "first").take()
    mark = str(process_mark(os.getppid())).rpartition("/")[0] + "/1"
    project.query(
        f"update dw.meta_lease set pid = {os.getppid()}, process = '{mark}', engine_pid = null"
    )


def test_files_that_a_catalog_keeps_to_itself_stay_and_the_run_passes(project: DbtProject) -> None:
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    for name in ("raw", "rows", "days", "latest__runs"):
        project.query(f"alter table dw.{name} set tblproperties ('gc.enabled' = 'false')")
    files = left_behind(project)
    dies(project)
    done = project.run("build")
    assert "took over the lease of a run that is gone" in done.log
    assert "dw.rows was left as it is: its catalog keeps all of its files to itself" in done.log
    done = project.run("run-operation", "remove_orphans")
    assert "dw.days was left as it is: its catalog keeps all of its files to itself" in done.log
    assert all(path.exists() for path in files)
    assert lease_of(project, "next").take() is None


def test_tidying_that_fails_neither_fails_a_run_nor_keeps_its_lease(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")

    def has_no_file_system(self: Any, table: str) -> int:
        raise RuntimeError('No FileSystem for scheme "s3"\n\tat org.apache.hadoop')

    monkeypatch.setattr(Orphans, "remove_from", has_no_file_system)
    left_behind(project)
    dies(project)
    done = project.run("build")
    reason = "nothing reads them: they couldn't be deleted (No FileSystem for scheme"
    assert reason in done.log
    assert "org.apache.hadoop" not in done.log
    assert lease_of(project, "next").take() is None


@pytest.mark.in_turn
def test_a_run_that_slept_after_a_model_had_begun_writes_it_no_more(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    project.query("insert into dw.raw select 10L")
    check, seconds, slept = HeldLease.check, lease_module._seconds, [0.0]

    def check_and_sleep(self: HeldLease) -> None:
        check(self)
        if self.lease is not None and not slept[0]:
            project.query(
                "update dw.meta_lease set generation = generation + 1, run_id = 'another', "
                "host = 'elsewhere', owner = 'somebody'"
            )
            slept[0] = 1000.0

    with monkeypatch.context() as patch:
        patch.setattr(lease_module, "_seconds", lambda: seconds() + slept[0])
        patch.setattr(HeldLease, "check", check_and_sleep)
        failed = project.run("run", "--select", "rows", expect_ok=False)
    assert "taken over by somebody on elsewhere" in f"{failed.exception}{failed.log}"
    assert "Traceback" not in failed.log
    assert project.column("select count(*) from dw.rows") == [10]


@pytest.mark.in_turn
@pytest.mark.parametrize("is_behind_the_look", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_version_is_refused_that_another_run_has_published_meanwhile(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch, is_behind_the_look: bool
) -> None:
    """A run that slept behind its last look at the lease wakes up."""
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    published: list[int] = []
    history = Warehouse.history

    def history_and_another_run(self: Any, table: str) -> Any:
        found = history(self, table)
        if table != "dw.meta_version" or published:
            return found
        published.append(2)
        project.query("insert into dw.meta_version (version) values (2)")
        return found if is_behind_the_look else history(self, table)

    project.query("insert into dw.raw select 10L")
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "history", history_and_another_run)
        lost = project.run("build", expect_ok=False)
    assert "Another run has published version 2 while" in f"{lost.exception}{lost.log}"
    assert project.column("select version from dw.meta_version order by version") == [1, 2]
    project.query("delete from dw.meta_version where version = 2")
    project.run("build")
    assert project.column("select n from published.total") == [11]


@pytest.mark.in_turn
@pytest.mark.parametrize("first", ["run", "build"])
def test_views_of_a_publication_that_stopped_halfway_are_written_by_whatever_comes_next(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A view whose columns have changed knows the version before alone until then."""
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    project.write({"models/total.sql": "select sum(n) as n, 1 as more from {{ ref('days') }}"})
    write_views = PublishedViews.write_views

    def stops(
        self: PublishedViews, version: Version, names: Any, before: Version | None = None
    ) -> None:
        if before is None:
            raise RuntimeError("it stops here")
        write_views(self, version, names, before)

    with monkeypatch.context() as patch:
        patch.setattr(PublishedViews, "write_views", stops)
        assert "it stops here" in str(project.run("build", expect_ok=False).exception)
    assert project.column("select max(version) from dw.meta_version") == [2]
    project.run(first, "--select", "rows")
    assert project.query("select * from published.total") == [{"n": 10, "more": 1}]


@pytest.mark.in_turn
def test_a_beat_of_the_lease_that_is_being_committed_is_no_stray(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beat behind the look at the lease's table, and before that at its files."""
    project.query("insert into dw.raw select id from range(10)")
    project.run("build")
    beats: list[Thread] = []
    held: list[Lease] = []
    take = Lease.take

    def take_and_note(self: Lease, *given: Any, **named: Any) -> Any:
        held.append(self)
        return take(self, *given, **named)

    def beat() -> None:  # as the lease's own thread does it
        with held[0]._lock:
            held[0]._beat()

    def look_behind_a_beat(session: Any, table: Any, *given: Any) -> bool:
        if str(table.name()).endswith(".dw.meta_lease"):
            beats.append(Thread(target=beat))
            beats[-1].start()
            beats[-1].join(3)
        return may_have_strays(session, table, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Lease, "take", take_and_note)
        patch.setattr(orphans_module, "may_have_strays", look_behind_a_beat)
        project.run("run-operation", "remove_orphans")
    assert len(beats) == 1
    beats[0].join()
    assert project.query("select run_id from dw.meta_lease") == [{"run_id": None}]
    project.run("build")
