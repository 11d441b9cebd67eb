"""What the tutorials have their readers write and run works, and prints what they show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO
from tests.support.project_copy import copy_of_project, run_in_copy
from tests.support.tutorials import Command, Edit, Listing, Step, steps_of

TUTORIALS = ("first-run", "your-first-table", "your-first-count")


def steps(name: str) -> list[Step]:
    return steps_of((REPO / "docs" / "tutorial" / f"{name}.md").read_text(encoding="utf-8"))


def test_every_tutorial_has_steps_that_are_run() -> None:
    found = {name: [type(step) for step in steps(name)] for name in TUTORIALS}
    assert found["first-run"] == [Command, Command, Command]
    table = [Edit, Edit, Listing, Command, Command]
    assert found["your-first-table"] == [*table, Edit, Edit, Edit, Edit, Command, Command]
    assert found["your-first-count"][:3] == [Edit, Edit, Edit]
    shown = [step.output for name in TUTORIALS for step in steps(name) if isinstance(step, Command)]
    assert len([output for output in shown if output]) == 4


def test_the_project_takes_what_the_tutorials_have_their_readers_write(tmp_path: Path) -> None:
    root = copy_of_project(tmp_path)
    for name in TUTORIALS:
        for step in steps(name):
            if not isinstance(step, Command):
                step.apply(root)
    run_in_copy(root, ".venv/bin/dbt", "parse", "--target", "ci")
    # dbt asks for the columns of a contract only when it builds the model
    manifest = json.loads((root / "target" / "manifest.json").read_text(encoding="utf-8"))
    models = [node for node in manifest["nodes"].values() if node["resource_type"] == "model"]
    written = {"ods_shop__pp_new", "dws_trade__pp_new_1d", "dws_trade__product_status_1d"}
    assert written <= {node["name"] for node in models}
    under_contract = [node for node in models if node["config"]["contract"]["enforced"]]
    assert [node["name"] for node in under_contract if not node["columns"]] == []


@pytest.mark.soak
def test_the_tutorials_print_what_they_show(tmp_path: Path) -> None:
    """From the first run to a table and a count of one's own."""
    root = copy_of_project(tmp_path)
    commands = 0
    for name in TUTORIALS:
        for step in steps(name):
            if not isinstance(step, Command):
                step.apply(root)
                continue
            printed = run_in_copy(root, *step.words)
            commands += 1
            for line in step.output.splitlines():
                assert line in printed, f"{name}: {' '.join(step.words)}\n{printed}"
    print(f"{commands} commands")
    assert commands > 6
