"""Hours and days of UTC beside days of the business zone: where a model mixes the two."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dbt.adapters.sparksession.sql_texts import without_comments

DAY_COLUMN = re.compile(r"\bcut_(?:date|month|year)\b")
# of these the answer depends on the zone; minutes and seconds are hardly another zone's
CALL = re.compile(
    r"(?<![\w'\"])(hour|date_part|extract|date_trunc|trunc|date_format|window|to_date|date|day|weekday"
    r"|dayofweek|dayofmonth|dayofyear|weekofyear|cast)\s*\(",
    re.IGNORECASE,
)
WITH_UNIT = ("date_part", "extract", "date_trunc", "trunc", "date_format", "window")
UNIT = re.compile(
    r"\b(?:hour|day|week)\s++from\b|(?P<q>['\"])(?:hour|day|week|dd|hh|\d+ (?:day|week)s?)(?P=q)"
    r"|'[^'hHkK]*+[hHkK][^']*+'",
    re.IGNORECASE,
)
TO_DATE = re.compile(r"\bas\s++date\s*\)$", re.IGNORECASE)
# of a time that is written behind a value: x::date, F.col("x").cast("date")
CAST = re.compile(
    r"((?<![\w.])[\w.]++|\([^()]*+\)|(?<!\w)\w++\([^()]*+\))"
    r"\s*+(?:::\s*+date\b|\.cast\(\s*+['\"]date['\"]\s*+\))",
    re.IGNORECASE,
)
SHIFTED = re.compile(r"\b(?:business_time|from_utc_timestamp|convert_timezone)\s*\(", re.IGNORECASE)
NAMED = re.compile(r"(?:\s*+\}\})?\s++as\s++(\w++)", re.IGNORECASE)
ASSIGNED = re.compile(r"(?<!\w)(\w++)\s*+=\s*+(?:\w++\.)?$")
# a column of a day has no hours, whatever its zone
DAY_NAME = re.compile(r"\b\w*(?:day|date|month|year)s?\b", re.IGNORECASE)
IN_JINJA = re.compile(r"\{\{(?:[^}]++|\}(?!\}))*+(?:\}\}|\Z)")
STAR = re.compile(r"\*\s*,|,\s*(?:\w+\.)?\*")
TEXT = re.compile(r"'[^']*+'")
HOURS = re.compile(r"hour\b|(?:extract|date_part)\s*+\(\s*+['\"]?hour\b", re.IGNORECASE)


def _end_of_call(sql: str, start: int) -> int:
    """Where the parenthesis that opens before `start` is closed."""
    depth, at = 1, start
    while at < len(sql) and depth:
        depth += {"(": 1, ")": -1}.get(sql[at], 0)
        at += 1
    return at


def selects_all_columns(sql: str) -> bool:
    """Whether a model shows all columns of an input beside others of its own."""
    return STAR.search(without_comments(sql)) is not None


def utc_hours(sql: str, has_days: bool = False) -> Iterator[str]:
    """The calls in a model's SQL, or Python, that cut times by the hours or days of UTC, where the
    model also has days of the business zone.

    Args:
        has_days: whether it has, though it doesn't name them.

    >>> list(utc_hours("select cut_date, hour(create_time) as h from x"))
    ['hour(create_time)']
    """
    text = without_comments(sql)
    if not has_days and not DAY_COLUMN.search(text):
        return
    shifted = set()
    for call in SHIFTED.finditer(text):
        given = NAMED.match(text, _end_of_call(text, call.end()))
        given = given or ASSIGNED.search(text, max(0, call.start() - 80), call.start())
        if given is not None:
            shifted.add(given[1])

    def is_of_utc(arguments: str) -> bool:
        names = set(re.findall(r"[A-Za-z_]\w*", arguments))
        return not (SHIFTED.search(arguments) or shifted & names)

    macros = [found.span() for found in IN_JINJA.finditer(text)]
    end_of_last = 0
    for call in CALL.finditer(text):
        name = call[1].lower()
        if call.start() < end_of_last:
            continue
        if name == "to_date" and any(start < call.start() < end for start, end in macros):
            continue  # the macro of totals
        found = text[call.start() : _end_of_call(text, call.end())]
        arguments = found[found.index("(") :]
        if name == "cast" and not TO_DATE.search(arguments):
            continue
        if name in WITH_UNIT and not UNIT.search(arguments):
            continue
        if name != "hour" and DAY_COLUMN.search(arguments):
            continue
        if name not in ("hour", "date_part", "extract", "date_trunc", "date_format"):
            # of what is a day, or a text, already
            value = TO_DATE.sub(")", arguments)
            bare = TEXT.sub("", value)
            if DAY_NAME.search(bare) or not re.search(r"[A-Za-z_]|\"", bare):
                continue
        if is_of_utc(arguments):
            end_of_last = call.start() + len(found)
            yield " ".join(found.split())
    for cast in CAST.finditer(text):
        if is_of_utc(cast[1]) and not DAY_NAME.search(cast[1]):
            yield " ".join(cast[0].split())


def utc_hours_of_macro(sql: str) -> Iterator[str]:
    """The calls in a macro that take hours of UTC of a column. A column that the macro is given
    is left out: whoever calls it may have shifted it.

    >>> list(utc_hours_of_macro("{% macro h() %}hour(create_time){% endmacro %}"))
    ['hour(create_time)']
    >>> list(utc_hours_of_macro("{% macro h(time) %}hour({{ time }}){% endmacro %}"))
    []
    """
    for call in utc_hours(sql, has_days=True):
        if HOURS.match(call) and "{{" not in call:
            yield call
