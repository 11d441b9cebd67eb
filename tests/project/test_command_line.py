"""One command line stands behind `make`."""

from __future__ import annotations

import re

from click.testing import CliRunner

from tests.support.dbt_project import REPO
from tools.__main__ import cli

MAKEFILE = (REPO / "Makefile").read_text(encoding="utf-8")


def test_each_command_has_a_target_of_make_and_help() -> None:
    called = set(re.findall(r"-m tools ([\w-]+)", MAKEFILE))
    assert called == set(cli.commands)
    assert [name for name, command in cli.commands.items() if not command.help] == []


def test_make_calls_no_module_of_tools_beside_it() -> None:
    assert re.findall(r"-m tools\.\w+", MAKEFILE) == []


def test_words_that_a_command_does_not_take_are_refused_before_anything_runs() -> None:
    for words in (["rum"], ["run", "now"], ["full-load"], ["drop-warehouse", "warehouse"]):
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 2, words
        assert "Usage:" in done.output


def test_a_refusal_is_printed_as_a_sentence_without_a_stack() -> None:
    done = CliRunner().invoke(cli, ["drop-warehouse"], env={"WAREHOUSE": "/nowhere/at all"})
    assert done.exit_code == 1
    assert done.output == (
        "Error: /nowhere/at all holds no warehouse: neither catalog.db nor tables.\n"
    )
    done = CliRunner().invoke(cli, ["compensate", "2026-03-07", "2026-03-01"])
    assert done.exit_code == 1
    assert done.output.startswith("Error: FROM and TO must be days")
