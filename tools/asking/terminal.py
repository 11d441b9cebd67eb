"""Lines as a person types them: a prompt, a history, names that Tab completes."""

from __future__ import annotations

import readline
from pathlib import Path

from tools.asking.shell import Shell

HISTORY_LINES = 2000
LEAVE = ("\\q", "exit", "quit")


def talk(shell: Shell, history: Path) -> None:
    """Run what is typed until its end; what fails is named, and the shell goes on.

    Args:
        history: file of what was typed before; only its user reads it.
    """
    if history.is_file():
        readline.read_history_file(history)
    readline.set_completer(_Names(shell).completed)
    readline.set_completer_delims(" \t\n,().;=<>`")
    readline.parse_and_bind("tab: complete")
    try:
        while (line := _line(shell)) is not None:
            shell.take(line)
    finally:
        readline.set_history_length(HISTORY_LINES)
        history.parent.mkdir(exist_ok=True)
        history.touch(mode=0o600)
        readline.write_history_file(history)


def _line(shell: Shell) -> str | None:
    """The next line; None at the end. Ctrl-C drops what was typed."""
    while True:
        schema = shell.session.catalog.currentDatabase()
        try:
            line = input("  ... " if shell.pending else f"{schema}> ")
        except KeyboardInterrupt:
            shell.pending = ""
            print()
        except EOFError:
            print()
            return None
        else:
            is_end = not shell.pending and line.strip().rstrip(";").lower() in LEAVE
            return None if is_end else line


class _Names:
    """Names of the schema's tables and views, asked once a schema."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._of: dict[str, list[str]] = {}

    def completed(self, begin: str, number: int) -> str | None:
        """The numbered name that begins so, as readline asks for it."""
        schema = self._shell.session.catalog.currentDatabase()
        if schema not in self._of:
            self._of[schema] = [*self._listed("show tables"), *self._listed("show views")]
        found = [name for name in self._of[schema] if name.startswith(begin)]
        return found[number] if number < len(found) else None

    def _listed(self, statement: str) -> list[str]:
        return [row[1] for row in self._shell.session.sql(statement).collect()]
