"""Queries that may answer otherwise while no input changes."""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from dbt.adapters.sparksession.sql_texts import COMMENT
from sqlglot import exp

# what may give other rows while no input changes: the clock, chance, who asks, how files lie, what
# Java is asked for, what dbt puts into the SQL again in each run, and what a model asks past
# run_query, where nobody looks at the tables that it names. A text like 'today UTC' is a day to
# Spark: the name of a zone may stand behind it
GOES_BY_CLOCK = re.compile(
    r"\b(?:current_(?:date|time|timestamp|user|database|schema|catalog)\b|session_user\b|"
    r"localtimestamp\b|unix_timestamp\s*\(\s*\)|tablesample\b|run_started_at\b|"
    r"invocation_id\b|invocation_args_dict\b|selected_resources\b|flags\.(?-i:[A-Z])|"
    r"modules\.(?:datetime|pytz)\b|call\s*+(?:\(\s*+\w*+\s*+\)\s*+)?statement\b|adapter\.execute\b|"
    r"(?:now|curdate|user|rand|randn|random|randstr|uniform|shuffle|uuid|input_file_name|"
    r"input_file_block_(?:start|length)|monotonically_increasing_id|spark_partition_id|"
    r"(?:try_)?reflect|java_method)`?\s*\()|"
    r"""['"]\s*(?:now|(?:today|tomorrow|yesterday)(?:\s*[+-][\d:]+|\s+[\w/+:-]+)?)\s*['"]""",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def goes_by_clock(sql: str | None) -> bool:
    """Whether a query, also one that dbt has to render yet, may give other rows while its inputs
    stay as they are."""
    text = COMMENT.sub(lambda found: found["quoted"] or " ", sql or "")
    return GOES_BY_CLOCK.search(text) is not None


# what makes a text a time, where it is 'today'
TIMES = (exp.Cast, exp.TsOrDsToDate, exp.TsOrDsToTimestamp, exp.StrToTime)


def condition_asks_clock(sql: str | None) -> bool:
    """Whether a SQL condition, or an expression, asks the clock or chance; one that can't be parsed
    where its text looks so.

    >>> [condition_asks_clock(sql) for sql in ("at < date 'now'", "state = 'now'")]
    [True, False]
    """
    if not goes_by_clock(sql):
        return False
    try:
        tree = sqlglot.parse_one(f"select {sql}", read="spark")
    except sqlglot.errors.SqlglotError:
        return True
    for text in [*tree.find_all(exp.Literal)]:
        if text.is_string and not isinstance(text.parent, TIMES):
            text.replace(exp.Literal.string(""))
    return goes_by_clock(tree.sql("spark"))
