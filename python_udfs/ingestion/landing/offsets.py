"""Which offsets of a topic's partition are held already, as sets of closed intervals."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Sorted, disjoint intervals that cover the same offsets; neighbours are joined.

    >>> merge([(5, 9), (0, 4), (20, 21)])
    [(0, 9), (20, 21)]
    """
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def without(intervals: Iterable[Interval], offsets: Iterable[int]) -> list[Interval]:
    """Merged intervals without single offsets.

    >>> without([(0, 9), (20, 21)], [0, 4, 30])
    [(1, 3), (5, 9), (20, 21)]
    """
    left = list(intervals)
    for offset in offsets:
        left = [
            part
            for first, last in left
            for part in (
                [(first, offset - 1), (offset + 1, last)]
                if first <= offset <= last
                else [(first, last)]
            )
            if part[0] <= part[1]
        ]
    return left


def held_until(intervals: list[Interval], offset: int) -> int | None:
    """Last offset of the merged interval that holds `offset`; None where none does."""
    place = bisect_right(intervals, (offset, 2**63)) - 1
    if place >= 0 and intervals[place][0] <= offset <= intervals[place][1]:
        return intervals[place][1]
    return None
