"""Queries that take or leave out new rows by the clock: such a row is read once, whatever comes of
the condition later."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from dbt.adapters.sparksession.clock import TIMES, goes_by_clock
from dbt.adapters.sparksession.reading.news_queries import reads_news
from dbt.adapters.sparksession.reading.query_parts import (
    NEWS,
    conditions_of,
    cte_of,
    in_tables,
    label_of,
    parsed,
    sources_of,
    subqueries,
)
from sqlglot import exp

BY_CLOCK = (
    "takes or leaves out new rows by the clock, and reads each row once, so that a row which the "
    "condition lets in later never comes, and a row which it lets out later stays; leave rows out "
    "by the clock in a view that reads this model, or rewrite whole partitions by "
    "changed_partitions(..)"
)
BATCH_BY_CLOCK = (
    "takes or leaves out rows of a batch by the clock, and makes no batch again that lies behind "
    "lookback, so that a row which the condition lets in later never comes, and a row which it "
    "lets out later stays; leave rows out by the clock in a view that reads this model"
)
CLOCKS = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtimestamp)
NAMES = ("now", "curdate", "localtimestamp", "getdate")  # of functions of the clock
MOMENT = re.compile(r"\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)
OF_RUN = re.compile(r"\brun_started_at\b|\bmodules\s*\.\s*datetime\b")


def problem_of_clock(sql: str, news: Collection[str], raw_code: str) -> str | None:
    """Why a query whose runs add up depends on when they are; None where no condition on its new
    rows, or on rows that new rows choose, asks the clock.

    Args:
        sql: a statement of Spark SQL.
        news: its parts, for a `from`, that read what is new.
        raw_code: what dbt rendered it from. Where that names the run's start, a day around today
            that stands in a condition is taken for it.

    Raises:
        UnreadableQuery: it can't be parsed.

    >>> problem_of_clock("select * from (n) where at < now()", ["(n)"], "") == BY_CLOCK
    True
    >>> problem_of_clock("select *, now() as at from (n)", ["(n)"], "")
    """
    names_run = OF_RUN.search(raw_code) is not None
    tree = parsed(sql, news, NEWS) if names_run or goes_by_clock(sql) else None
    if tree is None:
        return None
    today = datetime.now(UTC).date() if names_run else None
    days = () if today is None else tuple(str(today + timedelta(n)) for n in (-1, 0, 1))
    for query in tree.find_all(exp.Select):
        for condition in _conditions_on_news(query):
            if _asks_clock(condition, days):
                return BY_CLOCK
    return None


def _conditions_on_news(query: exp.Select) -> Iterator[exp.Expr]:
    """The conditions of a select that its new rows, or rows that new rows choose, have to fulfil,
    of columns of tables: not those on what the rows are looked up in alone."""
    sources = sources_of(query)
    looked_up = {label_of(source) for source in sources if not reads_news(source)}
    if len(looked_up) == len(sources):
        if not any(map(reads_news, subqueries(query))):
            return
        looked_up = set()
    asked = [query.args.get(name) for name in ("where", "having", "qualify")]
    for join in query.args.get("joins") or ():
        if not join.side and join.kind.upper() in ("", "INNER", "CROSS"):
            asked.append(join.args.get("on"))
    for condition in (item for whole in asked for item in conditions_of(whole)):
        columns = [*condition.find_all(exp.Column)]
        if not columns or {column.table.lower() for column in columns} - looked_up:
            yield in_tables(condition, sources)
            yield condition  # whose queries can be followed to their CTEs


def _asks_clock(condition: exp.Expr, days: tuple[str, ...]) -> bool:
    """Whether the clock stands in a condition, or in a query that gives it a value; what is looked
    up in a table is as of the run."""
    waiting, seen = [condition], set[int]()
    while waiting:
        for part in waiting.pop().walk(prune=_looks_up):
            if _is_clock(part, days):
                return True
            cte = cte_of(part) if isinstance(part, exp.Table) else None
            if cte is not None and id(cte) not in seen:
                seen.add(id(cte))
                waiting.append(cte.this)
    return False


def _looks_up(part: exp.Expr) -> bool:
    """Whether a part of a condition is a query that reads a table."""
    return isinstance(part, exp.Query) and any(
        cte_of(table) is None for table in part.find_all(exp.Table)
    )


def _is_clock(part: exp.Expr, days: tuple[str, ...]) -> bool:
    """Whether a part of a condition is the time of the run.

    Args:
        days: texts that begin the run's start.
    """
    if isinstance(part, CLOCKS):
        return True
    if isinstance(part, exp.Anonymous):
        return part.name.lower() in NAMES
    if isinstance(part, exp.Column):
        return not part.table and part.name.lower() == "localtimestamp"
    if isinstance(part, exp.Literal) and part.is_string:
        is_moment = isinstance(part.parent, TIMES) and MOMENT.match(part.name) is not None
        return is_moment or (bool(days) and part.name.lstrip().startswith(days))
    return False
