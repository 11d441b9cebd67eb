"""The versions that a key of a changing table had, computed by one pass over its changes in
order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Event = dict[str, Any]
RANKS = {"-U": 0, "+I": 1, "+U": 1, "-D": 2}


def versions(
    events: list[Event], sequence: Sequence[str], time: str, tracked: Sequence[str], kind: str
) -> list[tuple[Any, Any, Event]]:
    """(valid from, valid to, last event in it) of each version of one key, in their order.

    Events of one sequence are one change: a delete before an upsert, an upsert before a -U.
    """
    by_place: dict[tuple, Event] = {}
    for event in events:
        place = tuple(event[name] for name in sequence)
        known = by_place.get(place)
        if known is None or RANKS[event[kind]] > RANKS[known[kind]]:
            by_place[place] = event
    now, at_time = None, {}
    for place in sorted(by_place):
        event = by_place[place]
        now = event[time] if now is None else max(now, event[time])
        at_time[now] = event
    found: list[list[Any]] = []
    for start in sorted(at_time):
        event = at_time[start]
        there = event[kind] in ("+I", "+U")
        image = [event[name] for name in tracked] if there else None
        if found and found[-1][3] == image:
            found[-1][2] = event
            continue
        if found:
            found[-1][1] = start
        found.append([start, None, event, image])
    return [(start, end, event) for start, end, event, image in found if image is not None]
