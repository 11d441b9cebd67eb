"""Windows of event time: the arguments of a window macro, what is wrong with them, and which
windows a run touches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.declared.join_bounds import (
    UNITS,
    interval_sql,
    micros_of,
    seconds_sql,
)
from dbt.adapters.sparksession.declared.window_zones import (
    date_sql,
    is_fixed,
    midnight_sql,
    window_zone,
)
from dbt.adapters.sparksession.edges import Given, Json, Settings
from dbt.adapters.sparksession.keyed.layout import TIMES
from dbt.adapters.sparksession.reading.ranges import values_of
from dbt.adapters.sparksession.sql import column_sql, literal, unquoted
from dbt.adapters.sparksession.yaml_fields import (
    Columns,
    Condition,
    Fields,
    Name,
    is_mapping,
    read_fields,
)
from pydantic import AfterValidator, BeforeValidator, Field

STRATEGY = "replace_windows"
START, END, DATE = "window_start", "window_end", "window_date"
AT = "window__at"  # the event time of a row, as the macros' SQL passes it on
LENGTH = re.compile(r"(\d{1,9}) (microsecond|millisecond|second|minute|hour|day|week|month|year)s?")
SECOND = 1_000_000  # all lengths are counted in microseconds
HOUR, DAY, WEEK = 3600 * SECOND, 86_400 * SECOND, 7 * 86_400 * SECOND
MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": HOUR,
    "day": DAY,
    "week": WEEK,
}
LONGEST = 999_999 * WEEK  # a sum of a time and two of them is a whole number of 64 bits
MOST_PARTS = 1_000_000  # of a window: each row would be in that many
HALF_HOUR = HOUR // 2  # clocks are put forward and back by whole or half hours
MONDAY = 4 * DAY  # 1970-01-05, from which weeks are counted
EXAMPLES = {
    "tumble": "tumble(rows=ref('x'), time='create_time', size='5 minutes')",
    "slide": "slide(rows=ref('x'), time='create_time', size='1 hour', slide='5 minutes')",
    "cumulate": "cumulate(rows=ref('x'), time='create_time', size='1 day', step='1 hour')",
    "session": "session(rows=ref('x'), time='view_time', key='user_id', gap='30 minutes')",
    "window_rejects": "window_rejects(rows=ref('x'), time='create_time')",
}


class WindowError(DeclarationError):
    """The arguments of a window macro."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        super().__init__(name, problems, EXAMPLES[name])


@dataclass(frozen=True)
class Length:
    """A length of time: so many microseconds, or so many months."""

    micros: int = 0
    months: int = 0
    weeks: bool = False

    @classmethod
    def read(cls, text: Given) -> Length:
        """The length that '5 minutes', '1 day' or '3 months' name.

        Raises:
            ValueError: another text.
        """
        match = LENGTH.fullmatch(str(text).strip().lower())
        count, unit = (int(match[1]), match[2]) if match else (0, "")
        if not 0 < count * MICROS.get(unit, DAY) <= LONGEST:
            raise ValueError(
                "must be a number of microseconds, milliseconds, seconds, minutes, hours, days, "
                f"weeks, months or years, got {text!r}"
            )
        if unit in MICROS:
            return cls(micros=count * MICROS[unit], weeks=unit == "week")
        return cls(months=count * (12 if unit == "year" else 1))

    @property
    def is_counted(self) -> bool:
        """Whether windows of it are counted from the day's midnight, and each is as long as it
        states; longer windows are cut by clock and calendar."""
        return 0 < self.micros <= HOUR

    @property
    def interval(self) -> str:
        """It as a SQL interval, where it isn't of months."""
        return seconds_sql(self.micros)

    @property
    def stored(self) -> list[int | str | bool]:
        """It as commits have it: seconds, months, whether it is of weeks."""
        seconds, rest = divmod(self.micros, SECOND)
        return [f"{self.micros} microseconds" if rest else seconds, self.months, self.weeks]

    @property
    def anchor(self) -> int:
        """Microseconds from 1970-01-01 to where windows of it are counted from."""
        return MONDAY if self.weeks else 0

    @property
    def grid_problem(self) -> str | None:
        """Error text for windows that no day, or no year, is made of, else None."""
        if self.months:
            return None if 12 % self.months == 0 else "months must be 1, 2, 3, 4, 6 or 12"
        if self.micros <= HOUR:
            return None if HOUR % self.micros == 0 else "a length below an hour must divide it"
        if self.micros < DAY:
            fits = self.micros % HOUR == 0 and DAY % self.micros == 0
            return None if fits else "hours must be 1, 2, 3, 4, 6, 8 or 12"
        return None if self.micros % DAY == 0 else "a length above a day must be of whole days"

    def holds(self, part: Length) -> bool:
        """Whether it is made of whole parts, which begin where it begins."""
        if self.months:
            fits_day = 0 < part.micros <= DAY and DAY % part.micros == 0
            return self.months % part.months == 0 if part.months else fits_day
        if part.months or self.micros % part.micros:
            return False
        # weeks and other numbers of days are counted from different days
        return part.micros <= DAY or part.weeks == self.weeks


