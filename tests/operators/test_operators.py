"""Careless users: whatever they do and in whatever order, running again makes every table right.

A session of random steps (any command, flag, selection and var, edits that are taken back, files
that come and go, faults, backups) is played on a small log; then the edits are taken back, what
refusals ask for is done, and every table is compared with the plain answer.

OPERATOR_SESSIONS, OPERATOR_LENGTH  how many sessions, of how many steps
OPERATOR_SEED   the first session's seed; else one is drawn, but for the few of every test run
OPERATOR_STEPS  these steps instead, as a failure prints them; PLAYED_ALWAYS shows those by name
OPERATOR_SHRINK seconds in which fewer steps are looked for that go wrong as well
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.operators.edits import EDITS
from tests.operators.session import play, shrink, steps_of
from tests.operators.user import User, WentWrong

OTHER_FORMAT = "{shop_format: canal, topic_formats: {'*': canal}}"
# what a draw seldom brings together: each is taken as far as it goes, then gone back on
PLAYED_ALWAYS = {
    "flags that cut what is read, and vars that rows depend on": (
        *("land:1", "build:1", "land:2"),
        "dbt=run --full-refresh --vars {business_zone: Europe/Oslo, cut_time_max_ahead_hours: 0}",
        *("dbt=build --empty --full-refresh", "dbt=build --sample '3 days'"),
        "dbt=build --event-time-start 2018-03-01 --event-time-end 2018-03-09",
        *("save_state:1", "dbt=clone --state STATE", "correct:1", "build:1", "do_as_asked:1"),
        "dbt=run --full-refresh --vars {batches: [fix, live]}",
        *("land:3", "dbt=build --threads 16 --fail-fast", "do_as_asked:1"),
        "dbt=build --exclude order_newest+ --resource-type model --threads 1",
    ),
    "a declaration that states another table, key or format": (
        *("land:1", f"dbt=build --vars {OTHER_FORMAT}", "land:2", "build:1"),
        *("edit=no cut column", "dbt=run --full-refresh", "edit_back:1", "build:1"),
        *("edit=a table without a key", "do_as_asked:1", "edit_back:1", "land:3"),
        *(f"dbt=run --full-refresh --vars {OTHER_FORMAT}", "build:1", "do_as_asked:1"),
        *("edit=another table", "dbt=run --full-refresh", "edit_back:1", "build:1"),
        *("edit=another topic", "dbt=run --full-refresh -s ods_shop__order_info+"),
        "edit_back:1",
    ),
    "a catalog that is lost or old, a copy, a version gone back to": (
        *("land:1", "build:1", "land:2", "build:1", "operate=roll_back {version: 1}", "land:3"),
        *("lose_catalog:1", "build:1", "do_as_asked:1", "back_up:1", "land:4", "build:1"),
        *("lose_catalog:1", "build:1", "do_as_asked:1", "go_on_in_a_copy:1", "land:5"),
        "kill_a_run:1",
    ),
}


def _play_many(folder: Path, sessions: int, length: int, seed: int = 0) -> None:
    first = int(os.environ.get("OPERATOR_SEED", seed)) or random.SystemRandom().randrange(1, 10**6)
    sessions = int(os.environ.get("OPERATOR_SESSIONS", sessions))
    length = int(os.environ.get("OPERATOR_LENGTH", length))
    given = shlex.split(os.environ.get("OPERATOR_STEPS", ""))
    print(f"\nOPERATOR_SEED={first} OPERATOR_SESSIONS={sessions} OPERATOR_LENGTH={length}")
    # Spark keeps its files in the folder of the project that started it: that project has to stay
    User(folder / "stays", first).project.credentials()
    wrong: list[str] = []
    for number in range(1 if given else sessions):
        seed, begun = first + number, time.monotonic()
        steps = given or steps_of(seed, length)
        place = folder / f"session_{seed}"
        try:
            user, rows = play(place, seed, steps, fresh=number % 5 == 0)
        except WentWrong as exc:
            wrong.append(str(exc))
            print(f"seed {seed} went wrong: {exc}", flush=True)
            if seconds := float(os.environ.get("OPERATOR_SHRINK", "0")):
                fewest = shrink(folder / f"shrink_{seed}", seed, steps, seconds)
                print(
                    f"OPERATOR_SEED={seed} OPERATOR_STEPS={shlex.quote(shlex.join(fewest))}",
                    flush=True,
                )
        else:
            took = time.monotonic() - begun
            kinds = Counter(re.split("[:=]", step)[0] for step in steps)
            print(
                f"seed {seed}: {len(steps)} steps in {took:.0f} s, {rows} rows compared, 0 differ; "
                f"{sum(': refused' in item for item in user.reported)} refusals; {dict(kinds)}",
                flush=True,
            )
        shutil.rmtree(place, ignore_errors=True)
    assert not wrong, "\n\n".join(wrong)


def test_each_edit_finds_what_it_edits_and_is_taken_back(tmp_path: Path) -> None:
    user = User(tmp_path, seed=1)
    before = {path: path.read_bytes() for path in _files(user)}
    for name, edit in EDITS.items():
        files = edit(user, random.Random(1))
        for file, text in files.items():
            user.edit(file, text)
        assert {path: path.read_bytes() for path in _files(user)} != before, name

        for file in files:
            user.undo(file)
        assert {path: path.read_bytes() for path in _files(user)} == before, name


def _files(user: User) -> list[Path]:
    return [path for path in user.project.root.rglob("*") if path.is_file()]


@pytest.mark.in_turn
def test_whatever_a_careless_user_does_running_again_makes_it_right(tmp_path: Path) -> None:
    _play_many(tmp_path, sessions=1, length=8, seed=27)


@pytest.mark.soak
def test_three_hundred_careless_users(tmp_path: Path) -> None:
    _play_many(tmp_path, sessions=300, length=50)


@pytest.mark.soak
@pytest.mark.parametrize("steps", PLAYED_ALWAYS.values(), ids=PLAYED_ALWAYS)
def test_what_is_seldom_drawn(tmp_path: Path, steps: tuple[str, ...]) -> None:
    # of this seed the project has a model in batches
    _, rows = play(tmp_path, 2702, list(steps), fresh=True)
    print(f"{len(steps)} steps, {rows} rows compared, 0 differ")
