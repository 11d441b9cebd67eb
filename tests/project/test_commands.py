"""The table of dbt's commands and flags states what the tests say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from dbt.cli.main import cli

from tests.support.dbt_project import REPO

TABLE = (REPO / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
TESTED = ("adapter/test_commands.py", "adapter/test_flags.py", "adapter/test_microbatch.py")
ELSEWHERE = (
    "adapter/test_features.py",
    "adapter/test_outdated_files.py",
    "reliability/test_interrupts.py",
    "targets/test_publish_postgres.py",
)


def functions_of(*files: str) -> set[str]:
    texts = [(REPO / "tests" / file).read_text(encoding="utf-8") for file in files]
    return {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}


def test_the_table_and_the_tests_name_the_same_rows() -> None:
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    assert named - functions_of(*TESTED, *ELSEWHERE) == set()
    assert functions_of(*TESTED) - named == set()


def test_each_row_names_a_test() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and "test |" not in line]
    assert len(rows) > 20
    assert [line for line in rows if not re.search(r"`test_\w+` \|$", line)] == []


def commands_of(group: Any, names: str = "dbt") -> Iterator[tuple[str, Any]]:
    """All commands of dbt, as one types them."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{names} {name}")
        else:
            yield f"{names} {name}", command


ALL = dict(commands_of(cli))


def test_every_command_that_dbt_knows_stands_in_the_table() -> None:
    assert len(ALL) > 20
    assert [name for name in ALL if f"`{name}`" not in TABLE] == []


@pytest.mark.parametrize("command", ALL)
def test_every_flag_that_dbt_knows_stands_in_the_table(command: str) -> None:
    options = {
        name
        for param in ALL[command].params
        for name in param.opts
        if name.startswith("--") and not getattr(param, "hidden", False)
    }
    known = set(re.findall(r"--[a-z-]+", TABLE))
    assert options - known == set()