@dataclass(frozen=True)
class Window:
    """A window macro's call.

    Attributes:
        form: tumble, slide, cumulate, session or window_rejects.
        time: column of the event time, as SQL.
        time_type: its Spark type; "" where that is unknown.
        size: length of a window; of a session the gap that ends it.
        part: length of a slide or of a step; else that of the size.
        key: columns of a session's key, as SQL; () where all rows are of one.
        key_types: their types, where known.
        zone: in which days begin.
        where: SQL condition on the rows; "" for none.
        invalid: (SQL condition on window__at and the row, reason) of times that open no window.
        offset: microseconds by which the windows begin later; of a length without months fewer
            than of the part that it is counted by.
    """

    form: str
    time: str
    zone: str
    size: Length = Length()
    part: Length = Length()
    key: tuple[str, ...] = ()
    gap: str = ""
    where: str = ""
    invalid: tuple[tuple[str, str], ...] = ()
    time_type: str = ""
    offset: int = 0
    key_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone_text(self) -> str:
        """The zone as a SQL literal."""
        return literal(self.zone)

    @property
    def clocks_change(self) -> bool:
        """Whether the zone's clocks may change."""
        return not is_fixed(self.zone)

    def midnight_of(self, time: str) -> str:
        """SQL of what the clock showed as the day of a time began, see midnight_sql."""
        return midnight_sql(time, self.zone)

    def date_of(self, time: str) -> str:
        """SQL of the day of a time."""
        return date_sql(time, self.zone)

    @property
    def panes(self) -> int:
        """How many slides a window is long."""
        if self.size.months:
            return self.size.months // self.part.months
        return self.size.micros // self.part.micros

    @property
    def is_even(self) -> bool:
        """Whether slides of a counted length follow each other evenly across every midnight."""
        return is_fixed(self.zone) or HALF_HOUR % self.part.micros == 0

    @property
    def shift(self) -> str:
        """By how much its windows begin later than those without an offset, as a SQL interval; ""
        where they don't."""
        return seconds_sql(self.offset) if self.offset else ""

    @property
    def is_shifted_evenly(self) -> bool:
        """Whether its windows lie by so much later in time, not on the clock, see `shift`."""
        return self.part.is_counted and (self.form != "cumulate" or self.size.is_counted)

    @property
    def unit(self) -> tuple[str, ...]:
        """Columns that distinguish its windows."""
        return (*self.key_names, START, END)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key's columns."""
        return tuple(map(unquoted, self.key))

    @property
    def near(self) -> list[Json]:
        """Where rows of touched windows lie, as arguments of PruningColumn; [] where the time can't
        rule files out."""
        if self.time_type not in TIMES:
            return []
        low, high = ("first_at", "last_at") if self.form == "session" else (START, END)
        return [{"column": self.time, "kind": self.time_type, "low": low, "high": high}]

    @property
    def near_neighbours(self) -> list[Json]:
        """The same of rows within a session's gap of touched spans."""
        bounds = {"low": f"first_at - {self.gap}", "high": f"last_at + {self.gap}"}
        return [arguments | bounds for arguments in self.near]

    @property
    def near_keys(self) -> list[Json]:
        """The same by the keys that are touched."""
        return [values_of(name, kind) for name, kind in self.key_types.items()]

    @property
    def definition(self) -> str:
        """What its stored rows depend on, as JSON."""
        definition = {
            "form": self.form,
            "time": self.time,
            "key": self.key,
            "size": self.size.stored,
            "part": self.part.stored,
            "gap": self.gap,
            "zone": self.zone,
            "where": self.where,
            "invalid": [condition for condition, _ in self.invalid],
        }
        if self.offset:
            definition["offset"] = f"{self.offset} microseconds"
        return json.dumps(definition, separators=(",", ":"))


