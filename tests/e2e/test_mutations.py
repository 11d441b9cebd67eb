"""Faults put into the models' SQL and into the deserialization on purpose: tests must catch each.

The faults of the SQL are put to the unit tests of the models that they touch, those of Python and
of what only a running warehouse shows to the tests that play histories.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.faults import (
    RUN_FAULTS,
    SQL_FAULTS,
    WORKER_FAULTS,
    Fault,
)
from tests.support.project_copy import copy_of_project, environment_of
from tests.support.warehouse import Warehouse

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("fault", SQL_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_in_the_sql_fails_a_unit_test(
    in_one_go: Warehouse, tmp_path: Path, fault: Fault
) -> None:
    root = copy_of_project(tmp_path)
    fault.put_into(root)
    (tmp_path / "run").mkdir()
    # the built warehouse lends its tables' columns; unit tests write nothing into it
    project = DbtProject(root, tmp_path / "run" / "warehouse", landing=in_one_go.landing)
    project.env["WAREHOUSE"] = str(in_one_go.warehouse)
    chosen = [f"{model},test_type:unit" for model in fault.caught_by.split()]
    outcome = project.run("test", "--select", *chosen, expect_ok=False)
    failed = [name for name, status in outcome.statuses().items() if status == "fail"]
    print(f"{fault.name}: {len(failed)} of {len(outcome.statuses())} unit tests fail")
    assert failed, outcome.log


@pytest.mark.parametrize("fault", [*RUN_FAULTS, *WORKER_FAULTS], ids=lambda fault: fault.name)
def test_a_fault_in_the_run_fails_a_test(tmp_path: Path, fault: Fault) -> None:
    root = copy_of_project(tmp_path)
    fault.put_into(root)
    command = f"{sys.executable} -m pytest -q -x -p no:cacheprovider {fault.caught_by}"
    seeds = dict.fromkeys(
        ("JOIN_SEED", "WINDOW_SEED", "BELIEFS_SEED", "EXTRACTS_SEED"), str(fault.seed)
    )
    env = environment_of(root) | seeds
    done = subprocess.run(command, shell=True, cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 1, f"{fault.name}: {done.stdout[-3000:]}"
    assert "AssertionError" in done.stdout, done.stdout[-3000:]
    print(f"{fault.name}: {done.stdout.splitlines()[-1]}")
