"""Fixtures of all tests."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable

import pytest

from tests.support.dbt_project import REPO, DbtProject

PROJECT_FILE = """
name: small
version: "1.0"
config-version: 2
profile: binlog_warehouse
"""


@pytest.fixture(scope="session")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., DbtProject]:
    """Maker of small dbt projects, each with a warehouse of its own.

    make_project({"models/a.sql": "select 1 as id"}) has the repository's profile and its macros
    for pinned inputs. All projects share the process's one Spark.
    """
    numbers = itertools.count(1)

    def make(files: dict[str, str], **env: str) -> DbtProject:
        root = tmp_path_factory.mktemp(f"project{next(numbers)}", numbered=False)
        for folder in ("macros/versions", "macros/incremental"):
            shutil.copytree(REPO / folder, root / folder)
        shutil.copytree(REPO / "profiles", root / "profiles")
        project = DbtProject(root, root / "warehouse", profiles=root / "profiles", **env)
        project.write({"dbt_project.yml": PROJECT_FILE} | files)
        return project

    return make
