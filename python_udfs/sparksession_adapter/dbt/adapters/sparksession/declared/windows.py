"""Windows of event time: the arguments of a window macro, what is wrong with them, and which
windows a run touches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.declared.joins import interval_sql
from dbt.adapters.sparksession.edges import Given, Json, Node, Settings
from dbt.adapters.sparksession.inputs import ReadPlan, TouchedWindows
from dbt.adapters.sparksession.keyed.layout import TIMES, column_names
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.ranges import ColumnRanges, values_of
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.sql import literal, quoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.exceptions import CompilationError

STRATEGY = "replace_windows"
START, END, DATE = "window_start", "window_end", "window_date"
BOUNDS = ("earliest", "latest", "received", "ahead")
WINDOW_PROPERTY = "window.definition"
AT = "window__at"  # the event time of a row, as the macros' SQL passes it on
LENGTH = re.compile(r"(\d{1,6}) (second|minute|hour|day|week|month|year)s?")
OFFSET = re.compile(r"[+-](0\d|1[0-8]):[0-5]\d")
ZONE = re.compile(r"[A-Za-z][\w+\-]*(/[\w+\-]+)*")
HOUR, DAY, WEEK = 3600, 86_400, 7 * 86_400
SECONDS = {"second": 1, "minute": 60, "hour": HOUR, "day": DAY, "week": WEEK}
HALF_HOUR = 1800  # clocks are put forward and back by whole or half hours
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
    """A length of time: so many seconds, or so many months."""

    seconds: int = 0
    months: int = 0
    weeks: bool = False

    @classmethod
    def read(cls, text: Given) -> Length:
        """The length that '5 minutes', '1 day' or '3 months' name.

        Raises:
            ValueError: another text.
        """
        match = LENGTH.fullmatch(str(text).strip().lower())
        if match is None or int(match[1]) == 0:
            raise ValueError(
                "must be a number of seconds, minutes, hours, days, weeks, months or years, "
                f"got {text!r}"
            )
        count, unit = int(match[1]), match[2]
        if unit in SECONDS:
            return cls(seconds=count * SECONDS[unit], weeks=unit == "week")
        return cls(months=count * (12 if unit == "year" else 1))

    @property
    def is_counted(self) -> bool:
        """Whether windows of it are counted from the day's midnight, and each is as long as it
        states; longer windows are cut by clock and calendar."""
        return 0 < self.seconds <= HOUR

    @property
    def micros(self) -> int:
        return self.seconds * 1_000_000

    @property
    def anchor(self) -> int:
        """Microseconds from 1970-01-01 to where windows of it are counted from."""
        return MONDAY * 1_000_000 if self.weeks else 0

    @property
    def grid_problem(self) -> str | None:
        """Error text for windows that no day, or no year, is made of, else None."""
        if self.months:
            return None if 12 % self.months == 0 else "months must be 1, 2, 3, 4, 6 or 12"
        if self.seconds <= HOUR:
            return None if HOUR % self.seconds == 0 else "a length below an hour must divide it"
        if self.seconds < DAY:
            fits = self.seconds % HOUR == 0 and DAY % self.seconds == 0
            return None if fits else "hours must be 1, 2, 3, 4, 6, 8 or 12"
        return None if self.seconds % DAY == 0 else "a length above a day must be of whole days"

    def holds(self, part: Length) -> bool:
        """Whether it is made of whole parts, which begin where it begins."""
        if self.months:
            fits_day = 0 < part.seconds <= DAY and DAY % part.seconds == 0
            return self.months % part.months == 0 if part.months else fits_day
        if part.months or self.seconds % part.seconds:
            return False
        # weeks and other numbers of days are counted from different days
        return part.seconds <= DAY or part.weeks == self.weeks


@dataclass(frozen=True)
class Window:
    """A window macro's call.

    Attributes:
        form: tumble, slide, cumulate, session or window_rejects.
        time: column of the event time.
        time_type: its Spark type; "" where that is unknown.
        size: length of a window; of a session the gap that ends it.
        part: length of a slide or of a step; else that of the size.
        key: columns of a session's key.
        key_types: their types, where known.
        zone: in which days begin.
        where: SQL condition on the rows; "" for none.
        invalid: (SQL condition on window__at and the row, reason) of times that open no window.
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
    key_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def zone_text(self) -> str:
        """The zone as a SQL literal."""
        return literal(self.zone)

    @property
    def panes(self) -> int:
        """How many slides a window is long."""
        if self.size.months:
            return self.size.months // self.part.months
        return self.size.seconds // self.part.seconds

    @property
    def is_even(self) -> bool:
        """Whether slides of a counted length follow each other evenly across every midnight."""
        fixed = self.zone == "UTC" or OFFSET.fullmatch(self.zone)
        return bool(fixed) or HALF_HOUR % self.part.seconds == 0

    @property
    def unit(self) -> tuple[str, ...]:
        """Columns that distinguish its windows."""
        return (*self.key, START, END)

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
            "size": [self.size.seconds, self.size.months, self.size.weeks],
            "part": [self.part.seconds, self.part.months, self.part.weeks],
            "gap": self.gap,
            "zone": self.zone,
            "where": self.where,
            "invalid": [condition for condition, _ in self.invalid],
        }
        return json.dumps(definition, separators=(",", ":"))


