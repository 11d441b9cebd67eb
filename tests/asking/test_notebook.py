"""`make notebook`: its first notebook runs on a published version; what it installs is locked."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JJavaError

from tests.support.dbt_project import REPO, DbtProject
from tools import notebook
from tools.__main__ import cli


@pytest.fixture(scope="module")
def project(with_schemas: DbtProject) -> DbtProject:
    project = with_schemas
    project.query(
        "create table dw.dws_trade__user_status_td using iceberg as select * from values "
        "('paid', 3L), ('paid', 2L), (null, 1L) as given(biz_status, order_count)"
    )
    project.query(
        "create view published.dws_trade__user_status_td as "
        "select * from dw.dws_trade__user_status_td"
    )
    return project


@pytest.fixture
def environment(project: DbtProject, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in project.env.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("DBT_PROFILES_DIR", str(project.profiles))


@pytest.mark.usefixtures("environment")
def test_the_cells_of_the_first_notebook_run_one_after_the_other(project: DbtProject) -> None:
    cells = json.loads(notebook.notebook_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", *["code"] * 3]
    assert len({cell["id"] for cell in cells}) == len(cells)
    names: dict[str, Any] = {}
    for cell in cells[1:]:
        exec(cell["source"], names)
    orders = names["orders"]
    assert list(orders["orders"]) == [5, 1]
    assert orders["biz_status"][0] == "paid" and orders["biz_status"].isna()[1]
    with pytest.raises(Py4JJavaError, match=r"(?i)readonly|Unknown failure"):
        names["spark"].sql("insert into dw.dws_trade__user_status_td values ('paid', 1)")
    assert len(project.query("select * from dw.dws_trade__user_status_td")) == 3


def test_all_that_is_installed_is_locked_and_agrees_with_the_projects_own_packages() -> None:
    command = notebook.install_command()
    assert {"--no-deps", "--require-hashes", "--only-binary"} <= set(command)
    assert command[-2:] == ["-r", notebook.LOCK]
    pins = re.compile(r"(?m)^([\w.-]+)==([^ ;\\]+)")
    lock = (REPO / notebook.LOCK).read_text(encoding="utf-8")
    for entry in re.split(r"(?m)^(?=[\w])", lock):
        assert not entry.strip() or "--hash=sha256:" in entry, entry
    own = dict(pins.findall((REPO / "requirements.lock").read_text(encoding="utf-8")))
    more = dict(pins.findall(lock))
    assert "jupyterlab" in more
    assert {name for name in own.keys() & more.keys() if own[name] != more[name]} == set()


@pytest.mark.usefixtures("environment")
def test_a_notebook_that_is_there_stays_and_options_reach_jupyterlab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess:
        started.append(command)
        assert options["cwd"] == tmp_path
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(notebook, "ROOT", tmp_path)
    monkeypatch.setattr(notebook.subprocess, "run", run)
    monkeypatch.setattr(notebook.importlib.util, "find_spec", lambda _: None)
    for _ in range(2):
        done = CliRunner().invoke(cli, ["notebook", "--no-browser"])
        assert done.exit_code == 0, done.output
        made = tmp_path / notebook.NOTEBOOK
        if len(started) == 2:
            assert made.read_text(encoding="utf-8") == notebook.notebook_text()
        else:
            assert made.read_text(encoding="utf-8") == "mine"
        made.write_text("mine", encoding="utf-8")
    install, start = started[:2]
    assert install == notebook.install_command()
    assert start[1:4] == ["-m", "jupyterlab", "--ServerApp.ip=127.0.0.1"]
    assert start[4:] == ["--no-browser", os.path.join("notebooks", "warehouse.ipynb")]


def test_without_a_warehouse_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook.subprocess, "run", lambda *_, **__: pytest.fail("installed"))
    done = CliRunner().invoke(
        cli, ["notebook"], env={"WAREHOUSE": str(tmp_path), "CATALOG": "sqlite"}
    )
    assert done.exit_code == 1
    assert "holds no warehouse: `make run` builds one" in done.output
