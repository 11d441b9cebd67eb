"""By which times the rows of two sides of a join are partners."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from dbt.adapters.sparksession.declared.beliefs import moment_sql
from dbt.adapters.sparksession.edges import Given, Json, Settings
from dbt.adapters.sparksession.keyed.zippers import KNOWN_TIME, PERIODS

AS_KNOWN_AT = "as_known_at"
# columns since when and until when something was known
KNOWN_FROM, KNOWN_TO, _ = PERIODS[KNOWN_TIME]
INTERVAL = re.compile(r"([+-]?)(\d{1,9}) (microsecond|millisecond|second|minute|hour|day|week)s?")
PARTS_OF_A_SECOND = {"millisecond": 1_000, "microsecond": 1_000_000}
UNITS = "microseconds, milliseconds, seconds, minutes, hours, days or weeks"


def interval_sql(text: Given) -> str:
    """'-5 minutes' as a SQL interval.

    Only units of one length: a bound of months could not be taken back from the other side.

    Raises:
        ValueError: another text.

    >>> interval_sql("-5 minutes"), interval_sql("-1 millisecond")
    ("interval '-5' minute", "interval '-0.001000' second")
    """
    match = INTERVAL.fullmatch(str(text).strip().lower())
    if match is None:
        raise ValueError(f"must be a whole number of {UNITS}, got {text!r}")
    sign, count, unit = "-" if match[1] == "-" else "", int(match[2]), match[3]
    if unit in PARTS_OF_A_SECOND:
        return seconds_sql(int(f"{sign}{count}") * 1_000_000 // PARTS_OF_A_SECOND[unit])
    if unit == "week":
        count, unit = count * 7, "day"
    return f"interval '{sign if count else ''}{count}' {unit}"


def seconds_sql(micros: int) -> str:
    """So many microseconds as a SQL interval.

    >>> seconds_sql(2_000_000), seconds_sql(-500)
    ("interval '2' second", "interval '-0.000500' second")
    """
    whole, rest = divmod(abs(micros), 1_000_000)
    return f"interval '{'-' if micros < 0 else ''}{whole}{f'.{rest:06}' if rest else ''}' second"


def read_interval(name: str, text: Given, problems: list[str]) -> str:
    """The SQL interval that an argument of this name is; a problem and no time where it is none."""
    try:
        return interval_sql(text)
    except ValueError as exc:
        problems.append(f"{name} {exc}")
        return "interval '0' day"


def micros_of(interval: str) -> int:
    """How many microseconds a SQL interval of interval_sql is."""
    units = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
    _, count, unit = interval.replace("'", "").split()
    return int(Decimal(count) * units[unit] * 1_000_000)


def join_bounds(
    given: Settings, left: Mapping[str, str], right: Mapping[str, str], problems: list[str]
) -> tuple[str, list[Json], list[Json]]:
    """The condition of a join on its times, and where the partners of either side's rows lie.

    Args:
        given: {form} and what the form takes: lower and upper, expiry, as_known_at.
        left, right: what a column of a side's times is -> its name.
        problems: gets a text for each argument that is wrong.

    Returns:
        SQL over left_row and right_row, "" for none; where the left rows of right rows lie, and the
        right rows of left rows, as arguments of PruningColumn.
    """
    form, at, other = given["form"], left.get("time", ""), right.get("time", "")
    to_left: dict[str, str | None]
    to_right: dict[str, str | None]
    if form == "interval_join":
        lower = read_interval("lower", given.get("lower"), problems)
        upper = read_interval("upper", given.get("upper"), problems)
        if micros_of(lower) > micros_of(upper):
            problems.append(
                f"lower must not lie behind upper, got {given['lower']!r} and {given['upper']!r}"
            )
        condition = f"right_row.{other} between left_row.{at} + {lower} and left_row.{at} + {upper}"
        to_left = {"low": f"{other} - {upper}", "high": f"{other} - {lower}", "known": other}
        to_right = {"low": f"{at} + {lower}", "high": f"{at} + {upper}", "known": at}
        return condition, [{"column": at} | to_left], [{"column": other} | to_right]
    if form == "history_join":
        condition = f"right_row.{other} <= left_row.{at}"
        to_left = {"low": other, "high": None, "known": other}
        to_right = {"low": None, "high": at, "known": at}
        if given.get("expiry") is not None:
            expiry = read_interval("expiry", given["expiry"], problems)
            if micros_of(expiry) <= 0:
                problems.append(f"expiry must be above zero, got {given['expiry']!r}")
            condition += f" and right_row.{other} > left_row.{at} - {expiry}"
            to_left["high"], to_right["low"] = f"{other} + {expiry}", f"{at} - {expiry}"
        return condition, [{"column": at} | to_left], [{"column": other} | to_right]
    if form == "temporal_join":
        period = right["valid_from"], right["valid_to"]
        condition = _within_period(*period, f"left_row.{at}")
        lefts, rights = _near_period(at, *period)
        if given.get(AS_KNOWN_AT) is None:
            return condition, lefts, rights
        period = right[KNOWN_FROM], right[KNOWN_TO]
        known_at = left.get(AS_KNOWN_AT)
        if known_at is None:
            moment = _moment(given[AS_KNOWN_AT], problems)
            return f"{condition} and {_within_period(*period, moment)}", lefts, rights
        near_left, near_right = _near_period(known_at, *period)
        condition += f" and {_within_period(*period, f'left_row.{known_at}')}"
        return condition, lefts + near_left, rights + near_right
    return "", [], []


def _within_period(begin: str, end: str, time: str) -> str:
    """The condition that a time, as SQL, lies in the period of a right row."""
    return f"right_row.{begin} <= {time} and (right_row.{end} is null or {time} < right_row.{end})"


def _near_period(at: str, begin: str, end: str) -> tuple[list[Json], list[Json]]:
    """Where the left rows whose `at` lies in the period of a right row are, and these."""
    to_left = {"column": at, "low": begin, "high": end, "known": begin}
    from_left = {"column": begin, "low": None, "high": at, "known": at}
    until_left = {"column": end, "low": at, "high": None, "known": at, "nulls": True}
    return [to_left], [from_left, until_left]


def _moment(given: Given, problems: list[str]) -> str:
    try:
        return moment_sql(given)
    except ValueError as exc:
        problems.append(f"{AS_KNOWN_AT} must be a column of the left side, or {exc}")
        return "null"
