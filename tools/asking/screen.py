"""Rows as a table for people, as CSV or as JSON.

Null stands as NULL; an empty text, and each other text that a reader could take for something else,
stands in quotes. No character of the data moves the cursor or sets a colour.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

NULL = "NULL"
WIDEST = 80  # columns of the screen that a cell takes in a table
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}

Row = Sequence[str | None]


def width_of(text: str) -> int:
    """Columns of a screen that a text takes.

    >>> width_of("ab"), width_of("\\u5317\\u4eac")
    (2, 4)
    """
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def cell_of(value: str | None, is_text: bool) -> str:
    """A value as one line that can't be taken for another.

    >>> cell_of(None, True), cell_of("", True), cell_of("NULL", True), cell_of("a\\nb", True)
    ('NULL', "''", "'NULL'", 'a\\\\nb')
    """
    if value is None:
        return NULL
    shown = "".join(_printable(char) for char in value)
    is_mistakable = not value or value != value.strip() or value == NULL or value[0] == "'"
    return f"'{shown}'" if is_text and is_mistakable else shown


def _printable(char: str) -> str:
    if char in ESCAPES and char != "\\":
        return ESCAPES[char]
    # controls, and marks that turn the direction of what follows
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return f"\\u{ord(char):04x}"
    return char


def _cut(text: str) -> str:
    if width_of(text) <= WIDEST:
        return text
    kept, used = [], 0
    for char in text:
        used += width_of(char)
        if used > WIDEST - 3:
            break
        kept.append(char)
    return "".join(kept) + "..."


def _padded(text: str, width: int, is_right: bool) -> str:
    blank = " " * (width - width_of(text))
    return blank + text if is_right else text + blank


def table(names: Sequence[str], types: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Lines of a table; numbers stand right.

    Args:
        types: Spark's name of each column's type.
        rows: each value as Spark writes it as text.
    """
    heads = [_cut(cell_of(name, False)) for name in names]
    cells = [
        [_cut(cell_of(value, kind == "string")) for value, kind in zip(row, types, strict=True)]
        for row in rows
    ]
    widths = [max(map(width_of, column)) for column in zip(heads, *cells, strict=True)]
    right = [kind.startswith(NUMBERS) for kind in types]
    yield _line(heads, widths, right)
    yield f"|-{'-|-'.join('-' * width for width in widths)}-|"
    for row_cells in cells:
        yield _line(row_cells, widths, right)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [_padded(*entry) for entry in zip(cells, widths, right, strict=True)]
    return f"| {' | '.join(padded)} |"


def records(names: Sequence[str], types: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Lines of rows that are too wide for a table: one column a line, values whole."""
    heads = [cell_of(name, False) for name in names]
    width = max(map(width_of, heads))
    for number, row in enumerate(rows, start=1):
        yield f"-- row {number}"
        for head, kind, value in zip(heads, types, row, strict=True):
            yield f"{_padded(head, width, False)} | {cell_of(value, kind == 'string')}"


def csv(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """Lines of CSV: null is nothing, an empty text is two quotes.

    >>> list(csv(["a", "b"], [(None, ""), ("1,2", 'say "no"')]))
    ['a,b', ',""', '"1,2","say ""no\"""']
    """
    yield ",".join(_csv_cell(name) for name in names)
    for row in rows:
        yield ",".join(_csv_cell(value) for value in row)


def _csv_cell(value: str | None) -> str:
    if value is None:
        return ""
    if value and not any(char in value for char in ',"\r\n'):
        return value
    doubled = value.replace('"', '""')
    return f'"{doubled}"'


def json_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """One JSON object a row, each value a text, so that no digit is lost, or null."""
    for row in rows:
        yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
