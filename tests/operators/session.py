"""A session: some steps, then all is put right, then each table is compared."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path
from random import Random

from tests.operators.steps import moved_clock, some_steps, take
from tests.operators.user import User, WentWrong
from tests.support.dbt_project import DbtProject


def play(folder: Path, seed: int, steps: list[str], fresh: bool = False) -> tuple[User, int]:
    """Play a session; the user and how many rows were compared.

    Args:
        steps: see steps.some_steps.
        fresh: whether a new warehouse is built of the same log, too, and compared.

    Raises:
        WentWrong: with what was done.
    """
    user = User(folder, seed)
    random = Random(seed)
    verbose = bool(os.environ.get("OPERATOR_VERBOSE"))
    shown = 0

    def show() -> None:
        nonlocal shown
        if verbose:
            print("\n".join(user.reported[shown:]), flush=True)
        shown = len(user.reported)

    with moved_clock(user):
        number = 0
        try:
            for number, step in enumerate(steps, 1):
                user.reported.append(f"[{number}] {step}")
                begun = time.monotonic()
                take(user, step)
                if verbose:
                    user.reported.append(f"    {time.monotonic() - begun:.1f} s")
                show()
            user.reported.append("[end]")
            user.put_right(random)
            rows = user.compare()
            rows += user.compare("published")
            if fresh:
                _compare_fresh(user)
        except Exception as exc:
            done = shlex.quote(shlex.join(steps[:number]))
            reported = "\n".join(user.reported)
            raise WentWrong(
                f"{exc}\n\nOPERATOR_SEED={seed} OPERATOR_STEPS={done}\n\n{reported}"
            ) from exc
        finally:
            show()
    return user, rows


def _compare_fresh(user: User) -> None:
    """The same project and log in a new warehouse come to the same."""
    played = user.project
    user.project = DbtProject(
        played.root, user.folder / "fresh" / "warehouse", played.profiles, landing=user.landing
    )
    # what can't be read is refused again, once for the whole log
    user.dbt("build", vars={"reject_threshold": 1})
    user.compare()
    user.project = played


def shrink(folder: Path, seed: int, steps: list[str], seconds: float) -> list[str]:
    """Fewer of the steps that still go wrong, as far as the time reaches."""
    end, tries = time.monotonic() + seconds, 0
    size = max(1, len(steps) // 2)
    while time.monotonic() < end:
        place, shorter = 0, False
        while place < len(steps) and time.monotonic() < end:
            fewer = steps[:place] + steps[place + size :]
            tries += 1
            if fewer and goes_wrong(folder / f"try{tries}", seed, fewer):
                steps, shorter = fewer, True
                print(f"  {len(steps)} steps: {' '.join(steps)}", flush=True)
            else:
                place += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return steps


def goes_wrong(folder: Path, seed: int, steps: list[str]) -> bool:
    try:
        play(folder, seed, steps)
    except WentWrong:
        return True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return False


def steps_of(seed: int, count: int) -> list[str]:
    return some_steps(Random(seed), count)
