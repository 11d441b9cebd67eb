"""What a DDL statement of MySQL does to the rows of tables: it empties, drops or renames them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import Column

T = TypeVar("T")
_NO_NAME = ""  # no database has it
Table = tuple[str, str]  # database, table
Move = tuple[Table, Table | None]  # from, to; to None: the rows are gone

# Longer statements are refused: those on whole tables are far from it, and what can be sent isn't
# bounded otherwise
MAX_STATEMENT = 1 << 20  # characters
TOO_LONG = f"a statement of more than {MAX_STATEMENT} characters isn't read"

# Text from outside decides how often these match. So each repetition is possessive, and no part of
# a text can be read in two ways: the time grows with the length, and Java's stack doesn't.
# A quoted text or a comment must not be taken for words of the statement
_TOKEN = re.compile(
    r"""(?P<skip>\s++|--[^\n]*+|\#[^\n]*+|/\*(?!M?!)(?:[^*]++|\*(?!/))*+\*/|/\*M?!\d*+|\*/)
    |`(?P<quoted>(?:[^`]++|``)++)`
    |"(?P<ansi>(?:[^"]++|"")++)"
    |'(?:[^'\\]++|\\.|'')*+'
    |(?P<word>[\w$\u0080-\uffff]++)
    |(?P<unclosed>(?:/\*|[`"']).*+)
    |(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
# The same for Spark, which looks at all statements to find those that `moves` has to read: it may
# take one too many. What isn't closed stays as it is (group 1 to 4), to the statement's end
_QUOTED = (
    r"(?s)/\*M?!\d*+|\*/|--[^\n]*+|#[^\n]*+"
    r"|/\*(?:[^*]++|\*(?!/))*+\*/|(/\*(?:[^*]++|\*(?!/))*+\z)"
    r"|'(?:[^'\\]++|\\.)*+'|('(?:[^'\\]++|\\.)*+\\?\z)"
    r'|"(?:[^"\\]++|\\.)*+"|("(?:[^"\\]++|\\.)*+\\?\z)'
    r"|`[^`]*+`|(`[^`]*+\z)"
)
_BARE = " ~ $1$2$3$4"  # what takes the place of each
# (?<!\w) and (?!\w) rather than \b, for which Java looks back over all marks before a place
_OPS = {
    "truncate": (
        r"(?is)^[\s~]*+(truncate(?!\w)|alter(?!\w).*?(?<!\w)"
        r"(truncate|drop|exchange|discard|import|convert)"
        r"[\s~]++(partition|tablespace|table)(?!\w))"
    ),
    "drop": (
        r"(?i)^[\s~]*+(drop[\s~]++(tables?|database|schema)"
        r"|create[\s~]++or[\s~]++replace[\s~]++table)(?!\w)"
    ),
    "rename": (
        r"(?is)^[\s~]*+(rename[\s~]++tables?(?!\w)|(?>alter(?!\w).*?(?<!\w)table(?!\w))"
        r".*?(?<!\w)rename(?!\w)\s*+(?!(?:column|index|key)(?!\w)))"
    ),
}
# actions of ALTER TABLE that take rows away, or bring some, of which the log doesn't tell
_UNTOLD = {
    "truncate": ("partition",),
    "drop": ("partition",),
    "exchange": ("partition",),
    "discard": ("partition", "tablespace"),
    "import": ("partition", "tablespace"),
    "convert": ("partition", "table"),
}


def table_op(sql: Column) -> Column:
    """truncate, drop or rename for a statement that `moves` has to read; null for any other."""
    from pyspark.sql import functions as F

    short = F.when(F.length(sql) <= MAX_STATEMENT, sql)  # see too_long
    bare = F.regexp_replace(short, _QUOTED, _BARE)
    op = F.lit(None).cast("string")
    for name, pattern in reversed(_OPS.items()):
        op = F.when(bare.rlike(pattern), F.lit(name)).otherwise(op)
    return op


def too_long(sql: Column) -> Column:
    """Why a statement isn't read; null where it is."""
    from pyspark.sql import functions as F

    return F.when(F.length(sql) > MAX_STATEMENT, F.lit(TOO_LONG))


def moves(sql: str, database: str) -> list[Move]:
    """The moves of a statement, in the order in which they take effect.

    Args:
        sql: one statement of any kind.
        database: the database that a table without database belongs to.

    Returns:
        TRUNCATE and DROP TABLE, CREATE OR REPLACE TABLE: a move of each table to None; DROP
        DATABASE: one of (name, "*"). RENAME TABLE, ALTER TABLE .. RENAME: one of each table.
        Anything else, and what is done to temporary tables: [].

    Raises:
        ValueError: which rows the statement takes away or brings is unknown.
    """
    tokens = _Tokens(sql, database)
    if tokens.take("truncate"):
        tokens.take("table")
        return [(tokens.table(), None)]
    if tokens.take("drop"):
        if tokens.take("database") or tokens.take("schema"):
            tokens.if_exists()
            return [((tokens.name(), "*"), None)]
        # one of temporary tables isn't of the table that has the name besides
        if not tokens.take("table") and not tokens.take("tables"):
            return []
        tokens.if_exists()
        return [(table, None) for table in tokens.listed(tokens.table)]
    if tokens.take("create"):
        replaces = tokens.take("or") and tokens.take("replace")
        return [(tokens.table(), None)] if replaces and tokens.take("table") else []
    if tokens.take("rename") and (tokens.take("table") or tokens.take("tables")):
        tokens.if_exists()
        return tokens.listed(tokens.renamed)
    if tokens.take("alter"):
        for word in ("online", "offline", "ignore"):
            tokens.take(word)
        return tokens.altered() if tokens.take("table") else []
    return []


def moves_beside(sql: str, move: tuple[Table, Table]) -> list[Move]:
    """All renames of a statement, of which a message names one.

    A log may hold a message for each table, and these may come by several partitions or in several
    runs. What they did together depends on their order, which the statement alone has.

    Args:
        sql: the statement.
        move: the rename that the message names.

    Returns:
        The statement's moves in their order; that one move where they can't be read from it.
    """
    try:
        listed = [(old, new) for old, new in moves(sql, _NO_NAME) if new is not None]
    except ValueError:
        return [move]
    bare = [_NO_NAME in (old[0], new[0]) for old, new in listed]
    # names without a database are of that which the message shows for such a name
    for home in dict.fromkeys(table[0] for table in move):
        named = [((old[0] or home, old[1]), (new[0] or home, new[1])) for old, new in listed]
        shown = [is_bare for pair, is_bare in zip(named, bare, strict=True) if pair == move]
        if any(shown) or (shown and not any(bare)):
            return list(named)
    return [move]


def made_table(sql: str, database: str) -> Table | None:
    """The table that a CREATE TABLE makes; None of any other statement, or a temporary table."""
    tokens = _Tokens(sql, database)
    if not tokens.take("create") or not tokens.take("table"):
        return None
    _ = tokens.take("if") and tokens.take("not") and tokens.take("exists")
    return tokens.table()


class _Tokens:
    """The words, names and signs of a statement, read from its front.

    Raises:
        ValueError: the statement is too long to be read.
    """

    def __init__(self, sql: str, database: str) -> None:
        if len(sql) > MAX_STATEMENT:
            raise ValueError(TOO_LONG)
        self.database = database
        self._place = 0  # in _parts, of what comes next
        self._parts: list[tuple[str, str]] = []  # ("word" | "name" | "other" | "unclosed", text)
        for match in _TOKEN.finditer(sql):
            if match["skip"] is not None:
                continue
            if match["quoted"] is not None:
                self._parts.append(("name", match["quoted"].replace("``", "`")))
            elif match["ansi"] is not None:
                self._parts.append(("name", match["ansi"].replace('""', '"')))
            elif match["word"] is not None:
                self._parts.append(("word", match["word"]))
            elif match["unclosed"] is not None:
                self._parts.append(("unclosed", match[0][:1].replace("/", "/*")))
            else:
                self._parts.append(("other", match[0]))

    def next(self) -> tuple[str, str] | None:
        """The kind and the text of what comes next; None at the end.

        Raises:
            ValueError: a quote or a comment begins there that the statement doesn't close.
        """
        if self._place >= len(self._parts):
            return None
        kind, text = self._parts[self._place]
        if kind == "unclosed":
            raise ValueError(f"the statement doesn't close its {text}")
        return kind, text

    def take(self, word: str) -> bool:
        """Whether the next part is this word or sign; if so, it is read."""
        found = self.next()
        if found and found[0] != "name" and found[1].lower() == word:
            self._place += 1
            return True
        return False

    def name(self) -> str:
        found = self.next()
        if not found or found[0] == "other":
            raise ValueError("a name was expected, the statement has none there")
        self._place += 1
        return found[1]

    def table(self) -> Table:
        first = self.name()
        return (first, self.name()) if self.take(".") else (self.database, first)

    def if_exists(self) -> None:
        _ = self.take("if") and self.take("exists")

    def wait(self) -> None:
        """MariaDB's word on how long to wait for a lock."""
        if self.take("wait"):
            self.name()
        else:
            self.take("nowait")

    def renamed(self) -> Move:
        old = self.table()
        self.wait()
        if not self.take("to"):
            raise ValueError("`to` was expected behind the table's old name")
        return old, self.table()

    def listed(self, read: Callable[[], T]) -> list[T]:
        """What `read` gives, once and once more behind each comma."""
        found = [read()]
        while self.take(","):
            found.append(read())
        return found

    def untold(self) -> str | None:
        """The action that comes next, in lower case, if it is one of _UNTOLD."""
        two = self._parts[self._place : self._place + 2]
        words = [text.lower() for kind, text in two if kind == "word"]
        if len(words) == 2 and words[1] in _UNTOLD.get(words[0], ()):
            self._place += 2
            return " ".join(words)
        return None

    def altered(self) -> list[Move]:
        """The RENAME among the actions of an ALTER TABLE, if there is one."""
        self.if_exists()
        old, depth = self.table(), 0
        self.wait()
        at_start = True  # of an action
        while found := self.next():
            if depth == 0 and at_start and (untold := self.untold()):
                if untold == "truncate partition" and self.take("all"):
                    return [(old, None)]
                raise ValueError(
                    f"ALTER TABLE .. {untold.upper()}: the rows in the table since then "
                    "aren't in the log"
                )
            if depth == 0 and at_start and self.take("rename"):
                if self.take("column") or self.take("index") or self.take("key"):
                    at_start = False
                    continue
                _ = self.take("to") or self.take("as") or self.take("=")
                return [(old, self.table())]
            kind, text = found
            self._place += 1
            depth += {"(": 1, ")": -1}.get(text, 0) if kind == "other" else 0
            at_start = kind == "other" and text == ","
        return []
