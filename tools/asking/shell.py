"""A shell that stays open: reads statements, shows their rows, goes on after an error."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dbt.adapters.sparksession.session import cancel_statements, message_of
from dbt.adapters.sparksession.sql import is_absent, quoted
from dbt.adapters.sparksession.sql_texts import split_statements, without_comments
from dbt_common.exceptions import DbtRuntimeError

from tools.asking import screen
from tools.asking.answers import Answer, ask
from tools.asking.statements import WritingError, check_reads

SHOWN = 200  # rows of a table on the screen; CSV and JSON have all
FORMATS = ("table", "csv", "json")
HELP = """A statement ends with a semicolon and may have several lines. It only reads.
  \\d            tables and views of the schema
  \\d NAME       columns of a table or view, with their comments
  \\x            one column a line, and back
  \\q            leave (or Ctrl-D)
  use dw;       another schema; published is the newest whole version, dw are the tables as they are
NULL is null; '' is an empty text. Ctrl-C ends the statement that runs."""


@dataclass
class Shell:
    """Statements on one session.

    Attributes:
        session: of Spark.
        output_format: one of FORMATS.
        is_wide: whether rows stand as one column a line.
        write: takes each line of output.
        pending: what was typed of a statement that isn't complete.
    """

    session: Any
    output_format: str = "table"
    is_wide: bool = False
    write: Callable[[str], None] = print
    pending: str = ""

    def run(self, statement: str) -> bool:
        """Run one statement and show its rows; whether it went well."""
        started, statement = time.monotonic(), without_comments(statement).strip()
        try:
            check_reads(self.session, statement)
            self._show(ask(self.session, statement), started)
        except WritingError as exc:
            return self._failed(str(exc))
        except KeyboardInterrupt:
            cancel_statements(self.session)
            return self._failed("The statement was ended.")
        except Exception as exc:  # a wrong statement doesn't end the shell
            return self._failed(self._words_of(exc))
        return True

    def command(self, line: str) -> bool:
        """Run a line that begins with a backslash; whether it went well."""
        name, _, argument = line.partition(" ")
        if name == "\\d" and argument.strip():
            parts = argument.strip().strip("`;").split(".")
            return self.run(f"describe table {'.'.join(map(quoted, parts))}")
        if name == "\\d":
            return self.run("show tables") and self.run("show views")
        if name == "\\x":
            self.is_wide = not self.is_wide
        elif name in ("\\?", "\\h"):
            self.write(HELP)
        else:
            return self._failed(f"{name} is no command of the shell; \\? shows those it has.")
        return True

    def take(self, line: str) -> bool:
        """Take one more line and run what it completes, up to the first that fails; whether none
        did."""
        if not self.pending and line.lstrip().startswith("\\"):
            return self.command(line.strip())
        statements, self.pending = split_statements(f"{self.pending}{line}\n")
        return all(self.run(statement) for statement in statements)

    def run_script(self, lines: Iterable[str]) -> bool:
        """Run statements up to the first that fails; whether none did. The last statement needs
        no semicolon."""
        for line in lines:
            if not self.take(line.rstrip("\n")):
                return False
        rest, self.pending = self.pending, ""
        return not rest or self.run(rest)

    def _failed(self, words: str) -> bool:
        print(f"Error: {words}", file=sys.stderr)
        return False

    def _words_of(self, exc: Exception) -> str:
        words = message_of(exc)
        if is_absent(exc):
            schema = self.session.catalog.currentDatabase()
            words += f"\n\\d lists what the schema {schema} has; `use dw;` opens another schema."
        return words

    def _show(self, answer: Answer, started: float) -> None:
        if not answer.names:  # `use`, and the like
            return
        if self.output_format != "table":
            for line in self._whole(answer):
                self.write(line)
            return
        rows = answer.first(SHOWN + 1)
        is_cut, rows = len(rows) > SHOWN, rows[:SHOWN]
        for line in self._table(answer, rows):
            self.write(line)
        count = f"the first {SHOWN} rows, there are more" if is_cut else _counted(len(rows))
        self.write(f"({count}, {time.monotonic() - started:.1f} s)")

    def _whole(self, answer: Answer) -> Iterator[str]:
        if self.output_format == "csv":
            return screen.csv(answer.names, answer.all())
        return screen.json_lines(answer.names, answer.all())

    def _table(self, answer: Answer, rows: list[screen.Row]) -> list[str]:
        if not self.is_wide:
            lines = list(screen.table(answer.names, answer.types, rows))
            columns = shutil.get_terminal_size().columns
            if not sys.stdout.isatty() or screen.width_of(lines[0]) <= columns or not rows:
                return lines
        return list(screen.records(answer.names, answer.types, rows))


def _counted(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def use_schema(session: Any, catalog: str, wanted: str, otherwise: str) -> str:
    """Make a schema the session's; the other schema where that isn't there.

    Returns:
        The schema that it is.

    Raises:
        DbtRuntimeError: there is neither.
    """
    for schema in (wanted, otherwise):
        try:
            session.sql(f"use {quoted(catalog)}.{quoted(schema)}")
        except Exception as exc:
            if not is_absent(exc):
                raise DbtRuntimeError(message_of(exc)) from None
        else:
            return schema
    raise DbtRuntimeError(
        f"The warehouse has neither the schema {wanted} nor {otherwise}: `make run` builds it."
    )
