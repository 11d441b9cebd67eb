"""A declaration that was edited and put back counts as it stands in its file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.dbt_project import DbtProject

pytestmark = pytest.mark.in_turn

SOURCES = """
    sources:
      - name: src
        tables: [{name: x}]
"""
# of a name that no other test has: dbt would go by the time that another project's file had
OWN_PROJECT = "name: outdated\nversion: '1.0'\nconfig-version: 2\nprofile: binlog_warehouse\n"
COPIED = "select id from {{ source('src', 'x') }}"
FILE = "models/_sources.yml"
SENTENCE = f"{FILE}: dbt goes by another text of this file than it has now"


def edited_and_put_back(project: DbtProject, again: Callable[[], None]) -> None:
    """As by a copy of the file that keeps its time: cp -p, mv, rsync -a, tar."""
    path = project.root / FILE
    kept = path.with_suffix(".kept")
    shutil.copy2(path, kept)
    path.write_text(path.read_text().replace("name: x", "name: x, identifier: y"))
    again()
    os.replace(kept, path)


def test_a_run_refuses_a_file_that_dbt_did_not_read_again(
    make_project: Callable[..., DbtProject],
) -> None:
    files = {"dbt_project.yml": OWN_PROJECT, FILE: SOURCES, "models/copied.sql": COPIED}
    project = make_project(files)
    project.query("create namespace if not exists src")
    for name, number in (("x", 1), ("y", 2)):
        project.query(f"create table src.{name} using iceberg as select {number} as id")
    project.run("run", "--write-json")
    assert project.column("select id from dw.copied") == [1]
    edited_and_put_back(project, lambda: project.run("run", "--write-json"))
    assert project.column("select id from dw.copied") == [2]

    refused = project.run("run", "--write-json", expect_ok=False)

    assert SENTENCE in f"{refused.exception}{refused.log}"
    project.run("run", "--write-json")
    assert project.column("select id from dw.copied") == [1]


def test_dbt_parse_refuses_it_too(make_project: Callable[..., DbtProject], tmp_path: Path) -> None:
    project = make_project({FILE: SOURCES, "models/copied.sql": COPIED})
    env = {**os.environ, **project.env, "DBT_TARGET_PATH": str(tmp_path / "target")}

    def parse() -> subprocess.CompletedProcess[str]:
        command = [*project.command("parse"), "--write-json"]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert parse().returncode == 0
    edited_and_put_back(project, parse)

    refused = parse()

    assert refused.returncode != 0, refused.stdout
    assert SENTENCE in refused.stdout
    assert "Traceback" not in refused.stdout + refused.stderr
    assert parse().returncode == 0
