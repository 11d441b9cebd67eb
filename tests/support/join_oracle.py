"""Joins in plain Python: the second opinion. It imports nothing of the project."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.zipper_oracle import versions

Row = Mapping[str, Any]

# times are numbers
WITHIN = (-5, 10)
EXPIRY = 12


def latest(events: Iterable[Row], key: tuple[str, ...]) -> list[Row]:
    """The rows that a log leaves: of each key the event of the highest position, unless it ended
    the row."""
    last: dict[tuple, Row] = {}
    for event in events:
        of_key = tuple(event[name] for name in key)
        if of_key not in last or event["position"] > last[of_key]["position"]:
            last[of_key] = event
    return [row for row in last.values() if row["kind"] in ("+I", "+U")]


def derived(rows: Iterable[Row], name: str) -> list[Row]:
    """The rows that have a time, each until that of the next row of its world and k."""
    found = []
    timed = sorted(
        (row for row in rows if row["at"] is not None),
        key=lambda row: (row["world"], row["k"] or 0, row["at"], row[name]),
    )
    for _, same in itertools.groupby(timed, lambda row: (row["world"], row["k"])):
        for row, following in itertools.pairwise([*same, None]):
            found.append({**row, "until": following and following["at"]})
    return found


def zipped(events: Iterable[Row], key: tuple[str, ...], tracked: list[str] | None) -> list[Row]:
    """The versions that a log gives each key: since `at`, `until` the next version."""
    by_key: dict[tuple, list] = {}
    for event in events:
        by_key.setdefault(tuple(event[name] for name in key), []).append(event)
    return [
        {**event, "at": start, "until": end}
        for changes in by_key.values()
        for start, end, event in versions(
            changes, ["position"], "seen", tracked or ["k", "v"], "kind"
        )
    ]


def _known(*values: Any) -> bool:
    return None not in values


def within(left: Row, right: Row) -> bool:
    if not _known(left["at"], right["at"]):
        return False
    return left["at"] + WITHIN[0] <= right["at"] <= left["at"] + WITHIN[1]


def within_a_half(left: Row, right: Row) -> bool:
    return _known(left["at"], right["at"]) and abs(left["at"] - right["at"]) <= 0.5


def at_its_time(left: Row, right: Row) -> bool:
    if not _known(left["at"], right["at"]):
        return False
    return right["at"] <= left["at"] and (right["until"] is None or left["at"] < right["until"])


def before(left: Row, right: Row) -> bool:
    if not _known(left["at"], right["at"]):
        return False
    return left["at"] - EXPIRY < right["at"] <= left["at"]


def ever_before_with_the_same_value(left: Row, right: Row) -> bool:
    if not _known(left["at"], right["at"]):
        return False
    return right["at"] <= left["at"] and right["v"] == left["v"]


def windowed(rows: Iterable[Row], unit: str) -> list[Row]:
    """The rows that have a time, each with the number of its window: of 10 minutes, or of a week
    from Monday, where times count days from a Sunday."""
    return [
        {**row, "window": row["at"] // 10 if unit == "minutes" else (row["at"] + 6) // 7}
        for row in rows
        if row["at"] is not None
    ]


def in_the_same_window(left: Row, right: Row) -> bool:
    return left["window"] == right["window"]


def always(left: Row, right: Row) -> bool:
    return True


def current(left: Row, right: Row) -> bool:
    return right["until"] is None


@dataclass(frozen=True)
class Nearest:
    """The choice of the row that is nearest by time.

    Attributes:
        direction: backward, forward or nearest.
        tolerance: how far the times may lie from each other.
        strict: whether a row of the same time is no partner.
        tie_break: columns that order rows of one time, before their number and their v do.
    """

    direction: str
    tolerance: float | None = None
    strict: bool = False
    tie_break: tuple[str, ...] = ()

    def partners(self, left: Row, same: Iterable[Row]) -> list[Row]:
        """The nearest of the rows, as a list of one or none."""
        if left["at"] is None:
            return []
        allowed = [
            item
            for item in same
            if item["at"] is not None
            and not (self.strict and item["at"] == left["at"])
            and (self.tolerance is None or abs(item["at"] - left["at"]) <= self.tolerance)
        ]
        order = ("at", *self.tie_break, "rid", "v")
        allowed.sort(key=lambda item: _ordered(tuple(item[name] for name in order)))
        before = [item for item in allowed if item["at"] <= left["at"]][-1:]
        behind = [item for item in allowed if item["at"] >= left["at"]][:1]
        if self.direction == "backward":
            return before
        if self.direction == "forward":
            return behind
        return sorted(before + behind, key=lambda item: abs(item["at"] - left["at"]))[:1]


def joined(
    left: Iterable[Row],
    right: Iterable[Row],
    fits: Callable[[Row, Row], bool] | Nearest,
    kind: str,
    nulls_match: bool = False,
) -> list[tuple[Row | None, Row | None]]:
    """The pairs of all left and all right rows; of kind semi and anti left rows with None, of kind
    full also right rows with None."""
    by_key: dict[tuple, list[Row]] = {}
    right = list(right)
    paired: set[int] = set()
    for item in right:
        by_key.setdefault((item["world"], item["k"]), []).append(item)
    pairs: list[tuple[Row | None, Row | None]] = []
    for row in left:
        has_key = nulls_match or row["k"] is not None
        same = by_key.get((row["world"], row["k"]), []) if has_key else []
        if isinstance(fits, Nearest):
            partners = fits.partners(row, same)
        else:
            partners = [item for item in same if fits(row, item)]
        paired |= {id(partner) for partner in partners}
        if kind in ("inner", "left", "full"):
            pairs += [(row, partner) for partner in partners]
        if kind == "semi" if partners else kind in ("left", "full", "anti"):
            pairs.append((row, None))
    if kind == "full":
        pairs += [(None, item) for item in right if id(item) not in paired]
    return pairs


def greatest(pairs: Iterable[tuple], places: Sequence[int]) -> set[tuple]:
    """Of the pairs that have the same values at the places of their key the greatest, nulls
    first."""
    found: dict[tuple, tuple] = {}
    for pair in pairs:
        key = tuple(pair[place] for place in places)
        found[key] = max(found.get(key, pair), pair, key=_ordered)
    return set(found.values())


def _ordered(values: tuple) -> list[tuple]:
    return [(value is not None, value) for value in values]