def zone_problem(zone: Given) -> str | None:
    """Error text for an invalid time zone, else None."""
    text = str(zone)
    if OFFSET.fullmatch(text):
        return None
    if ZONE.fullmatch(text):
        try:
            ZoneInfo(text)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
        else:
            return None
    return f"zone must be a zone's name or an offset, such as UTC or +08:00, got {zone!r}"


def _length(name: str, text: Given, problems: list[str]) -> Length:
    try:
        return Length.read(text)
    except ValueError as exc:
        problems.append(f"{name} {exc}")
        return Length(seconds=DAY)


def _instant(name: str, value: Given, problems: list[str]) -> str:
    """A bound as a SQL timestamp; times without a zone are UTC."""
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        problems.append(f"bounds.{name} must be a date or a time, got {value!r}")
        return "timestamp '1970-01-01 00:00:00'"
    zone = "" if time.tzinfo else " UTC"
    return f"timestamp '{time.isoformat(sep=' ')}{zone}'"


def _invalid(bounds: Given, time: str, problems: list[str]) -> tuple[tuple[str, str], ...]:
    """Conditions of times that open no window, and the reasons; the first that holds counts."""
    if not isinstance(bounds, Mapping) or bounds.keys() - set(BOUNDS):
        problems.append(f"bounds must be a mapping of {', '.join(BOUNDS)}, got {bounds!r}")
        return ()
    for name in ("earliest", "latest"):
        if bounds.get(name) is None:
            problems.append(f"bounds.{name} must be a date or a time, got None")
            return ()
    if (bounds.get("received") is None) != (bounds.get("ahead") is None):
        problems.append("bounds.received and bounds.ahead need each other")
        return ()
    earliest, latest = (_instant(name, bounds[name], problems) for name in ("earliest", "latest"))
    found = [
        (f"{time} is null", "event time is null"),
        (f"{AT} is null", "event time can't be read"),
        (f"{AT} < {earliest}", f"event time lies before {bounds['earliest']}"),
        (f"{AT} >= {latest}", f"event time lies behind {bounds['latest']}"),
    ]
    if bounds.get("received") is not None:
        try:
            ahead = interval_sql(bounds["ahead"])
        except ValueError as exc:
            problems.append(f"bounds.ahead {exc}")
            return ()
        received = bounds["received"]
        if not isinstance(received, str) or not received.isidentifier():
            problems.append(f"bounds.received must name a column, got {received!r}")
            return ()
        # a row that doesn't say when it was received is held against the other bounds alone
        condition = f"coalesce({AT} > {received} + {ahead}, false)"
        found.append((condition, f"event time lies more than {bounds['ahead']} behind {received}"))
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
        fits = fits and (bool(part.months) or size.seconds % part.seconds == 0)
        fits = fits and bool(size.months) == bool(part.months)
    else:
        fits = size.holds(part) and not (part.is_counted and (size.months or size.seconds > DAY))
        if size.grid_problem:
            problems.append(f"size {size.grid_problem}, got {given['size']!r}")
    if not fits:
        problems.append(
            f"size must be made of whole {name}s"
            + ("; one above a day of days or longer steps" if form == "cumulate" else "")
            + f", got {given['size']!r} and {given[name]!r}"
        )
    return size, part


