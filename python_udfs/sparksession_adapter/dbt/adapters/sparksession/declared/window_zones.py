"""Zones that windows lie in: their names, and the days of their clocks."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dbt.adapters.sparksession.edges import Given
from dbt.adapters.sparksession.sql import literal

OFFSET = re.compile(r"[+-](?:(?:0\d|1[0-7]):[0-5]\d|18:00)")
# of Python's zones those that Java doesn't have
OF_PYTHON = re.compile(r"(?:localtime|posixrules|Factory|posix/.*|right/.*)")
ZONE = re.compile(r"[A-Za-z][\w+\-]*(/[\w+\-]+)*")


def is_fixed(zone: str) -> bool:
    """Whether a zone's clocks never change."""
    return zone == "UTC" or OFFSET.fullmatch(zone) is not None


def midnight_sql(time: str, zone: str) -> str:
    """SQL of what a zone's clock showed as the day of a time began.

    Clocks that are put back behind a midnight show the day before once more: the day that has begun
    goes on, so that the days of times that follow each other never step back.

    Args:
        time: SQL of the time.
    """
    shown = f"date_trunc('day', from_utc_timestamp({time}, {literal(zone)}))"
    if is_fixed(zone):
        return shown
    next_day, day_before = f"{shown} + interval '1' day", f"{shown} - interval '1' day"
    begin, end = (f"to_utc_timestamp({at}, {literal(zone)})" for at in (shown, next_day))
    return (
        f"case when {end} <= {time} then {next_day} "
        f"when {begin} > {time} then {day_before} else {shown} end"
    )


def date_sql(time: str, zone: str) -> str:
    """SQL of the day of a zone that a time lies in, see midnight_sql."""
    return f"cast({midnight_sql(time, zone)} as date)"


def window_zone(value: Given) -> str:
    """A time zone's name or offset.

    Raises:
        ValueError: there is no such zone.
    """
    text = str(value)
    if OFFSET.fullmatch(text):
        return text
    if ZONE.fullmatch(text) and not OF_PYTHON.fullmatch(text):
        try:
            ZoneInfo(text)
        except (ZoneInfoNotFoundError, OSError):
            pass
        else:
            return text
    raise ValueError("no zone")
