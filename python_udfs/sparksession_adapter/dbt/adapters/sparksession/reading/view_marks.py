"""Views in a model's SQL: named with a mark, and replaced by their queries for Spark.

What stands for a view is its own query over pinned tables, and a query in a `from` needs an alias
that only the SQL around it shows.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import OrderedDict

from dbt.adapters.sparksession.sql_texts import COMMENT
from dbt.adapters.sparksession.warehouse import Relation
from dbt_common.exceptions import DbtRuntimeError

KEPT = 100_000  # queries of views, of the statements that a process compiled last
# words that may stand behind a relation in a `from` and are no alias of it
NO_ALIAS = frozenset(
    word
    for line in (
        "anti cluster cross distribute except full group having inner intersect join lateral left",
        "limit minus natural offset on order pivot qualify right select semi set sort tablesample",
        "then union unpivot using values watermark when where window with",
    )
    for word in line.split()
)
MARK = re.compile(r"(?<!\S)(?P<name>\S++) /\* pinned read (?P<number>\d+) \*/")
BEHIND = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:`|(?P<word>[^\W\d]\w*))?", re.DOTALL)

SAMPLE = re.compile(
    r"\s++tablesample\s*+\((?:[^()]|\([^()]*+\))*+\)(?:\s*+repeatable\s*+\([^()]*+\))?",
    re.IGNORECASE,
)


def is_aliased(behind: str) -> bool:
    """Whether the SQL behind a relation begins with an alias of it.

    >>> [is_aliased(sql) for sql in (" as t", " t (a)", " join x", ", y", " -- a\\n where b")]
    [True, True, False, False, False]
    """
    found = BEHIND.match(behind)
    if found is None:
        return False
    word = found["word"]
    if word is None:
        return found[0].endswith("`")
    return word.lower() not in NO_ALIAS


class Readings:
    """Marks of views in SQL -> the queries that stand for them. Threads share it.

    Args:
        kept: how many of the newest queries are kept; None for all.
    """

    _numbers = itertools.count(1)  # no two marks of a process are the same

    def __init__(self, kept: int | None = None) -> None:
        self._kept, self._lock = kept, threading.Lock()
        self._queries: OrderedDict[int, str] = OrderedDict()

    def marked(self, name: str, query: str) -> str:
        """SQL that reads as `name` and stands for the `query`, given with its parentheses."""
        with self._lock:
            number = next(self._numbers)
            self._queries[number] = query
            if self._kept is not None and len(self._queries) > self._kept:
                self._queries.popitem(last=False)
        return f"{name} /* pinned read {number} */"

    def resolved(self, sql: str) -> str:
        """The SQL with each marked view's query in its place, under the view's name where the SQL
        gives it no other. Marks of others stay."""
        if "/* pinned read " not in sql:
            return sql
        parts, end = [], 0
        silent = _silent_spans(sql)
        for found in MARK.finditer(sql):
            if any(first < found.end("name") < last for first, last in silent):
                parts += [sql[end : found.end("name")]]
                end = found.end()
                continue
            query = self._queries.get(int(found["number"]))
            if query is None:
                continue
            # what stands before the name without a space, such as a parenthesis, isn't its part
            start = found.end("name") - len(_own_name(found["name"]))
            alias = sql[start : found.end("name")].rpartition(".")[2]
            taken = SAMPLE.match(sql, found.end())  # stands before an alias
            behind = taken.end() if taken is not None else found.end()
            named = "" if is_aliased(sql[behind:]) else f" as {alias}"
            parts += [sql[end:start], self.resolved(query), sql[found.end() : behind], named]
            end = behind
        return "".join([*parts, sql[end:]])

    def marked_in(self, sql: str) -> list[tuple[str, str]]:
        """Names and queries of the views that are marked in some SQL."""
        queries = [
            (found["name"], self._queries.get(int(found["number"]))) for found in MARK.finditer(sql)
        ]
        return [(_own_name(name), query) for name, query in queries if query is not None]


def _own_name(name: str) -> str:
    """A marked name without what stands before it.

    >>> _own_name("from(dw.a,dw.b")
    'dw.b'
    """
    return name[max(name.rfind("("), name.rfind(",")) + 1 :]


def _silent_spans(sql: str) -> list[tuple[int, int]]:
    """Where the comments and quoted texts of some SQL begin and end; a mark there reads nothing."""
    spans = (match.span() for match in COMMENT.finditer(sql))
    return [span for span in spans if "/* pinned read " in sql[slice(*span)]]


compiled_readings = Readings(KEPT)


def statement_of(sql: str) -> str:
    """What Spark gets for a statement: with the queries of the views that are marked in it.

    Raises:
        DbtRuntimeError: it was compiled by another process, or too long ago.
    """
    resolved = compiled_readings.resolved(sql)
    left = MARK.search(resolved)
    if left is not None:
        raise DbtRuntimeError(
            f"The statement reads {left['name']} as another run had pinned it. Compile it again."
        )
    return resolved


def without_view_marks(sql: str) -> str:
    """The SQL with the views' names alone, as it was written.

    >>> without_view_marks("select * from dw.x /* pinned read 7 */ as t")
    'select * from dw.x as t'
    """
    return MARK.sub(r"\g<name>", sql)


def as_named(relation: Relation, read: Relation, into: Readings) -> Relation:
    """The relation `read`, which stands for `relation`, with a mark where it is a query."""
    if read.reading is None or not read.reading.startswith("("):
        return read
    return relation.replace(reading=into.marked(relation.render(), read.reading))
