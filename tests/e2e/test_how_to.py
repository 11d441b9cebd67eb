"""The commands of the how-to pages run as they stand there, on the sample's warehouse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO
from tests.support.project_copy import copy_of_project, run_in_copy
from tests.support.tutorials import command_lines

PAGES = [*sorted((REPO / "docs").glob("**/*.md")), REPO / "README.md"]
# beginning of a command -> what it needs that isn't here, or who runs it
ELSEWHERE = {
    "make test": "runs this",
    "make sql < ": "a file of questions: tests/asking/test_shell.py",
    "make sql": "a terminal: tests/asking/test_shell.py",
    "make notebook": "packages of its own: tests/asking/test_notebook.py",
    "make serve": "stays open: tests/asking/test_serve.py",
    "make follow": "stays open: tests/follow",
    "make full-load": "MySQL: tests/live/test_full_load.py",
    "make run LANDING=/data": "folders of the reader's own: tests/e2e/test_bad_input.py",
    "KAFKA_SERVERS=": "Kafka: tests/ingestion/landing/test_kafka_source.py",
    "DBT_TARGET=": "servers: tests/places",
    "$SPARK_HOME": "servers: tests/places",
    ".venv/bin/python -m http.server": "stays open, and is Python's own",
    "docker ": "a Docker daemon",
    "export ": "settings of other commands",
}
# the pages' own numbers of versions -> those of the warehouse here, which has two
VERSIONS = {"first: 3, last: 4": "first: 1, last: 2", "version: 3": "version: 1"}


def is_elsewhere(command: str) -> bool:
    """Whether a command isn't run here; `make sql Q=..` is, `make sql` isn't."""
    for beginning in ELSEWHERE:
        rest = command.removeprefix(beginning)
        if rest != command and not rest.startswith(" Q="):
            return True
    return False


def commands() -> list[tuple[str, str]]:
    """Page and command of each that is run here, in the pages' order; a command once. Those of the
    tutorials build tables of the reader's own: tests/e2e/test_tutorials.py runs them."""
    found: dict[str, str] = {}
    for page in PAGES:
        if page.parent.name == "tutorial":
            continue
        for command in command_lines(page.read_text(encoding="utf-8")):
            if not is_elsewhere(command):
                found.setdefault(command, page.name)
    return [(page, command) for command, page in found.items()]


def test_every_reason_is_one_of_a_command() -> None:
    every = [line for page in PAGES for line in command_lines(page.read_text(encoding="utf-8"))]
    unused = [start for start in ELSEWHERE if not any(line.startswith(start) for line in every)]
    assert unused == []
    named = {name for reason in ELSEWHERE.values() for name in re.findall(r"tests/[\w/.]+", reason)}
    assert [name for name in named if not (REPO / name).exists()] == []
    assert len(commands()) > 14


@pytest.mark.soak
def test_the_commands_of_the_pages_run(tmp_path: Path) -> None:
    """On a warehouse of the sample with two versions; a copy of the project is their folder."""
    root = copy_of_project(tmp_path)

    def run(command: str) -> str:
        return run_in_copy(root, "bash", "-c", command)

    run("make run")
    run(".venv/bin/dbt build --full-refresh -s dws_trade__user_status_1d")
    for page, command in commands():
        for theirs, ours in VERSIONS.items():
            command = command.replace(theirs, ours)
        print(f"{page}: {command}")
        printed = run(command)
        assert "Traceback" not in printed, command
    run(".venv/bin/dbt build")  # what the commands left can be built on