def read_window(given: Settings) -> Window:
    """The window that a macro's call asks for.

    Args:
        given: {form, rows, time, zone, where, bounds} and what the form takes beside.

    Raises:
        WindowError: with every problem.
    """
    problems: list[str] = []
    form, rows, time = given["form"], given["rows"], given["time"]
    if not isinstance(rows, str) and not hasattr(rows, "render"):
        problems.append(f"rows must be a relation or the name of a CTE, got {rows!r}")
    if not isinstance(time, str) or not time:
        problems.append(f"time must name a column, got {time!r}")
    zone = given.get("zone") or "UTC"
    problems += filter(None, [zone_problem(zone)])
    size, part = _lengths(form, given, problems)
    key: tuple[str, ...] = ()
    gap = ""
    if form == "session":
        key = column_names(given.get("key")) or ()
        if not key:
            problems.append(f"key must name the columns of a session's key, got {given['key']!r}")
        try:
            gap = interval_sql(given.get("gap"))
        except ValueError as exc:
            problems.append(f"gap {exc}")
        if re.match(r"interval '(0|-\d+)'", gap):
            problems.append(f"gap must be above zero, got {given['gap']!r}")
    window = Window(
        form=form,
        time=str(time),
        zone=str(zone),
        size=size,
        part=part,
        key=key,
        gap=gap,
        where=given.get("where") or "",
        invalid=_invalid(given.get("bounds"), str(time), problems),
    )
    if problems:
        raise WindowError(form, problems)
    return window


def spans_condition(low_column: str, high_column: str, spans: Sequence[tuple[str, str]]) -> str:
    """SQL condition: what lies from one column to the other meets one of the spans."""
    each = (f"({low_column} <= {high} and {high_column} >= {low})" for low, high in spans)
    return f"({' or '.join(each)})" if spans else "false"


