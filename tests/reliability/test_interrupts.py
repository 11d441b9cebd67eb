"""Ctrl-C in the middle of a build: one sentence, no stack, and the next run needs no waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.store import Version

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, make_raw

SLOW = """
    {{ config(materialized='table') }}
    select sum(id % 7) as n from range(1000000000000)
"""


SLOW_PYTHON = """
    def model(dbt, session):
        dbt.config(materialized="table")
        rows = session.range(1000000000000).selectExpr("sum(id % 7) as n")
        return session.createDataFrame(rows.collect(), rows.schema)
"""
SLOW_TEST = "select id from range(1000000000000) where id % 7 < 0"


@dataclass(frozen=True)
class Stopped:
    """A build that is stopped in the middle.

    Attributes:
        files: what is slow of it.
        began: dbt's line once that has begun.
        times: how often the signal comes, a second apart.
    """

    files: dict[str, str]
    began: str
    threads: int = 2
    times: int = 1
    signal: signal.Signals = signal.SIGINT


IN_A_TABLE = Stopped({"models/slow.sql": SLOW}, "START sql table model dw.slow")
IN_PYTHON = Stopped({"models/slow.py": SLOW_PYTHON}, "START python table model dw.slow")
IN_A_TEST = Stopped({"tests/slow.sql": SLOW_TEST}, "START test slow")


@pytest.mark.parametrize(
    "stopped",
    [
        pytest.param(IN_A_TABLE, id="a_table"),
        pytest.param(IN_PYTHON, id="a_python_model", marks=pytest.mark.in_turn),
        pytest.param(
            replace(IN_A_TABLE, times=2, signal=signal.SIGTERM),
            id="sigterm_twice",
            marks=pytest.mark.in_turn,
        ),
        pytest.param(replace(IN_A_TABLE, times=2), id="twice", marks=pytest.mark.soak),
        pytest.param(replace(IN_A_TABLE, threads=1), id="one_thread", marks=pytest.mark.soak),
        pytest.param(IN_A_TEST, id="a_test", marks=pytest.mark.soak),
    ],
)
def test_an_interrupted_build_reports_it_in_one_sentence_and_lets_others_write(
    make_project: Callable[..., DbtProject], tmp_path: Path, stopped: Stopped
) -> None:
    project = make_project(FILES | stopped.files)
    make_raw(project)
    log, threads = tmp_path / "log", str(stopped.threads)
    with log.open("wb") as file:
        run = subprocess.Popen(
            project.command("build", "--select", "rows", "slow", "--threads", threads),
            env={**os.environ, **project.env, "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # a test that a shell started in the background inherits that SIGINT is ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        until = time.monotonic() + 120
        while stopped.began not in log.read_text() and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(3)  # Spark works on it
        asked = time.monotonic()
        for number in range(stopped.times):
            time.sleep(min(number, 1))
            run.send_signal(stopped.signal)
        run.wait(60)
    finally:
        if run.poll() is None:
            run.kill()
    text = log.read_text()
    assert time.monotonic() - asked < 30, text
    assert run.returncode != 0
    name = "SIGTERM" if stopped.signal == signal.SIGTERM else "Ctrl-C"
    assert text.count(f"Stopped by {name}: ") == 1, text
    assert "Traceback" not in text, text
    assert "AttributeError" not in text
    holder = project.query("select run_id from dw.meta_lease")
    assert holder == [{"run_id": None}], text
    project.run("run", "--exclude", "slow")
    assert project.query("show tables in dw like 'slow'") == []


@pytest.mark.parametrize(
    "sent", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGTERM]
)
def test_a_version_is_published_whole_or_not_at_all_when_its_run_is_stopped(
    make_project: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    project = make_project(FILES)
    make_raw(project)
    project.query("insert into dw.raw select id from range(12)")
    project.run("build")
    project.query("insert into dw.raw select id from range(12, 20)")
    (project.root / "models" / "total.sql").unlink()
    append = Versions._append

    def stopped_then_append(self: Versions, version: Version, table: str) -> None:
        os.kill(os.getpid(), sent)
        append(self, version, table)

    monkeypatch.setattr(Versions, "_append", stopped_then_append)
    stopped = project.run("build", expect_ok=False)
    monkeypatch.undo()

    name = "SIGTERM" if sent == signal.SIGTERM else "Ctrl-C"
    sentence = f"{stopped.exception}"
    assert f"Stopped by {name}: what was running was cancelled" in sentence
    assert "version 2 was published; the next run goes on from here" in sentence
    assert "Traceback" not in stopped.log
    assert project.column("select version from dw.meta_version order by version") == [1, 2]
    assert project.column("select max(id) from published.rows") == [19]
    assert project.query("show views in published like 'total'") == []
    assert project.query("select run_id from dw.meta_lease") == [{"run_id": None}]
    assert "Published as" not in project.run("build").log


def test_a_problem_at_a_runs_end_is_reported_as_the_hooks_own(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    settings = FILES["dbt_project.yml"].replace("end_run(results)", "end_run(results, 'Too bad.')")
    project.write({"dbt_project.yml": settings})
    make_raw(project)
    outcome = project.run("run", "--select", "rows", expect_ok=False)
    assert "Too bad." in outcome.log
    assert "keyboard interrupt" not in outcome.log
    assert project.query("select run_id from dw.meta_lease") == [{"run_id": None}]
