"""`make ci-diff` of a pull request: it builds what was changed, and prints the rows that differ."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.dbt_project import REPO
from tests.support.project_copy import copy_of_project, environment_of
from tests.support.warehouse import Warehouse, sample_days

CHANGED = "models/dws/trade/dws_trade__user_status_1d.sql"
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def committed(root: Path) -> None:
    linked = (":!.venv", ":!.jars")
    adding = ("add", "--all", "--", ".", *linked)
    for command in (("init", "--quiet"), adding, ("commit", "--quiet", "-m", "base")):
        subprocess.run(["git", *AUTHOR, *command], cwd=root, check=True)


@pytest.mark.soak
def test_a_changed_count_is_built_aside_and_its_rows_are_printed(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    for _, files in sample_days()[:2]:
        warehouse.land(*files)
    warehouse.build(data_tests=True)
    before = warehouse.rows("dws_trade__user_status_1d")
    root = copy_of_project(tmp_path)
    committed(root)
    sql = (root / CHANGED).read_text(encoding="utf-8")
    assert sql.count("        biz_status,\n") == 1
    changed = sql.replace("        biz_status,\n", "        upper(biz_status) as biz_status,\n")
    (root / CHANGED).write_text(changed, encoding="utf-8")
    environment = warehouse.env | {"BASE": "HEAD", "DBT_PROFILES_DIR": str(root / "profiles")}

    done = subprocess.run(
        [sys.executable, "-m", "tools", "ci-diff"],
        cwd=root,
        env=environment_of(root) | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    # the levels of the count, and the standing counts that are made of the days
    affected = {f"dws_trade__user_status_{level}" for level in ("1d", "1m", "1y", "td")}
    affected.add("dws_trade__order_standing_1d")
    assert set(re.findall(r"OK created .* ci\.(\w+)", done.stdout)) == affected
    differing = dict(re.findall(r"^  dw\.(\w+): (.*)$", done.stdout, re.MULTILINE))
    assert differing.keys() == affected
    texts = [status for row in before if (status := json.loads(row)["biz_status"]) is not None]
    moved = sum(status != status.upper() for status in texts)
    assert moved > 0
    expected = f"{moved:,} added, {moved:,} removed, 0 changed"
    assert differing["dws_trade__user_status_1d"] == expected
    assert re.search(r'^    \+ \{"cut_date":', done.stdout, re.MULTILINE)
    # the warehouse is as it was
    assert warehouse.rows("dws_trade__user_status_1d") == before
    assert "ci" not in warehouse.column("show namespaces")


def test_the_workflow_and_the_hooks_run_the_commands_of_ci() -> None:
    workflow = yaml.safe_load((REPO / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = [step.get("run") for step in workflow["jobs"]["ci"]["steps"]]
    assert [command for command in steps if command] == [".ci/run"]
    commands = re.findall(r"^make (\S+)$", (REPO / ".ci/run").read_text(), re.MULTILINE)
    hooks = yaml.safe_load((REPO / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]]
    assert entries == ["make lint", "make test-fast"]
    assert commands == ["lint", "test", "run"]  # test-fast is a part of test
