"""Hours and days of UTC beside days of the business zone: where a model mixes the two."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dbt.adapters.sparksession.sql_texts import without_comments

DAY_COLUMN = re.compile(r"\bcut_(?:date|month|year)\b")
# of these the answer depends on the zone; minutes and seconds are hardly another zone's
CALL = re.compile(r"\b(hour|date_part|extract|date_trunc|date_format)\s*\(", re.IGNORECASE)
UNIT = re.compile(r"\bhour\b|'(?:hour|day|week|dd|hh)'|'[^'hHkK]*+[hHkK][^']*+'", re.IGNORECASE)
SHIFTED = re.compile(r"\b(?:business_time|from_utc_timestamp|convert_timezone)\s*\(", re.IGNORECASE)
NAMED = re.compile(r"(?:\s*+\}\})?\s++as\s++(\w++)", re.IGNORECASE)


def _end_of_call(sql: str, start: int) -> int:
    """Where the parenthesis that opens before `start` is closed."""
    depth, at = 1, start
    while at < len(sql) and depth:
        depth += {"(": 1, ")": -1}.get(sql[at], 0)
        at += 1
    return at


def utc_hours(sql: str) -> Iterator[str]:
    """The calls in a model's SQL that cut times by the hours or days of UTC, where the model also
    has days of the business zone.

    >>> list(utc_hours("select cut_date, hour(create_time) as h from x"))
    ['hour(create_time)']
    """
    text = without_comments(sql)
    if not DAY_COLUMN.search(text):
        return
    shifted = set()
    for call in SHIFTED.finditer(text):
        name = NAMED.match(text, _end_of_call(text, call.end()))
        if name is not None:
            shifted.add(name[1])
    for call in CALL.finditer(text):
        found = text[call.start() : _end_of_call(text, call.end())]
        arguments = found[found.index("(") :]
        is_shifted = SHIFTED.search(arguments) or shifted & set(re.findall(r"\w+", arguments))
        if not is_shifted and (call[1].lower() == "hour" or UNIT.search(arguments)):
            yield " ".join(found.split())
