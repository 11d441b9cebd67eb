"""What a DDL statement of MySQL does to the rows of tables: it empties, drops or renames them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Table = tuple[str, str]  # database, table
Move = tuple[Table, Table | None]  # from, to; to None: the rows are gone

# a quoted text or a comment must not be taken for words of the statement
_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|\#[^\n]*|/\*(?!!).*?\*/|/\*!\d*|\*/)
    |`(?P<quoted>(?:[^`]|``)+)`
    |"(?P<ansi>(?:[^"]|"")+)"
    |'(?:[^'\\]|\\.|'')*'
    |(?P<word>[\w$\u0080-\uffff]+)
    |(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)


def moves(sql: str, database: str) -> list[Move]:
    """The moves of a statement, in the order in which they take effect.

    Args:
        sql: one statement of any kind.
        database: the one that a table without database belongs to.

    Returns:
        TRUNCATE and DROP TABLE: a move of each table to None; DROP DATABASE: one of (name, "*").
        RENAME TABLE, ALTER TABLE .. RENAME: one of each table. Anything else: [].
    """
    tokens = _Tokens(sql, database)
    if tokens.take("truncate"):
        tokens.take("table")
        return [(tokens.table(), None)]
    if tokens.take("drop"):
        if tokens.take("database") or tokens.take("schema"):
            _ = tokens.take("if") and tokens.take("exists")
            return [((tokens.name(), "*"), None)]
        tokens.take("temporary")
        if not tokens.take("table") and not tokens.take("tables"):
            return []
        _ = tokens.take("if") and tokens.take("exists")
        return [(one, None) for one in tokens.listed(tokens.table)]
    if tokens.take("rename") and (tokens.take("table") or tokens.take("tables")):
        return tokens.listed(tokens.renamed)
    if tokens.take("alter"):
        for word in ("online", "offline", "ignore"):
            tokens.take(word)
        return tokens.altered() if tokens.take("table") else []
    return []


class _Tokens:
    """The words, names and signs of a statement, read from its front."""

    def __init__(self, sql: str, database: str) -> None:
        self.database = database
        self.parts: list[tuple[str, str]] = []  # ("word" | "name" | "other", text)
        for match in _TOKEN.finditer(sql):
            if match["skip"] is not None:
                continue
            if match["quoted"] is not None:
                self.parts.append(("name", match["quoted"].replace("``", "`")))
            elif match["ansi"] is not None:
                self.parts.append(("name", match["ansi"].replace('""', '"')))
            elif match["word"] is not None:
                self.parts.append(("word", match["word"]))
            else:
                self.parts.append(("other", match[0]))

    def take(self, word: str) -> bool:
        """Whether the next part is this word or sign; if so, it is read."""
        if self.parts and self.parts[0][0] != "name" and self.parts[0][1].lower() == word:
            self.parts.pop(0)
            return True
        return False

    def name(self) -> str:
        if not self.parts or self.parts[0][0] == "other":
            raise ValueError("a name was expected, the statement has none there")
        return self.parts.pop(0)[1]

    def table(self) -> Table:
        first = self.name()
        return (first, self.name()) if self.take(".") else (self.database, first)

    def renamed(self) -> Move:
        old = self.table()
        if not self.take("to"):
            raise ValueError("`to` was expected behind the table's old name")
        return old, self.table()

    def listed(self, read: Callable[[], T]) -> list[T]:
        """What `read` gives, once and once more behind each comma."""
        found = [read()]
        while self.take(","):
            found.append(read())
        return found

    def altered(self) -> list[Move]:
        """The RENAME among the actions of an ALTER TABLE, if there is one."""
        old, depth = self.table(), 0
        at_start = True  # of an action
        while self.parts:
            if depth == 0 and at_start and self.take("rename"):
                if self.take("column") or self.take("index") or self.take("key"):
                    at_start = False
                    continue
                _ = self.take("to") or self.take("as") or self.take("=")
                return [(old, self.table())]
            kind, text = self.parts.pop(0)
            depth += {"(": 1, ")": -1}.get(text, 0) if kind == "other" else 0
            at_start = kind == "other" and text == ","
        return []
