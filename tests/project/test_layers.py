"""`make lint` refuses an import that goes against the layers of pyproject.toml."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO

ADAPTER = "python_udfs/sparksession_adapter/dbt/adapters/sparksession"
# file -> what is added to it, and what the refusal names
WRONG = {
    "a room imports one above it": (
        f"{ADAPTER}/iceberg/history.py",
        "from dbt.adapters.sparksession.versions.lease import Lease",
        "sparksession.iceberg.history -> dbt.adapters.sparksession.versions.lease",
    ),
    "a room imports the adapter itself, in a function": (
        f"{ADAPTER}/reading/ranges.py",
        "def late():\n    from dbt.adapters.sparksession.connections import Handle",
        "sparksession.reading.ranges -> dbt.adapters.sparksession.connections",
    ),
    "the adapter imports the project": (
        f"{ADAPTER}/versions/publications.py",
        "import python_udfs.targets",
        "sparksession.versions.publications -> python_udfs.targets",
    ),
    "the project imports its tests": (
        "python_udfs/servers/jdbc.py",
        "from tests.support import oracle",
        "python_udfs.servers.jdbc -> tests.support.oracle",
    ),
    "a format imports the registry of formats, in a function": (
        "python_udfs/ingestion/formats/canal.py",
        "def late():\n    from python_udfs.ingestion.formats.registry import FORMATS",
        "ingestion.formats.canal -> python_udfs.ingestion.formats.registry",
    ),
    "landing imports typed rows, for their types alone": (
        "python_udfs/ingestion/landing/files.py",
        "if TYPE_CHECKING:\n    from python_udfs.ingestion.typed.rows import typed_rows",
        "ingestion.landing.files -> python_udfs.ingestion.typed.rows",
    ),
    "ingestion imports a target": (
        "python_udfs/ingestion/binlog_messages.py",
        "import python_udfs.targets",
        "ingestion.binlog_messages -> python_udfs.targets",
    ),
    "a target imports ingestion": (
        "python_udfs/targets/kafka.py",
        "from python_udfs.ingestion.landing.files import LIVE",
        "python_udfs.targets.kafka -> python_udfs.ingestion.landing.files",
    ),
    "a module of ingestion stands in no room": (
        "python_udfs/ingestion/stray.py",
        '"""Belongs nowhere."""',
        "python_udfs.ingestion.stray",
    ),
    "a module stands in no layer": (
        f"{ADAPTER}/stray.py",
        '"""Belongs nowhere."""',
        "sparksession.stray",
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's Python, in a folder of its own."""
    root = tmp_path_factory.mktemp("layers")
    for name in ("python_udfs", "tools", "benchmarks", "tests"):
        for path in (REPO / name).rglob("*.py"):
            target = root / path.relative_to(REPO)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    shutil.copy(REPO / "pyproject.toml", root)
    return root


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools", "layers"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def refusals(copy: Path) -> str:
    """What is reported of the code, which is right, with all that is wrong added to it."""
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout
    for file, added, _ in WRONG.values():
        with (copy / file).open("a", encoding="utf-8") as text:
            text.write(f"\n{added}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_import_is_refused(refusals: str, wrong: str) -> None:
    _, _, named = WRONG[wrong]
    assert named in refusals


def test_right_imports_are_not_refused(refusals: str) -> None:
    """Each wrong import is a line of the report, and nothing else is."""
    assert refusals.count(" (l.") == sum(" -> " in named for _, _, named in WRONG.values())


def test_make_lint_looks_at_the_layers() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\nlint:")[2].partition("\n\n")[0]
    assert "-m tools layers" in recipe