def _or_utc(zone: Given) -> Given:
    """A zone as it is given, UTC where none is: an empty text is given, and no zone."""
    return "UTC" if zone is None else zone


def _instant(value: Given) -> str:
    """A bound as a SQL timestamp; times without a zone are UTC.

    Raises:
        ValueError: no date or time.
    """
    time = datetime.fromisoformat(str(value))
    zone = "" if time.tzinfo else " UTC"
    return f"timestamp '{time.isoformat(sep=' ')}{zone}'"


def _rows(value: Given) -> Given:
    if not isinstance(value, str) and not hasattr(value, "render"):
        raise ValueError("no rows")
    return value


def _identifier(value: str) -> str:
    if not value.isidentifier():
        raise ValueError("no name")
    return value


Instant = Annotated[str, BeforeValidator(_instant), Field(description="be a date or a time")]


class WindowArguments(Fields):
    """What every window macro takes."""

    NEEDED = ("rows", "time")

    rows: Annotated[
        Given,
        AfterValidator(_rows),
        Field(description="be a relation or the name of a CTE"),
    ] = ""
    time: Annotated[Name, Field(description="name a column")] = "time"
    zone: Annotated[
        str,
        BeforeValidator(window_zone),
        Field(description="be a zone's name or an offset, such as UTC or +08:00"),
    ] = "UTC"
    where: Condition = None


class SessionArguments(Fields):
    """What `session` takes beside, apart from its gap."""

    key: Annotated[
        Columns | None,
        Field(description="name the columns of a session's key, or be left out"),
    ] = None


class WindowBounds(Fields):
    """Bounds of the times that open windows."""

    NEEDED = ("earliest", "latest")

    earliest: Instant = ""
    latest: Instant = ""
    received: Annotated[
        Name | None,
        AfterValidator(lambda name: name and _identifier(name)),
        Field(description="name a column"),
    ] = None
    ahead: Annotated[
        str | None,
        BeforeValidator(lambda text: text if text is None else interval_sql(text)),
        Field(description=f"be a whole number of {UNITS}"),
    ] = None


def _length(name: str, text: Given, problems: list[str]) -> Length:
    try:
        return Length.read(text)
    except ValueError as exc:
        problems.append(f"{name} {exc}")
        return Length(micros=DAY)


def _invalid(given: Given, time: str, problems: list[str]) -> tuple[tuple[str, str], ...]:
    """Conditions of times that open no window, and the reasons; the first that holds counts."""
    known = WindowBounds.model_fields
    if not is_mapping(given) or given.keys() - known.keys():
        problems.append(f"bounds must be a mapping of {', '.join(known)}, got {given!r}")
        return ()
    bounds = read_fields(WindowBounds, given, "bounds.", problems)
    if (given.get("received") is None) != (given.get("ahead") is None):
        problems.append("bounds.received and bounds.ahead need each other")
        return ()
    found = [
        (f"{time} is null", "event time is null"),
        (f"{AT} is null", "event time can't be read"),
        (f"{AT} < {bounds.earliest}", f"event time lies before {given.get('earliest')}"),
        (f"{AT} >= {bounds.latest}", f"event time lies behind {given.get('latest')}"),
    ]
    if bounds.received is not None:
        # a row that doesn't say when it was received is held against the other bounds alone
        condition = f"coalesce({AT} > {bounds.received} + {bounds.ahead}, false)"
        reason = f"event time lies more than {given['ahead']} behind {bounds.received}"
        found.append((condition, reason))
    return tuple(found)


