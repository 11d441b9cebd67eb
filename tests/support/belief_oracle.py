"""Beliefs in plain Python: what was held to be so after each run. It imports nothing of the
project."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.zipper_oracle import Event, versions

Row = tuple[Any, ...]
Held = Mapping[Row, Row]  # key of a row -> its other columns


def held_versions(
    events: Iterable[Event], key: tuple[str, ...], tracked: tuple[str, ...]
) -> dict[Row, Row]:
    """(key, valid from) -> (tracked columns, valid to): the versions that a log comes to.

    Args:
        events: with position, time and kind.
    """
    by_key: dict[Row, list[Event]] = {}
    for event in events:
        by_key.setdefault(tuple(event[name] for name in key), []).append(event)
    return {
        (*of_key, start): (*(last[name] for name in tracked), end)
        for of_key, changes in by_key.items()
        for start, end, last in versions(changes, ["position"], "time", tracked, "kind")
    }


class Believed:
    """What a warehouse held to be so, from run to run.

    Attributes:
        times: of the runs, in their order.
    """

    def __init__(self) -> None:
        self.times: list[Any] = []
        self._held: list[dict[Row, Row]] = []

    def note(self, time: Any, held: Held) -> None:
        """From a time on these rows are held to be so."""
        assert not self.times or time > self.times[-1], (time, self.times[-1])
        self.times.append(time)
        self._held.append(dict(held))

    def as_known_at(self, time: Any) -> Held:
        """The rows that were held to be so at a time."""
        run = bisect_right(self.times, time)
        return self._held[run - 1] if run else {}

    def beliefs(self) -> dict[Row, Row]:
        """(key, known from) -> (other columns, known to): each row as long as it was held so."""
        found: dict[Row, Row] = {}
        for key in {key for held in self._held for key in held}:
            since, row = None, None
            for time, held in zip(self.times, self._held, strict=True):
                now = held.get(key)
                if now == row:
                    continue
                if row is not None:
                    found[*key, since] = (*row, time)
                since, row = time, now
            if row is not None:
                found[*key, since] = (*row, None)
        return found
