"""Windows of event time in plain Python: the second opinion. It imports nothing of the project.

Windows are laid out one by one over some days, as a calendar on the wall would show them; a time
belongs to those that hold it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

Window = tuple[datetime, datetime]
DAY, HOUR, NONE = timedelta(days=1), timedelta(hours=1), timedelta()
MONDAY = datetime(1970, 1, 5)


@dataclass(frozen=True)
class Months:
    """So many months."""

    count: int


Length = timedelta | Months


def instant(clock: datetime, zone: tzinfo) -> datetime:
    """The first instant at which the zone's clock shows it, or passes it by."""
    return clock.replace(tzinfo=zone, fold=0).astimezone(UTC)


def day_of(time: datetime, zone: tzinfo) -> datetime:
    """The midnight that was passed last: clocks that are put back behind one show the day before
    once more."""
    shown = time.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    return max(day for day in (shown - DAY, shown, shown + DAY) if instant(day, zone) <= time)


def later(clock: datetime, length: Length, count: int = 1) -> datetime:
    if isinstance(length, timedelta):
        return clock + count * length
    months = clock.year * 12 + clock.month - 1 + count * length.count
    return clock.replace(year=months // 12, month=months % 12 + 1)


def starts_of(day: datetime, length: Length, weeks: bool = False) -> datetime:
    """Where the clock stood as the window began that holds a day's midnight."""
    if isinstance(length, Months):
        month = (day.month - 1) // length.count * length.count + 1
        return day.replace(month=month, day=1)
    anchor = MONDAY if weeks else datetime(1970, 1, 1)
    return anchor + (day - anchor) // length * length


def counted(days: Iterable[datetime], length: timedelta, zone: tzinfo) -> Iterator[Window]:
    """Windows of up to an hour: each day from its midnight on."""
    for day in days:
        start, end = instant(day, zone), instant(day + DAY, zone)
        while start < end:
            yield start, min(start + length, end)
            start += length


def by_clock(
    days: Sequence[datetime], length: Length, zone: tzinfo, weeks: bool = False
) -> Iterator[tuple[datetime, datetime]]:
    """Windows of more than an hour, as the clock shows their start and end."""
    clock = starts_of(days[0], length, weeks)
    while clock < days[-1] + DAY:
        yield clock, later(clock, length)
        clock = later(clock, length)


def is_counted(length: Length) -> bool:
    return isinstance(length, timedelta) and length <= HOUR


def tumbling(
    days: Sequence[datetime],
    zone: tzinfo,
    size: Length,
    weeks: bool = False,
    *,
    offset: timedelta = NONE,
) -> list[Window]:
    """With an offset short windows lie so much later in time, long windows on the clock."""
    if is_counted(size):
        return [(start + offset, end + offset) for start, end in counted(days, size, zone)]
    return [
        (instant(start + offset, zone), instant(end + offset, zone))
        for start, end in by_clock(days, size, zone, weeks)
    ]


def sliding(
    days: Sequence[datetime],
    zone: tzinfo,
    size: Length,
    slide: Length,
    *,
    offset: timedelta = NONE,
) -> list[Window]:
    """Windows that begin on the days."""
    if is_counted(slide):
        starts = [start + offset for start, _ in counted(days, slide, zone)]
        return [(start, start + size) for start in starts]
    parts = size.count // slide.count if isinstance(size, Months) else size // slide
    return [
        (instant(start + offset, zone), instant(later(start, slide, parts) + offset, zone))
        for start, _ in by_clock(days, slide, zone)
    ]


def cumulating_later(
    days: Sequence[datetime], zone: tzinfo, size: Length, step: Length, *, offset: timedelta
) -> list[Window]:
    """The same with an offset."""
    if is_counted(size):
        return [(start + offset, end + offset) for start, end in cumulating(days, zone, size, step)]
    found = []
    for start, end in tumbling(days, zone, size, offset=offset):
        if is_counted(step):
            ends = [start + step * n for n in range(1, (end - start) // step + 1)]
        else:
            of_steps = tumbling([*days, days[-1] + 366 * DAY], zone, step, offset=offset)
            ends = [item for _, item in of_steps]
        found += [(start, item) for item in sorted({*ends, end}) if start < item <= end]
    return found


def holding(
    form: str,
    at: datetime,
    zone: tzinfo,
    size: timedelta,
    part: timedelta | None = None,
    *,
    offset: timedelta = NONE,
) -> Iterator[Window]:
    """The windows of up to an hour that hold a time, laid out around it alone: there are many of
    these in a day."""
    at -= offset
    part = part or size
    counted_by = size if form == "cumulate" else part
    for day in (day_of(at, zone) - DAY, day_of(at, zone)):
        midnight, until = instant(day, zone), instant(day + DAY, zone)
        start = midnight + max(0, (at - size - midnight) // counted_by) * counted_by
        while start <= at and start < until:
            last = start + size if form == "slide" else min(start + size, until)
            ends = [start + n * part for n in range(1, size // part)] if form == "cumulate" else []
            for end in {*ends, last}:
                if at < end <= last:
                    yield start + offset, end + offset
            start += counted_by


def cumulating(days: Sequence[datetime], zone: tzinfo, size: Length, step: Length) -> list[Window]:
    found = []
    for start, end in tumbling(days, zone, size):
        if is_counted(step):
            ends = {min(item, end) for _, item in counted(days, step, zone) if start < item}
            ends = {number for number in ends if number <= end} | {end}
        else:
            ends = {item for _, item in tumbling([*days, days[-1] + 366 * DAY], zone, step)}
            ends = {number for number in ends if start < number <= end}
        found += [(start, item) for item in sorted(ends)]
    return found


def sessions(times: Iterable[tuple[Hashable, datetime]], gap: timedelta) -> dict:
    """(key, session's start) -> (end, number of rows), of (key, time) of all rows."""
    found: dict[tuple[Hashable, datetime], tuple[datetime, int]] = {}
    current: dict[Hashable, datetime] = {}
    for key, time in sorted(times, key=lambda time: time[1]):
        start = current.get(key)
        if start is None or time > found[key, start][0]:
            start = current[key] = time
            found[key, start] = (time + gap, 0)
        found[key, start] = (time + gap, found[key, start][1] + 1)
    return found
