"""Small changes of macros and engine, chosen by a seed: tests must catch each of them.

MUTANTS       how many (default 300)
MUTANT_SEED   chooses them; else a seed is drawn
MUTANT_FIRST  number of the first of them that is played, from 1: to go on with a seed
MUTANT_FILES  patterns of paths that they are chosen from, such as `macros/joins/*`
MUTANT_LOG    file that a line for each mutant is added to
MUTANT_KEPT   folder that keeps which tests reach what, for the next time
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.mutants.nearest import NEAREST, nearest_tests
from tests.mutants.play import Player
from tests.mutants.reach import ELSEWHERE, Reached, places_of, reaching
from tests.mutants.sites import Site, sites
from tests.support.dbt_project import REPO
from tests.support.project_copy import copy_of_project, environment_of

CODE = ("macros/**/*.sql", "python_udfs/**/*.sql", "python_udfs/**/*.py")
EQUIVALENT = yaml.safe_load((Path(__file__).parent / "equivalent.yml").read_text(encoding="utf-8"))


def files() -> list[str]:
    found = {path for pattern in CODE for path in REPO.glob(pattern) if path.is_file()}
    return sorted(str(path.relative_to(REPO)) for path in found if "egg-info" not in str(path))


def some_sites(seed: int, count: int, pattern: str) -> list[Site]:
    """Sites of all kinds and files, each kind as often as the others where it has enough."""
    rng = random.Random(seed)
    by_kind: dict[str, list[Site]] = {}
    for file in files():
        if any(fnmatch(file, some) for some in pattern.split()):
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


@pytest.mark.soak
def test_every_mutant_is_caught(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seed = int(os.environ.get("MUTANT_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    count, pattern = int(os.environ.get("MUTANTS", "300")), os.environ.get("MUTANT_FILES", "*")
    log = os.environ.get("MUTANT_LOG")
    print(f"\nMUTANT_SEED={seed} MUTANTS={count} MUTANT_FILES='{pattern}'")
    survivors = []
    kept = os.environ.get("MUTANT_KEPT")
    player = Player(tmp_path, Path(kept) if kept else None)
    request.addfinalizer(player.close)
    first = int(os.environ.get("MUTANT_FIRST", "1"))
    for number, site in enumerate(some_sites(seed, count, pattern)[first - 1 :], first):
        begin = time.monotonic()
        if str(site) in EQUIVALENT:
            result = "changes nothing: " + EQUIVALENT[str(site)]
        else:
            failed, asked = player.caught_by(site)
            result = f"caught: {failed}"
            if failed is None:
                result = f"SURVIVED {asked} tests that reach it"
                survivors.append(str(site))
        line = f"{number} {site}\n    {time.monotonic() - begin:.0f} s, {result}"
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
        ("macros/joins/temporal_join.sql", "<=>", "<=> max({{ values_read }}) over"),
        (
            "macros/joins/repaired_join.sql",
            "<=>",
            "held.{{ held_column }} <=> touched.{{ touched_column }}",
        ),
        ("macros/changelog/retract_rows.sql", "<=>", "<=> {{ from_cte }}.{{ column }}"),
        ("macros/joins/temporal_join.sql", "<", "count_if(sign < 0) over"),
        ("macros/windows/session.sql", "<=", "held.window_start <= touched.last_at"),
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


def test_a_mutant_meets_the_tests_that_reach_its_line() -> None:
    file = "python_udfs/sparksession_adapter/dbt/adapters/sparksession/declared/windows.py"
    (site,) = (
        site
        for site in sites(REPO, file)
        if site.right == "<=" and site.line.startswith("each = (f")
    )
    places = places_of(REPO, site)
    assert places is not None
    (place,) = places
    line = (REPO / file).read_text(encoding="utf-8").splitlines()[int(place.split(":")[1]) - 1]
    assert line.strip() == site.line
    passing = Reached("test_a", 1.0, frozenset({place}))
    beside = Reached("test_b", 0.1, frozenset({f"{file}:1"}))
    in_a_process = Reached("test_c", 0.2, frozenset({ELSEWHERE}))
    assert reaching([beside, in_a_process, passing], places) == ["test_c", "test_a"]
    macro = next(
        site
        for site in sites(REPO, "macros/windows/session.sql")
        if site.line.startswith("left anti join")
    )
    assert places_of(REPO, macro) == {"session.sql#_keys_of_lost_neighbours"}
    assert reaching([beside, passing], None) == ["test_b", "test_a"]  # a constant of a module
