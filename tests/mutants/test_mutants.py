"""Small changes of macros and engine, chosen by a seed: tests must catch each of them.

MUTANTS       how many (default 300)
MUTANT_SEED   chooses them; else a seed is drawn
MUTANT_FILES  pattern of paths that they are chosen from, such as `macros/joins/*`
MUTANT_LOG    file that a line for each mutant is added to
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.mutants.nearest import NEAREST, nearest_tests
from tests.mutants.sites import Site, sites
from tests.support.dbt_project import REPO
from tests.support.project_copy import copy_of_project, environment_of

CODE = ("macros/**/*.sql", "python_udfs/**/*.sql", "python_udfs/**/*.py")
EQUIVALENT = yaml.safe_load((Path(__file__).parent / "equivalent.yml").read_text(encoding="utf-8"))
SEED = "26"  # of tests that play at random: a mutant is caught in every run, or in none
SECONDS = 900  # after which a mutant that makes its tests hang counts as caught


def files() -> list[str]:
    found = {path for pattern in CODE for path in REPO.glob(pattern) if path.is_file()}
    return sorted(str(path.relative_to(REPO)) for path in found if "egg-info" not in str(path))


def some_sites(seed: int, count: int, pattern: str) -> list[Site]:
    """Sites of all kinds and files, each kind as often as the others where it has enough."""
    rng = random.Random(seed)
    by_kind: dict[str, list[Site]] = {}
    for file in files():
        if fnmatch(file, pattern):
            for site in sites(REPO, file):
                by_kind.setdefault(site.kind, []).append(site)
    for found in by_kind.values():
        rng.shuffle(found)
    chosen: list[Site] = []
    while by_kind and len(chosen) < count:
        for kind in sorted(by_kind):
            site = by_kind[kind].pop()
            if site.can_be_read(REPO):
                chosen.append(site)
            if not by_kind[kind]:
                del by_kind[kind]
    return chosen[:count]


def mutated_project(folder: Path, site: Site) -> Path:
    """A copy of the project with the change in it."""
    root = copy_of_project(folder)
    site.put_into(root)
    return root


def caught_by(folder: Path, site: Site) -> str | None:
    """The first test that fails with the change in the code, else None."""
    root = mutated_project(folder, site)
    seeds = (
        "JOIN_SEED",
        "WINDOW_SEED",
        "STREAM_SEED",
        "BELIEFS_SEED",
        "FILTER_SEED",
        "MODELS_SEED",
        "KILL_SEED",
    )
    env = environment_of(root) | dict.fromkeys(seeds, SEED)
    for test in nearest_tests(site.file):
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
        try:
            done = subprocess.run(
                command, cwd=root, env=env, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return f"{test}: still running after {SECONDS} s"
        if done.returncode not in (0, 5):  # 5: none of its tests runs here
            lines = [
                line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
            ]
            return lines[0] if lines else f"{test}: {(done.stdout + done.stderr)[-300:]}"
    return None


@pytest.mark.soak
def test_every_mutant_is_caught(tmp_path: Path) -> None:
    seed = int(os.environ.get("MUTANT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    count, pattern = int(os.environ.get("MUTANTS", "300")), os.environ.get("MUTANT_FILES", "*")
    log = os.environ.get("MUTANT_LOG")
    print(f"\nMUTANT_SEED={seed} MUTANTS={count} MUTANT_FILES='{pattern}'")
    survivors = []
    for number, site in enumerate(some_sites(seed, count, pattern)):
        if str(site) in EQUIVALENT:
            result = "changes nothing: " + EQUIVALENT[str(site)]
        else:
            folder = tmp_path / str(number)
            failed = caught_by(folder, site)
            shutil.rmtree(folder)
            result = f"caught: {failed}" if failed is not None else "SURVIVED"
            if failed is None:
                survivors.append(str(site))
        line = f"{number + 1} {site}\n    {result}"
        print(line, flush=True)
        if log:
            with open(log, "a", encoding="utf-8") as file:
                file.write(line + "\n")
    assert not survivors, "\n".join(survivors)


def test_a_mutants_own_adapter_is_imported(tmp_path: Path) -> None:
    site = next(
        site
        for file in files()
        if file.endswith("/lease.py")
        for site in sites(REPO, file)
        if site.kind == "comparison"
    )
    root = mutated_project(tmp_path, site)
    code = "import dbt.adapters.sparksession as adapter; print(adapter.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env=environment_of(root),
        capture_output=True,
        text=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(root), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "right", "line"),
    [
        ("macros/joins/repaired_join.sql", "<=>", "<=> max({{ values_read }}) over"),
        (
            "macros/joins/repaired_join.sql",
            "<=>",
            "held.{{ held_column }} <=> touched.{{ touched_column }}",
        ),
        ("macros/changelog/retract_rows.sql", "<=>", "<=> {{ from_cte }}.{{ column }}"),
        ("macros/joins/repaired_join.sql", "<", "count_if(sign < 0) over"),
        ("macros/windows/session.sql", "<=", "held.window_start <= touched.window__at"),
    ],
)
def test_operators_of_macros_are_found(file: str, right: str, line: str) -> None:
    assert any(site.right == right and line in site.line for site in sites(REPO, file))


def test_each_file_has_tests_and_each_mutant_differs() -> None:
    known = files()
    for file in known:
        for test in nearest_tests(file):
            assert (REPO / test).exists(), f"{file}: {test}"
    for pattern, _ in NEAREST:
        assert any(fnmatch(file, pattern) for file in known) or "/" in pattern, pattern
    chosen = some_sites(seed=1, count=40, pattern="*")
    assert len({str(item) for item in chosen}) == 40
    assert len({item.kind for item in chosen}) >= 14
    assert all(item.right != item.wrong for item in chosen)
