"""When the models are compiled again for the lineage, and when the manifest still stands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO
from tools.lineage.compiled import FOLDER, MANIFEST, MARK, Compiling, mark_of_project

PROJECT = "name: small\nmodel-paths: [models]\nmacro-paths: [macros]\nprofile: small\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "dbt_project.yml": PROJECT,
        "models/a.sql": "select {{ env_var('LIMIT', '1') }} as n",
        "models/notes.txt": "no part of it",
        "macros/m.sql": "{% macro m() %}{% endmacro %}",
        "profiles/profiles.yml": "small: {}",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_whatever_changes_the_compiled_models_changes_the_mark(project: Path) -> None:
    marks = [mark_of_project(project, {})]
    for environment in ({"LIMIT": "2"}, {"LIMIT": "3"}, {"DBT_ENV": "x"}):
        marks.append(mark_of_project(project, environment))
    for name, text in {
        "models/a.sql": "select 2 as n, {{ env_var('LIMIT', '1') }} as m",
        "models/b.sql": "select 1",
        "macros/m.sql": "",
        "dbt_project.yml": PROJECT + "vars: {a: 1}\n",
        "profiles/profiles.yml": "small: {target: dev}",
    }.items():
        (project / name).write_text(text, encoding="utf-8")
        marks.append(mark_of_project(project, {}))
    (project / "models" / "b.sql").rename(project / "models" / "c.sql")
    marks.append(mark_of_project(project, {}))
    assert len({*marks}) == len(marks)
    # of no consequence
    (project / "models" / "notes.txt").write_text("changed", encoding="utf-8")
    assert mark_of_project(project, {"HOME": "x", "DBT_TARGET_PATH": "y"}) == marks[-1]


@pytest.mark.process
def test_a_manifest_of_the_project_as_it_stands_is_not_made_again(project: Path) -> None:
    folder = project / "target" / FOLDER
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text("{}", encoding="utf-8")
    # not marked: it is compiled, which this project can't be
    with pytest.raises(RuntimeError, match="dbt can't compile the project"):
        Compiling(project, project / "target").manifest()
    assert not (folder / MARK).exists()
    (folder / MARK).write_text("of an earlier state", encoding="utf-8")
    with pytest.raises(RuntimeError):
        Compiling(project, project / "target").manifest()
    assert not (folder / MARK).exists()
    (folder / MARK).write_text(mark_of_project(project, os.environ), encoding="utf-8")
    assert Compiling(project, project / "target").manifest() == folder / MANIFEST


@pytest.mark.process
@pytest.mark.parametrize("target", ["local", "cluster"])
def test_what_the_last_command_has_parsed_is_not_parsed_again(
    project: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_TARGET", target)
    monkeypatch.setenv("DBT_PROFILES_DIR", "profiles")
    shutil.copy(REPO / "profiles" / "profiles.yml", project / "profiles")
    settings = PROJECT.replace("profile: small", "profile: binlog_warehouse")
    (project / "dbt_project.yml").write_text(settings, encoding="utf-8")
    dbt = str(Path(sys.executable).parent / "dbt")
    subprocess.run([dbt, "--quiet", "parse"], cwd=project, check=True)

    manifest = Compiling(project, project / "target").manifest()

    nodes = json.loads(manifest.read_text(encoding="utf-8"))["nodes"]
    assert nodes["model.small.a"]["compiled_code"] == "select 1 as n"
    log = (project / "target" / FOLDER / "dbt.log").read_text(encoding="utf-8")
    assert "no changes found, skipping parsing" in log
