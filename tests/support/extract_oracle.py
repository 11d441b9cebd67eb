"""The rows and the versions that full extracts and a log come to, from what each states of each
key at its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.zipper_oracle import versions

Row = dict[str, Any]
Key = tuple[Any, ...]
ORDER = ("place", "from_extract")


def statements(
    extracts: Iterable[Row], changes: Iterable[Row], key: Sequence[str], dated_by: str | None = None
) -> dict[Key, list[Row]]:
    """What is stated of each key, in its order: row_kind +U or -D, `place`, `from_extract`,
    `time`, and the row's columns. Each extract states something of each key that there ever is.

    Args:
        extracts: those that are complete: place, time, rows.
        changes: retract rows of the log: place, time, row_kind.
        dated_by: column of an extract's rows that dates them, as far as the extracts allow.
    """
    in_order = sorted(extracts, key=lambda extract: extract["place"])
    changes = list(changes)

    def key_of(row: Mapping[str, Any]) -> Key:
        return tuple(row[name] for name in key)

    keys = {key_of(row) for extract in in_order for row in extract["rows"]}
    keys |= {key_of(change) for change in changes}
    stated: dict[Key, list[Row]] = defaultdict(list)
    for change in changes:
        stated[key_of(change)].append(change | {"from_extract": 0})
    earlier = None
    for extract in in_order:
        rows = {key_of(row): row for row in extract["rows"]}
        at = {"place": extract["place"], "from_extract": 1}
        for each in keys:
            row, time = rows.get(each), extract["time"]
            if row is None:
                gone = dict(zip(key, each, strict=True))
                stated[each].append(gone | at | {"time": time, "row_kind": "-D"})
                continue
            if dated_by and row[dated_by] is not None:
                time = min(row[dated_by], time)
            if dated_by and earlier is not None:
                time = max(time, earlier["time"])
            stated[each].append(row | at | {"time": time, "row_kind": "+U"})
        earlier = extract
    for events in stated.values():
        events.sort(key=lambda event: tuple(event[name] for name in ORDER))
    return stated


def current_rows(stated: Mapping[Key, list[Row]], columns: Sequence[str]) -> dict[Key, Key]:
    """Key -> its columns, of the keys whose last statement has a row: SCD type 1."""
    return {
        key: tuple(events[-1][name] for name in columns)
        for key, events in stated.items()
        if events[-1]["row_kind"] in ("+I", "+U")
    }


def all_versions(
    stated: Mapping[Key, list[Row]], columns: Sequence[str], tracked: Sequence[str]
) -> dict[Key, Key]:
    """(key, valid from) -> its columns, valid to: SCD type 2."""
    return {
        (*key, start): (*(last[name] for name in columns), end)
        for key, events in stated.items()
        for start, end, last in versions(events, ORDER, "time", tracked, "row_kind")
    }
