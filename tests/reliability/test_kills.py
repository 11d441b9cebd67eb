"""Runs that are killed: one rerun makes everything right, and no reader ever sees half of one.

A run is a process of its own, killed with SIGKILL at a named step or at a random moment, alone or
with its Java process. Meanwhile a reader asks the published views. The seed is printed; KILLS and
KILL_SEED set how many and which.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.killed_runs import Reader, is_right, kill, orphans, start, wait_for
from tests.support.small_warehouse import FILES, make_raw

STEPS = (
    "START sql incremental model dw.rows",
    "OK created sql incremental model dw.rows",
    "PASS unique_rows_id",
    "START sql folded model dw.latest",
    "OK created sql folded model dw.latest",
    "OK created sql view model dw.total",
    "Published as version",
)


@pytest.mark.in_turn
def test_one_rerun_is_the_recovery(make_project: Callable[..., DbtProject], tmp_path: Path) -> None:
    kills = int(os.environ.get("KILLS", "2"))
    seed = int(os.environ.get("KILL_SEED", "0")) or random.randrange(1, 10**6)
    print(f"\nKILL_SEED={seed} KILLS={kills}")
    chance = random.Random(seed)
    project = make_project(FILES)
    make_raw(project)
    end, log, tables_seen = 0, tmp_path / "run.log", 0

    def land(count: int) -> None:
        nonlocal end
        project.query(f"insert into dw.raw select id from range({end}, {end + count})")
        end += count

    land(12)
    project.run("build")
    reader = Reader(project)
    reader.start()
    steps = chance.sample(STEPS, len(STEPS)) * (kills // len(STEPS) + 1)
    for number in range(kills):
        published = end
        land(chance.randint(1, 15))
        run = start(project, log)
        step = steps[number] if number % 2 == 0 else "Concurrency"
        reached = wait_for(run, log, step)
        time.sleep(chance.random() * (0.3 if number % 2 == 0 else 8))
        with_java = chance.random() < 0.5
        kill(run, with_java)
        print(f"  {number}: killed {'with Java ' if with_java else ''}at {step!r} ({reached})")
        is_right_now = project.column("select sum(n) from published.days") in ([published], [end])
        assert is_right_now, (seed, number)
        project.run("build")
        is_right(project, end, "dw")
        is_right(project, end, "published")
        assert orphans(project) == set(), (seed, number)
        tables = project.query("show tables in dw")
        tables_seen = tables_seen or len(tables)
        assert len(tables) == tables_seen, (seed, number)
    reader.stop()
