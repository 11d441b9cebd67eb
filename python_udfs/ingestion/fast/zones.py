"""The times in which a zone's offset from UTC is known to be constant.

What an offset is, Spark decides: its answers are asked once for each zone, so that the tables of
zones of Java and of Python can't differ. Days around a change of the offset are left out: their
times are no more than once in the hour that is skipped or repeated, but nobody has to prove it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000  # in microseconds, as all times here
DAY = 86_400 * SECOND
# an offset that is the same on two days didn't change between them
STEP_DAYS, FIRST_DAY, LAST_DAY = 1, -3653, 36525  # 1960-01-01 to 2070-01-01
SETTLED_DAYS = 3653  # rules that change nothing for ten years change nothing afterwards
BEGIN = -62_135_596_800 * SECOND  # 0001-01-01
END = 253_402_300_800 * SECOND  # 10000-01-01
_PROBES = f"""
    select transform(
        sequence({FIRST_DAY}, {LAST_DAY}, {STEP_DAYS}),
        day -> unix_micros(from_utc_timestamp(timestamp_seconds(day * 86400L), '{{zone}}'))
            - day * {DAY}L
    ) as offsets
"""


class ConstantOffsets(NamedTuple):
    """Spans of time, in order and apart from each other, in each of which the offset is constant.

    Attributes:
        begins, ends: int64 microseconds since the epoch in UTC; an end isn't part of its span.
        offsets: int64 microseconds that local time is ahead of UTC.
    """

    begins: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray

    def to_utc(self, wall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Local times as UTC, and a mask of those that stand in no span: their UTC means nothing.

        Args:
            wall: int64 microseconds since the epoch, by the clock of the zone.
        """
        offset, outside = _in_spans(
            wall, self.begins + self.offsets, self.ends + self.offsets, self
        )
        return wall - offset, outside

    def to_wall(self, utc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """UTC as local times, and a mask of those that stand in no span."""
        offset, outside = _in_spans(utc, self.begins, self.ends, self)
        return utc + offset, outside


def _in_spans(
    times: np.ndarray, begins: np.ndarray, ends: np.ndarray, spans: ConstantOffsets
) -> tuple[np.ndarray, np.ndarray]:
    if len(begins) == 1:  # nearly always: no search
        outside = (times < begins[0]) | (times >= ends[0])
        return np.broadcast_to(spans.offsets[0], times.shape), outside
    place = np.searchsorted(begins, times, side="right") - 1
    outside = place < 0
    place[outside] = 0
    outside |= times >= ends[place]
    return spans.offsets[place], outside


def constant_offsets(probes: Sequence[int], is_fixed: bool = False) -> ConstantOffsets:
    """Spans of constant offset.

    Args:
        probes: offset in microseconds at each STEP_DAYS from FIRST_DAY to LAST_DAY.
        is_fixed: whether the zone is an offset, which never changes.
    """
    offsets = np.array(probes, np.int64)
    days = FIRST_DAY + STEP_DAYS * np.arange(len(offsets), dtype=np.int64)
    first = np.flatnonzero(np.append(True, np.diff(offsets) != 0))
    last = np.append(first[1:] - 1, len(offsets) - 1)
    # a day is left out at either end: there the wall clock of the neighbouring span may stand
    begins, ends = (days[first] + 1) * DAY, (days[last] - 1) * DAY
    if days[-1] - days[first[-1]] >= SETTLED_DAYS:
        ends[-1] = END + DAY  # the last day by any clock
    if is_fixed:
        begins[0] = BEGIN - DAY
    long = ends > begins
    return ConstantOffsets(begins[long], ends[long], offsets[first][long])


_known: dict[str, ConstantOffsets] = {}


def offsets_of(session: SparkSession, zone: str) -> ConstantOffsets:
    """The spans of a zone, as Spark knows it; asked once in a process.

    Args:
        zone: a name or an offset, e.g. Asia/Shanghai or +08:00.
    """
    if zone not in _known:
        query = _PROBES.format(zone=zone.replace("\\", "\\\\").replace("'", "\\'"))
        [probes] = session.sql(query).collect()
        _known[zone] = constant_offsets(probes.offsets, zone.startswith(("+", "-")))
    return _known[zone]
