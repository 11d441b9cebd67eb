"""What a tutorial has its reader write and run, read from the page itself."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(Append|Write) this to `([^`]+)`:\s*\Z")
LISTED = re.compile(r"add `(ref\('\w+'\))` to the list in\s+`([^`]+)`")
COMMANDS = ("make ", "export ", ".venv/bin/")
COMMAND_LINE = re.compile(r"(\w+=\S+ )*(make|export|docker|\.venv/bin/\w+|\$SPARK_HOME/\S+) ")


@dataclass(frozen=True)
class Edit:
    """A file that the reader writes, or appends to."""

    path: str
    text: str
    appends: bool = False

    def apply(self, root: Path) -> None:
        file = root / self.path
        before = file.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if self.appends else ""
        file.write_text(before + self.text, encoding="utf-8")


@dataclass(frozen=True)
class Listing:
    """An entry that the reader adds to the list of a macro."""

    path: str
    entry: str

    def apply(self, root: Path) -> None:
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        last = list(re.finditer(r"^( *)ref\('\w+'\),?$", text, re.MULTILINE))[-1]
        added = f"{last[0].rstrip(',')},\n{last[1]}{self.entry},"
        file.write_text(text[: last.start()] + added + text[last.end() :], encoding="utf-8")


@dataclass(frozen=True)
class Command:
    """A command line, and what the page has it print; "" where the page shows nothing of it."""

    words: tuple[str, ...]
    output: str = ""


Step = Edit | Listing | Command


def steps_of(page: str) -> list[Step]:
    """The steps of a tutorial, in their order.

    >>> steps_of("Write this to `a.sql`:\\n\\n```sql\\nselect 1\\n```\\n")
    [Edit(path='a.sql', text='select 1\\n', appends=False)]
    >>> steps_of("```\\nmake run\\n```\\n")
    [Command(words=('make', 'run'), output='')]
    """
    steps: list[Step] = []
    end = 0
    for fence in FENCE.finditer(page):
        before, (language, body) = page[end : fence.start()], fence.groups()
        end = fence.end()
        steps += [Listing(path, entry) for entry, path in LISTED.findall(before)]
        written = FILE.search(before)
        if written:
            steps.append(Edit(written[2], body, appends=written[1] == "Append"))
        elif body.startswith(COMMANDS):
            lines = [line for line in body.splitlines() if not line.startswith("export ")]
            steps += [Command(tuple(shlex.split(line))) for line in lines]
        elif body.startswith("| ") and steps and isinstance(steps[-1], Command):
            steps[-1] = Command(steps[-1].words, body)
        elif language:
            raise ValueError(f"{language} that the page leaves unexplained: {body[:60]!r}")
    return steps


def command_lines(page: str) -> list[str]:
    """Lines of a page's command blocks, without comments; lines that go on are one line.

    >>> command_lines("```\\nmake run   # all\\n.venv/bin/dbt run \\\\\\n  -s a\\n```\\n")
    ['make run', '.venv/bin/dbt run -s a']
    """
    lines = []
    for language, body in FENCE.findall(page):
        if language not in ("", "bash"):
            continue
        for line in re.sub(r"\\\n\s*", "", body).splitlines():
            command = re.sub(r"\s+#\s.*$", "", line).strip()
            if COMMAND_LINE.match(command):
                lines.append(command)
    return lines
