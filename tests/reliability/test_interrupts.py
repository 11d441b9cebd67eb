"""Ctrl-C in the middle of a build: one sentence, no stack, and the next run needs no waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, make_raw

SLOW = """
    {{ config(materialized='table') }}
    select sum(id % 7) as n from range(1000000000000)
"""


def test_an_interrupted_build_says_it_in_one_sentence_and_lets_others_write(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> None:
    project = make_project(FILES | {"models/slow.sql": SLOW})
    make_raw(project)
    log = tmp_path / "log"
    with log.open("wb") as file:
        run = subprocess.Popen(
            project.command("build", "--select", "rows", "slow", "--threads", "2"),
            env={**os.environ, **project.env, "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # a test that a shell started in the background inherits that SIGINT is ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        until = time.monotonic() + 120
        while "START sql table model dw.slow" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(3)  # Spark works on it
        asked = time.monotonic()
        run.send_signal(signal.SIGINT)
        run.wait(60)
    finally:
        if run.poll() is None:
            run.kill()
    text = log.read_text()
    assert time.monotonic() - asked < 30, text
    assert run.returncode != 0
    assert text.count("Stopped by Ctrl-C: ") == 1, text
    assert "Traceback" not in text
    assert "AttributeError" not in text
    holder = project.query("select run_id from dw.meta_lease")
    assert holder == [{"run_id": None}], text
    project.run("run", "--exclude", "slow")
    assert project.query("show tables in dw like 'slow'") == []


def test_a_problem_at_a_runs_end_is_said_as_the_hooks_own(
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
