"""Joins in plain Python: the second opinion. It imports nothing of the project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

Row = Mapping[str, Any]

WITHIN = (timedelta(minutes=-5), timedelta(minutes=10))
EXPIRY = timedelta(minutes=12)


def latest(events: Iterable[Row], key: tuple[str, ...]) -> list[Row]:
    """The rows that a log leaves: of each key the event of the highest position, unless it ended
    the row."""
    last: dict[tuple, Row] = {}
    for event in events:
        of_key = tuple(event[name] for name in key)
        if of_key not in last or event["position"] > last[of_key]["position"]:
            last[of_key] = event
    return [one for one in last.values() if one["kind"] in ("+I", "+U")]


def distinct(facts: Iterable[Row]) -> list[Row]:
    """Facts without those that were told again."""
    return list({tuple(one.items()): one for one in facts}.values())


def _known(*values: Any) -> bool:
    return None not in values


def within(left: Row, right: Row) -> bool:
    if not _known(left["at"], right["at"]):
        return False
    return left["at"] + WITHIN[0] <= right["at"] <= left["at"] + WITHIN[1]


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


def always(left: Row, right: Row) -> bool:
    return True


def joined(
    left: Iterable[Row], right: Iterable[Row], fits: Callable[[Row, Row], bool], kind: str
) -> set[tuple]:
    """The pairs of all left and all right rows: (id, k, left v, rid, right v)."""
    by_key: dict[tuple, list[Row]] = {}
    for one in right:
        by_key.setdefault((one["world"], one["k"]), []).append(one)
    pairs = set()
    for row in left:
        same = by_key.get((row["world"], row["k"]), []) if row["k"] is not None else []
        partners = [one for one in same if fits(row, one)]
        for one in partners:
            pairs.add((row["id"], row["k"], row["v"], one["rid"], one["v"]))
        if not partners and kind == "left":
            pairs.add((row["id"], row["k"], row["v"], None, None))
    return pairs
