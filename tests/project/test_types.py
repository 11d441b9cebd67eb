"""`make lint` refuses a wrong type in the adapter, in python_udfs and in tools."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO

pytestmark = pytest.mark.in_turn

TYPED = ("python_udfs", "tools")
ROOMS = "python_udfs/sparksession_adapter/dbt/adapters/sparksession"
# what is wrong -> file, what is added to it, and what the refusal states
WRONG = {
    "a service is asked for what it doesn't have": (
        f"{ROOMS}/versions/held_lease.py",
        "def late(lease: HeldLease) -> None:\n    lease.publish()",
        'HeldLease" has no attribute "publish"',
    ),
    "a service is given another service": (
        f"{ROOMS}/reading/commits.py",
        "def late(warehouse: Warehouse) -> Commits:\n    return Commits(warehouse, warehouse, 1)",
        'Argument 2 to "Commits" has incompatible type "Warehouse"',
    ),
    "what may be missing is used": (
        f"{ROOMS}/iceberg/history.py",
        "def late(history: History) -> int:\n    return history.newest.id",
        'of "Snapshot | None" has no attribute "id"',
    ),
    "ingestion takes what may be missing": (
        "python_udfs/ingestion/landing/files.py",
        "def late(reason: str | None) -> bool:\n    return reason.startswith(LONG_LINE)",
        'of "str | None" has no attribute "startswith"',
    ),
    "a target returns another type": (
        "python_udfs/targets/row_counts.py",
        "def late(files: Sequence[Path]) -> str:\n    return rows_in(files)",
        'got "int", expected "str"',
    ),
    "a tool calls what isn't there": (
        "tools/layers.py",
        "def late() -> Path:\n    return ROOT.absolut()",
        'has no attribute "absolut"',
    ),
    "a function states no types": (
        f"{ROOMS}/sql.py",
        "def late(value):\n    return value",
        "Function is missing a type annotation",
    ),
}


def types_of(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--no-color-output"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The typed code, in a folder of its own; mypy keeps there what it found."""
    root = tmp_path_factory.mktemp("types")
    for path in (path for folder in TYPED for path in (REPO / folder).rglob("*.py")):
        target = root / path.relative_to(REPO)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copy(REPO / "pyproject.toml", root)
    found_by_lint = REPO / ".mypy_cache"
    if found_by_lint.is_dir():  # mypy takes of it what holds of the same text
        shutil.copytree(found_by_lint, root / ".mypy_cache")
    return root


@pytest.fixture(scope="module")
def refusals(copy: Path) -> list[str]:
    """What is reported of the code, which is right, with all that is wrong added to it."""
    done = types_of(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no issues found" in done.stdout
    for file, added, _ in WRONG.values():
        with (copy / file).open("a", encoding="utf-8") as text:
            text.write(f"\n\n{added}\n")
    done = types_of(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_type_is_refused(refusals: list[str], wrong: str) -> None:
    file, _, named = WRONG[wrong]
    assert any(line.startswith(f"{file}:") and named in line for line in refusals)


def test_right_types_are_not_refused(refusals: list[str]) -> None:
    assert {line.split(":")[0] for line in refusals} == {file for file, _, _ in WRONG.values()}


def test_make_lint_looks_at_the_types() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\nlint:")[2].partition("\n\n")[0]
    assert "mypy" in recipe
