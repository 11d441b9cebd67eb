"""The lines that a person types: prompt, history, names that Tab completes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.asking import terminal
from tools.asking.shell import Shell


class Session:
    """As much of a Spark session as the terminal asks."""

    def __init__(self) -> None:
        self.catalog = SimpleNamespace(currentDatabase=lambda: "published")

    def sql(self, statement: str) -> Any:
        rows = {
            "show tables": [("published", "orders")],
            "show views": [("published", "orders_td")],
        }
        return SimpleNamespace(collect=lambda: rows[statement])


class Taking(Shell):
    """A shell that keeps what it would run."""

    def __init__(self) -> None:
        super().__init__(Session())
        self.ran: list[str] = []

    def run(self, statement: str) -> bool:
        self.ran.append(statement)
        return True


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> list[str]:
    """Give input() these lines; returns the prompts that it was asked with."""
    prompts: list[str] = []
    left: Iterator[str | type[BaseException]] = iter(lines)

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        line = next(left)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", answer)
    return prompts


def test_statements_are_run_up_to_the_end_and_the_history_is_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell, history = Taking(), tmp_path / "logs" / "history"
    prompts = typed(monkeypatch, "select 1", "as a;", "select 2;", EOFError)
    terminal.talk(shell, history)
    assert shell.ran == ["select 1\nas a", "select 2"]
    assert prompts == ["published> ", "  ... ", "published> ", "published> "]
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_ctrl_c_drops_what_was_typed_and_q_leaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell = Taking()
    typed(monkeypatch, "select 1", KeyboardInterrupt, "select 2;", "\\q", "select 3;")
    terminal.talk(shell, tmp_path / "history")
    assert shell.ran == ["select 2"]


def test_names_of_the_schema_are_completed() -> None:
    names = terminal._Names(Taking())
    assert [names.completed("ord", number) for number in range(3)] == ["orders", "orders_td", None]
