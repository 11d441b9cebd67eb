"""What the rows of a metric must be, in plain Python; imports nothing of the project."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

GRAINS = ("5m", "10m", "1h", "1d")
MINUTES = {"5m": 5, "10m": 10, "1h": 60}
Event = Mapping[str, Any]
Key = tuple[Any, ...]


def window(at: datetime, grain: str, zone: tzinfo) -> tuple[datetime, datetime]:
    """Begin and end, UTC, of the window that an instant lies in, by the zone's clock."""
    local = at.astimezone(zone)
    if grain == "1d":
        day = local.date()
        return midnight(day, zone), midnight(day + timedelta(days=1), zone)
    size = MINUTES[grain]
    start = at - timedelta(
        minutes=local.minute % size, seconds=local.second, microseconds=local.microsecond
    )
    return start, start + timedelta(minutes=size)


def midnight(day: date, zone: tzinfo) -> datetime:
    """The instant, UTC, at which a day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def is_possible(at: datetime | None, known_at: datetime | None, ahead: int, behind: int) -> bool:
    """Whether a time lies at most `ahead` hours behind a clock and `behind` days before it."""
    if at is None or known_at is None:
        return False
    # compared without sums: they would leave the calendar
    return at - known_at <= timedelta(hours=ahead) and known_at - at <= timedelta(days=behind)


def grouped(
    events: Iterable[Event],
    sets: Mapping[str, tuple[str, ...]],
    zone: tzinfo,
    grains: Iterable[str] = GRAINS,
) -> dict[Key, list[Event]]:
    """(dimension_set, grain, window_start, window_end, *dimensions) -> events, each with `at`.

    Dimensions stand in the order in which the sets name them first; None where a set has them not.
    """
    dimensions = list(dict.fromkeys(name for names in sets.values() for name in names))
    found: dict[Key, list[Event]] = defaultdict(list)
    for event in events:
        for grain in grains:
            start, end = window(event["at"], grain, zone)
            for item, names in sets.items():
                values = tuple(event[name] if name in names else None for name in dimensions)
                found[item, grain, start, end, *values].append(event)
    return found


def there(events: Iterable[Event], value_of: Callable[[Event], Any], zone: tzinfo) -> int:
    """Number of distinct values that are there in some 5 minutes: of which more rows came than
    went. None isn't one."""
    copies: Counter = Counter()
    for event in events:
        copies[window(event["at"], "5m", zone)[0], value_of(event)] += event["sign"]
    return len({value for (_, value), count in copies.items() if value is not None and count > 0})
