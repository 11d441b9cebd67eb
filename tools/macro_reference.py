"""The page of all macros with their arguments, made of the `_macros.yml` beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

import yaml

ENGINE = "python_udfs/sparksession_adapter/dbt/include/sparksession/macros"
# those of the adapter that are called by name
CALLED = ("reading", "strategies", "versions", "operations")
FOLDERS = ("macros", *(f"{ENGINE}/{name}" for name in CALLED))
HEAD = """# All macros in full
Each public macro with its description and its arguments, as `_macros.yml` beside it has them. A
list by what they are for is in [Macros](macros.md).
"""


class Argument(TypedDict, total=False):
    """An argument as `_macros.yml` describes it."""

    name: str
    type: str
    description: str


class Macro(TypedDict, total=False):
    """A macro as `_macros.yml` describes it."""

    name: str
    description: str
    arguments: list[Argument]


def macro_reference(root: Path) -> str:
    """The page, as Markdown.

    Args:
        root: folder of the project.
    """
    parts = [HEAD]
    for file in described(root):
        folder = file.parent.relative_to(root).as_posix()
        parts.append(f"## {folder.removeprefix(ENGINE + '/')}")
        macros = yaml.safe_load(file.read_text(encoding="utf-8"))["macros"]
        parts += map(macro_entry, sorted(macros, key=lambda macro: macro["name"]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def described(root: Path) -> list[Path]:
    """The files that describe macros, in the order of the page."""
    return [file for folder in FOLDERS for file in sorted((root / folder).rglob("_macros.yml"))]


def macro_entry(macro: Macro) -> str:
    """One macro.

    >>> print(macro_entry({"name": "twice", "description": "A number\\ntwice.", "arguments": [
    ...     {"name": "number", "type": "integer", "description": "A | B."}]}))
    ### `twice(number)`
    A number twice.
    <BLANKLINE>
    | argument | type | what it is |
    |---|---|---|
    | `number` | integer | A \\| B. |
    """
    arguments = macro.get("arguments") or []
    names = ", ".join(argument["name"] for argument in arguments)
    text = f"### `{macro['name']}({names})`\n{on_one_line(macro['description'])}"
    return f"{text}\n\n{arguments_table(arguments)}" if arguments else text


def arguments_table(arguments: Iterable[Argument]) -> str:
    """Arguments as a table."""
    rows = [
        f"| `{argument['name']}` | {in_cell(argument.get('type', ''))} "
        f"| {in_cell(argument.get('description', ''))} |"
        for argument in arguments
    ]
    return "\n".join(["| argument | type | what it is |", "|---|---|---|", *rows])


def in_cell(text: str) -> str:
    """A text as a cell of a table."""
    return on_one_line(text).replace("|", "\\|")


def on_one_line(text: str) -> str:
    """A text whose lines are one line; a `<` in it begins no tag."""
    return " ".join(text.split()).replace("<", "&lt;")
