"""A copy of the project in which a test may change the code."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.dbt_project import REPO
from tools.ci_diff import OWN_FOLDERS


def copy_of_project(folder: Path) -> Path:
    """The project's own files, with what setup brought linked."""
    left_out = shutil.ignore_patterns(
        ".git", ".venv", ".jars", "target", "logs", "warehouse", "__pycache__", "*.egg-info"
    )
    root = folder / "project"
    shutil.copytree(REPO, root, ignore=left_out)
    for name in (".venv", ".jars"):
        (root / name).symlink_to(REPO / name)
    return root


def environment_of(root: Path) -> dict[str, str]:
    """Variables with which a copy's own adapter is imported: the installed one is another. dbt
    writes into the copy's own folders."""
    adapter = str(root / "python_udfs" / "sparksession_adapter")
    around = {name: value for name, value in os.environ.items() if name not in OWN_FOLDERS}
    return around | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": adapter}


def run_in_copy(root: Path, *words: str) -> str:
    """What a command prints in a copy of the project.

    Raises:
        AssertionError: it failed.
    """
    done = subprocess.run(
        words,
        cwd=root,
        env=environment_of(root) | {"DBT_PROFILES_DIR": "profiles"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}"
    return done.stdout
