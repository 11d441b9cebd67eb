"""What a section of the report is made of: numbers, notes, charts, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

GOOD, BAD = "good", "bad"
TEXT = 300  # characters of a cell


@dataclass(frozen=True)
class Card:
    """A number of a section; `id` names it for scripts and tests."""

    id: str
    label: str
    value: str
    tone: str = ""


@dataclass(frozen=True)
class Note:
    """A line of a section; BAD where a person has to act."""

    text: str
    tone: str = ""

    @property
    def shown(self) -> str:
        """The text, cut."""
        return cell(self.text).text


@dataclass(frozen=True)
class Cell:
    """A value of a table as text; `is_code` where it is a query."""

    text: str
    is_number: bool = False
    is_code: bool = False
    is_time: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of a section; `empty` is shown where it has no rows."""

    id: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "None."


@dataclass(frozen=True)
class Chart:
    """A chart, and the table beside it.

    Attributes:
        id: names it within the page.
        title: its heading.
        spec: Vega-Lite, without rows.
        columns: names of the values of a row.
        rows: the values of each row, as JSON takes them; exact numbers as texts.
        is_dated: whether the rows are ordered by time, so that the last are the newest.
        note: a sentence below the heading.
    """

    id: str
    title: str
    spec: Mapping[str, Any]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    is_dated: bool = True
    note: str = ""


@dataclass(frozen=True)
class ChartGroup:
    """Charts of one table of counts; `note` is a sentence below the title."""

    title: str
    charts: Sequence[Chart]
    tables: Sequence[Grid] = ()
    note: str = ""


@dataclass
class Section:
    """A tab of the page."""

    id: str
    title: str
    cards: list[Card] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Grid] = field(default_factory=list)
    groups: list[ChartGroup] = field(default_factory=list)
    layers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def all_charts(self) -> list[Chart]:
        """Its charts, those of its groups too."""
        return [*self.charts, *(chart for group in self.groups for chart in group.charts)]


def number(value: Any) -> str:
    """A number for a reader, `-` where there is none."""
    return "-" if value is None else f"{value:,}"


def numbered(count: int, single: str, several: str) -> str:
    """A count before what is counted.

    >>> numbered(1, "row differs", "rows differ"), numbered(1200, "row differs", "rows differ")
    ('1 row differs', '1,200 rows differ')
    """
    return f"{number(count)} {single if count == 1 else several}"


def tone(count: int) -> str:
    """The tone of a number of problems."""
    return BAD if count else GOOD


def duration(seconds: float | None) -> str:
    """A length of time in its largest unit."""
    if seconds is None:
        return "-"
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def cell(value: Any, is_code: bool = False) -> Cell:
    """A value as a table shows it: times in UTC, long texts cut."""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        return Cell(moment.strftime("%Y-%m-%d %H:%M:%S"), is_time=True)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Cell(number(value), is_number=True)
    text = "" if value is None else str(value)
    return Cell(text if is_code or len(text) <= TEXT else f"{text[:TEXT]} ..", is_code=is_code)


def isolated(text: str) -> str:
    """A text of the data within a sentence, which keeps its own direction of writing to itself."""
    return f"\u2068{text}\u2069"


def grid(
    id: str,
    title: str,
    rows: Iterable[Mapping[str, Any]],
    empty: str = "None.",
    *,
    code: Sequence[str] = (),
) -> Grid:
    """A table whose columns are the rows' own names.

    Args:
        code: columns that hold queries.
    """
    listed = list(rows)
    names = list(listed[0]) if listed else []
    cells = [[cell(row[name], name in code) for name in names] for row in listed]
    return Grid(id, title, [name.replace("_", " ") for name in names], cells, empty)