class WindowModels:
    """Answers what the window macros ask."""

    def __init__(self, warehouse: Warehouse, changes: ChangeReads, ranges: ColumnRanges) -> None:
        self._warehouse = warehouse
        self._changes = changes
        self._ranges = ranges

    def declared_window(self, model: Node, given: Json) -> Window:
        """The window that a macro's call asks for; all problems are reported at once."""
        try:
            window = read_window(given)
            rows, form = given["rows"], given["form"]
            if isinstance(rows, str) or self._is_unknown(model, rows):
                return window
            types = {
                column.column: column.dtype
                for column in self._warehouse.get_columns_in_relation(rows)
            }
            problems = self._window_problems(model, window, rows, types)
            if problems:
                raise WindowError(form, problems)
        except WindowError as exc:
            raise CompilationError(str(exc)) from exc
        kinds = {name: types[name] for name in window.key}
        return replace(window, time_type=types[window.time], key_types=kinds)

    def _is_unknown(self, model: Node, rows: Relation) -> bool:
        """Whether the columns of the rows are still unknown."""
        return (
            self._warehouse.credentials.offline
            or model["resource_type"] == "unit_test"
            or rows.is_cte
            or rows.reading is not None
        )

    def _window_problems(
        self, model: Node, window: Window, rows: Relation, types: Mapping[str, str]
    ) -> list[str]:
        name = rows.name_only.render()
        if not types:
            return [f"{name}: there is no such table or view; build it first"]
        problems = [
            f"{name}: there is no column {column}; it has {', '.join(types)}"
            for column in (window.time, *window.key)
            if column not in types
        ]
        taken = [column for column in (START, END, DATE) if column in types]
        if taken and window.form != "window_rejects":
            problems.append(f"{name} has columns of the windows' own names: {', '.join(taken)}")
        if window.form == "session" and ROW_KIND in types:
            problems.append(
                f"{name}: it is a stream of retract rows, whose sessions aren't those of the rows "
                "that are left; take the folded model that keeps its current rows"
            )
        config = model["config"]
        if config.get("incremental_strategy") == STRATEGY and config.get("partition_by") not in (
            DATE,
            [DATE],
        ):
            problems.append(
                f"a model of strategy {STRATEGY} must have partition_by='{DATE}', "
                f"got {config.get('partition_by')!r}"
            )
        return problems

    def record_window(self, model: Node, window: Window, rows: Relation, incremental: bool) -> None:
        """Let the model's next commit say what its windows are.

        Raises:
            CompilationError: what is stored was cut otherwise, or of other rows.
        """
        if self._warehouse.credentials.offline:
            return
        definition = f"{rows.name_only.render()} {window.definition}"
        if incremental:
            table = f"{model['schema']}.{model['alias']}"
            stored = self._warehouse.history(table).recorded(WINDOW_PROPERTY)
            if stored is None:  # nobody knows what the stored rows are
                self._warehouse.inputs.note_news(model["unique_id"], reads_whole=True)
            elif stored != definition:
                raise CompilationError(
                    f"{model['name']}: what is stored was cut into other windows: they were "
                    f"{stored}, are {definition}. Run it with --full-refresh."
                )
        properties = {WINDOW_PROPERTY: definition}
        self._warehouse.inputs.note_properties(model["unique_id"], properties)

    def near_spans(self, rows: str, low: str, high: str) -> str:
        """SQL condition on stored windows: they may meet one of the rows' spans of time.

        Args:
            rows: SQL text for a `from`.
            low, high: SQL expressions over them, timestamps.
        """
        wanted = [{"column": START, "kind": "timestamp", "low": low, "high": high}]
        spans = self._ranges.literal_ranges(rows, wanted)[0]
        return spans_condition(START, END, spans)

    def touch_windows(self, model: Node, window: Window, windows: str, dates: str) -> None:
        """Note for the strategy which windows the model rewrites.

        Args:
            windows: name of a view of them, by their unit.
            dates: query of the days in which they begin, or may begin.

        Raises:
            CompilationError: the stored rows don't tell their windows.
        """
        table = f"{model['schema']}.{model['alias']}"
        columns = self._changes.columns_at(table)
        missing = [column for column in (*window.unit, DATE) if column not in columns]
        if missing:
            raise CompilationError(
                f"{model['name']}: its rows must have the columns of their window, but there is "
                f"no {', '.join(missing)}; select them and run with --full-refresh"
            )
        days = sorted(
            row[0] for row in self._warehouse.session().sql(dates).collect() if row[0] is not None
        )
        literals = ", ".join(f"date '{day}'" for day in days)
        touched = TouchedWindows(
            view=windows,
            predicate=f"{DATE} in ({literals})" if literals else "false",
            same=" and ".join(
                f"held.{quoted(column)} <=> touched.{quoted(column)}" for column in window.unit
            ),
        )
        self._warehouse.inputs.note(model["unique_id"], windows=touched)

    def touched_windows(self, plan: ReadPlan) -> TouchedWindows:
        """What the strategy `replace_windows` replaces."""
        if plan.windows is None:
            raise CompilationError(
                f"{STRATEGY}: the model must read through a window macro over a relation, which "
                f"names the windows to replace. Example: {EXAMPLES['tumble']}"
            )
        return plan.windows
