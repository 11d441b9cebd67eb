"""`make ci-diff` of a pull request: it builds what was changed, and prints the rows that differ."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.dbt_project import REPO
from tests.support.project_copy import copy_of_project, environment_of
from tests.support.warehouse import Warehouse

CHANGED = "models/dws/trade/dws_trade__user_coupon_1d.sql"
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def committed(root: Path) -> None:
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "base")):
        subprocess.run(["git", *AUTHOR, *command], cwd=root, check=True)


def test_a_changed_count_is_built_aside_and_its_rows_are_printed(
    in_one_go: Warehouse, tmp_path: Path
) -> None:
    root = copy_of_project(tmp_path)
    committed(root)
    sql = (root / CHANGED).read_text(encoding="utf-8")
    assert sql.count("        sign\n") == 1
    changed = sql.replace("        sign\n", "        if(state = 'used', 2, 1) * sign as sign\n")
    (root / CHANGED).write_text(changed, encoding="utf-8")
    before = in_one_go.rows("dws_trade__user_coupon_1d")
    environment = in_one_go.env | {
        "BASE": "HEAD",
        "DBT_PROFILES_DIR": str(root / "profiles"),
        "DBT_TARGET_PATH": str(tmp_path / "target"),
        "DBT_LOG_PATH": str(tmp_path / "logs"),
    }

    done = subprocess.run(
        [sys.executable, "-m", "tools", "ci-diff"],
        cwd=root,
        env=environment_of(root) | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    built = set(re.findall(r"OK created sql \w+ model ci\.(\w+)", done.stdout))
    downstream = {"dws_trade__user_coupon_td", "dws_operations__platform_1d"}
    assert built == {"dws_trade__user_coupon_1d"} | downstream
    differing = re.findall(r"^  dw\.(\w+): (.*)$", done.stdout, re.MULTILINE)
    wanted = sum('"state":"used"' in row for row in before)
    assert wanted > 0
    assert ("dws_trade__user_coupon_1d", f"0 added, 0 removed, {wanted} changed") in differing
    assert {name for name, _ in differing} == built
    # the warehouse is as it was
    assert in_one_go.rows("dws_trade__user_coupon_1d") == before
    assert "ci" not in in_one_go.column("show namespaces")


def test_the_workflow_and_the_hooks_run_the_commands_of_ci() -> None:
    workflow = yaml.safe_load((REPO / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = [step.get("run") for step in workflow["jobs"]["ci"]["steps"]]
    assert [command for command in steps if command] == [".ci/run"]
    commands = re.findall(r"^make (\S+)$", (REPO / ".ci/run").read_text(), re.MULTILINE)
    hooks = yaml.safe_load((REPO / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]]
    assert entries == ["make lint", "make test-fast"]
    assert commands == ["lint", "test", "run"]  # test-fast is a part of test
