"""Joins with the nearest row: which right row of its key a left row gets, and which left rows a
changed right row touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from dbt.adapters.sparksession.declared.join_bounds import micros_of, read_interval
from dbt.adapters.sparksession.edges import Json, Settings
from dbt.adapters.sparksession.yaml_fields import Fields, read_fields
from pydantic import Field, StrictBool

Direction = Literal["backward", "forward", "nearest"]
# columns of the rows that tell which times are touched: the first and the last time of changed
# right rows, and the times of the rows before and behind them that stay as they are
FIRST, LAST, SINCE, UNTIL = "join__first", "join__last", "join__since", "join__until"


class AsofArguments(Fields):
    """What the macro takes beside what each join takes."""

    direction: Annotated[
        Direction, Field(description=f"be one of {', '.join(get_args(Direction))}")
    ] = "backward"
    strict: Annotated[StrictBool, Field(description="be true or false")] = False


@dataclass(frozen=True)
class Asof:
    """The choice of the nearest row.

    Right rows of a key stand in the order of time, tie_break, the side's key and all values read.
    A left row gets the last that is not behind it (backward), or the first that is not before it
    (forward), or of these two the nearer row (nearest), at a tie the earlier.

    Attributes:
        direction: backward, forward or nearest.
        tolerance: how far the times may lie from each other, as a SQL interval; None for any.
        strict: whether a right row of the same time is no partner.
        at, other: columns of the left and of the right rows' times.
        order: columns that order right rows of one time, before all values read do.
    """

    direction: str
    tolerance: str | None
    strict: bool
    at: str
    other: str
    order: list[str]

    @property
    def looks_back(self) -> bool:
        return self.direction != "forward"

    @property
    def looks_ahead(self) -> bool:
        return self.direction != "backward"

    @property
    def condition(self) -> str:
        """SQL over left_row and right_row that each partner fulfils, "" for none."""
        equal = "" if self.strict else "="
        left, right = f"left_row.{self.at}", f"right_row.{self.other}"
        parts = []
        if not self.looks_ahead:
            parts.append(f"{right} <{equal} {left}")
        elif not self.looks_back:
            parts.append(f"{right} >{equal} {left}")
        elif self.strict:
            parts.append(f"{right} <> {left}")
        if self.tolerance and self.looks_back:
            parts.append(f"{right} >= {left} - {self.tolerance}")
        if self.tolerance and self.looks_ahead:
            parts.append(f"{right} <= {left} + {self.tolerance}")
        return " and ".join(parts)

    @property
    def definition(self) -> Json:
        """What the choice depends on beside the condition."""
        return {"direction": self.direction, "order": self.order}

    @property
    def touches(self) -> str:
        """SQL over left_row and right_row, a row of FIRST, LAST, SINCE and UNTIL: whether a
        right row that changed may be the left row's partner, or may have been.

        A row that stays as it is hides all changed rows that are farther away, before and after
        the change. A row of nearest may be wrongly touched at the hiding rows' own times.
        """
        left = f"left_row.{self.at}"
        same = "=" if self.strict or self.direction == "nearest" else ""
        until = f"(right_row.{UNTIL} is null or {left} <{same} right_row.{UNTIL})"
        since = f"(right_row.{SINCE} is null or {left} >{same} right_row.{SINCE})"
        equal = "" if self.strict else "="
        parts = [
            f"{left} >{equal} right_row.{FIRST}" if not self.looks_ahead else since,
            f"{left} <{equal} right_row.{LAST}" if not self.looks_back else until,
        ]
        if self.tolerance and self.looks_back:
            parts.append(f"{left} <= right_row.{LAST} + {self.tolerance}")
        if self.tolerance and self.looks_ahead:
            parts.append(f"{left} >= right_row.{FIRST} - {self.tolerance}")
        return " and ".join(parts)

    @property
    def reached(self) -> str:
        """SQL over left_row, which has FIRST and LAST of the left rows of a key, and right_row:
        whether it may be the partner of some of them; "" for any."""
        right = f"right_row.{self.other}"
        low, high = self._reach(f"left_row.{FIRST}", f"left_row.{LAST}")
        parts = [f"{right} >= {low}" if low else "", f"{right} <= {high}" if high else ""]
        return " and ".join(filter(None, parts))

    def _reach(self, first: str, last: str) -> tuple[str | None, str | None]:
        """Between which times the right rows of left rows lie, as SQL."""
        low: str | None = first
        high: str | None = last
        if self.looks_back:
            low = f"{first} - {self.tolerance}" if self.tolerance else None
        if self.looks_ahead:
            high = f"{last} + {self.tolerance}" if self.tolerance else None
        return low, high

    @property
    def to_left(self) -> list[Json]:
        """Where the left rows are that `touches` finds, as arguments of PruningColumn."""
        low: str | None = FIRST if not self.looks_ahead else SINCE
        high: str | None = LAST if not self.looks_back else UNTIL
        if self.tolerance and self.looks_back:
            high = f"least({UNTIL}, {LAST} + {self.tolerance})"
        if self.tolerance and self.looks_ahead:
            low = f"greatest({SINCE}, {FIRST} - {self.tolerance})"
        return [{"column": self.at, "low": low, "high": high, "known": FIRST}]

    @property
    def to_right(self) -> list[Json]:
        """Where the right rows of left rows are, likewise."""
        low, high = self._reach(self.at, self.at)
        if low is None and high is None:
            return []
        return [{"column": self.other, "low": low, "high": high, "known": self.at}]

    @property
    def to_neighbours(self) -> list[Json]:
        """Where the right rows are that may hide a changed right row, likewise."""
        low: str | None = self.other
        high: str | None = self.other
        if self.looks_back:
            high = f"{self.other} + {self.tolerance}" if self.tolerance else None
        if self.looks_ahead:
            low = f"{self.other} - {self.tolerance}" if self.tolerance else None
        if low is None and high is None:
            return []
        return [{"column": self.other, "low": low, "high": high, "known": self.other}]


def read_asof(given: Settings, at: str, other: str, order: list[str], problems: list[str]) -> Asof:
    """The choice that asof_join declares.

    Args:
        given: {direction, tolerance, strict}.
        at, other: columns of the sides' times.
        order: columns that order right rows of one time.
        problems: gets a text for each argument that is wrong.
    """
    own = {name: given[name] for name in AsofArguments.model_fields}
    arguments = read_fields(AsofArguments, own, "", problems)
    tolerance = None
    if given["tolerance"] is not None:
        tolerance = read_interval("tolerance", given["tolerance"], problems)
        if micros_of(tolerance) <= 0:
            problems.append(f"tolerance must be above zero, got {given['tolerance']!r}")
    return Asof(arguments.direction, tolerance, arguments.strict, at, other, order)