def _lengths(form: str, given: Settings, problems: list[str]) -> tuple[Length, Length]:
    """The lengths of a window and of its parts."""
    if form in ("session", "window_rejects"):
        return Length(), Length()
    size = _length("size", given.get("size"), problems)
    if form == "tumble":
        if size.grid_problem:
            problems.append(f"size {size.grid_problem}, got {given['size']!r}")
        return size, size
    name = "slide" if form == "slide" else "step"
    part = _length(name, given.get(name), problems)
    if part.grid_problem:
        problems.append(f"{name} {part.grid_problem}, got {given[name]!r}")
    if form == "slide":
        fits = size.months % part.months == 0 if part.months else not size.months
        fits = fits and (bool(part.months) or size.micros % part.micros == 0)
        fits = fits and bool(size.months) == bool(part.months)
    else:
        fits = size.holds(part) and not (part.is_counted and (size.months or size.micros > DAY))
        if size.grid_problem:
            problems.append(f"size {size.grid_problem}, got {given['size']!r}")
    if not fits:
        problems.append(
            f"size must be made of whole {name}s"
            + ("; one above a day of days or longer steps" if form == "cumulate" else "")
            + f", got {given['size']!r} and {given[name]!r}"
        )
    elif not part.months and size.micros // part.micros > MOST_PARTS:
        problems.append(
            f"size must be at most {MOST_PARTS:,} {name}s, got {given['size']!r} and "
            f"{given[name]!r}"
        )
    return size, part


def _offset(given: Settings, window: Window, problems: list[str]) -> int:
    """By how many microseconds the windows begin later, see Window.offset.

    Where clocks are put back, an hour is shown twice: a window over an hour may begin where that
    hour does, but not within it.
    """
    text = given.get("offset")
    if text is None:
        return 0
    try:
        offset = micros_of(interval_sql(text))
    except ValueError as exc:
        problems.append(f"offset {exc}")
        return 0
    if abs(offset) > LONGEST:
        problems.append(f"offset must be at most {LONGEST // WEEK:,} weeks, got {text!r}")
        return 0
    length = window.size if window.form == "cumulate" else window.part
    if not window.is_shifted_evenly and not is_fixed(window.zone) and offset % HOUR:
        problems.append(
            "offset must be of whole hours where windows are longer than an hour and the zone's "
            f"clocks may change, got {text!r} in {window.zone}"
        )
    return offset if length.months else offset % length.micros


def read_window(given: Settings) -> Window:
    """The window that a macro's call asks for.

    Args:
        given: {form, rows, time, zone, where, bounds} and what the form takes beside.

    Raises:
        WindowError: with every problem.
    """
    problems: list[str] = []
    form = given["form"]
    own = {name: given[name] for name in ("rows", "time")}
    own |= {"zone": _or_utc(given.get("zone")), "where": given.get("where")}
    arguments = read_fields(WindowArguments, own, "", problems)
    size, part = _lengths(form, given, problems)
    key: tuple[str, ...] = ()
    gap = ""
    if form == "session":
        key = read_fields(SessionArguments, {"key": given.get("key")}, "", problems).key or ()
        try:
            gap = interval_sql(given.get("gap"))
        except ValueError as exc:
            problems.append(f"gap {exc}")
        if gap and micros_of(gap) <= 0:
            problems.append(f"gap must be above zero, got {given['gap']!r}")
    window = Window(
        form=form,
        time=arguments.time,
        zone=arguments.zone,
        size=size,
        part=part,
        key=key,
        gap=gap,
        where=arguments.where or "",
        invalid=_invalid(given.get("bounds"), arguments.time, problems),
    )
    if not problems:
        window = replace(window, offset=_offset(given, window, problems))
    if problems:
        raise WindowError(form, problems)
    return window


def as_sql(window: Window) -> Json:
    """The arguments of a window that name columns, with backticks where a name needs them."""
    named = {"time": column_sql(window.time)}
    return named | {"key": list(map(column_sql, window.key))} if window.key else named


def spans_condition(low_column: str, high_column: str, spans: Sequence[tuple[str, str]]) -> str:
    """SQL condition: what lies from one column to the other meets one of the spans."""
    each = (f"({low_column} <= {high} and {high_column} >= {low})" for low, high in spans)
    return f"({' or '.join(each)})" if spans else "false"
