"""The versions that a key of a changing table had, computed by one pass over its changes in
order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]
RANKS = {"-U": 0, "+I": 1, "+U": 1, "-D": 2}


def versions(
    events: list[Event], sequence: Sequence[str], time: str, tracked: Sequence[str], kind: str
) -> list[tuple[Any, Any, Event]]:
    """(valid from, valid to, last event in it) of each version of one key, in their order; that
    event with the time of the change that began the version as `dated`.

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
        found.append([start, None, event, image, event[time]])
    return [
        (start, end, {**event, "dated": dated})
        for start, end, event, image, dated in found
        if image is not None
    ]


@dataclass(frozen=True)
class Group:
    """Columns that one sequence orders; a row whose sequence is null isn't of the group."""

    sequence: Sequence[str]
    columns: Sequence[str]
    removes_row: bool = False


@dataclass(frozen=True)
class Partial:
    """Which columns a row gives values to: those that `known` lists, but for nulls of `ignored`."""

    known: str | None = None
    ignored: Sequence[str] = ()

    def given(self, event: Event, columns: Sequence[str]) -> Event:
        listed = event[self.known] if self.known else None
        return {
            name: event[name]
            for name in columns
            if (listed is None or name in listed)
            and not (name in self.ignored and event[name] is None)
        }


def states_by_time(
    events: list[Event], group: Group, time: str, kind: str, partial: Partial
) -> dict[Any, tuple[bool, Event]]:
    """Time -> whether the group has a row of the key from then on, and its values."""
    places: dict[tuple, list[Event]] = {}
    for event in events:
        place = tuple(event[name] for name in group.sequence)
        if None not in place:
            places.setdefault(place, []).append(event)
    now, values, found = None, dict.fromkeys(group.columns), {}
    for place in sorted(places):
        # at one place a delete counts before an upsert, an upsert before a -U
        rank = max(RANKS[event[kind]] for event in places[place])
        for event in places[place]:
            now = event[time] if now is None else max(now, event[time])
        if rank == RANKS["+U"]:
            for event in places[place]:
                if RANKS[event[kind]] == rank:
                    values = values | partial.given(event, group.columns)
        else:
            values = dict.fromkeys(group.columns)
        order = dict(zip(group.sequence, place, strict=True)) | {"dated": places[place][0][time]}
        found[now] = (rank == RANKS["+U"], values | order)
    return found


def wide_versions(
    events: list[Event],
    groups: Sequence[Group],
    names: tuple[str, str],
    tracked: Sequence[str],
    partial: Partial,
    is_kept: Callable[[Event], bool] = lambda row: True,
) -> list[tuple[Any, Any, Event]]:
    """(valid from, valid to, last values in it) of each version of one key, from partial rows;
    with one group, the values with the time of the change that began the version as `dated`.

    Args:
        names: the columns that date a change, and of its kind.
    """
    timelines = [states_by_time(events, group, *names, partial) for group in groups]
    found: list[list[Any]] = []
    now: dict[int, tuple[bool, Event]] = {}
    for at in sorted({at for timeline in timelines for at in timeline}):
        now |= {n: timeline[at] for n, timeline in enumerate(timelines) if at in timeline}
        row: Event = {}
        for n, group in enumerate(groups):
            row |= now[n][1] if n in now else dict.fromkeys((*group.columns, *group.sequence))
        is_removed = any(
            group.removes_row and n in now and not now[n][0] for n, group in enumerate(groups)
        )
        there = not is_removed and any(state for state, _ in now.values()) and is_kept(row)
        image = [row[name] for name in tracked] if there else None
        if found and found[-1][3] == image:
            found[-1][2] = row
            continue
        if found:
            found[-1][1] = at
        found.append([at, None, row, image, row.get("dated")])
    return [
        (start, end, {**row, "dated": dated})
        for start, end, row, image, dated in found
        if image is not None
    ]
