"""What a folded table must hold, computed by one pass over a key's events in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import total_ordering
from typing import Any

Event = dict[str, Any]


# conditions of `keep_when` that are known here -> the same in Python
KEEP_WHEN = {"b is not null": lambda row: row["b"] is not None}
Order = Iterable[str | dict[str, str]]  # columns as a config has them


@total_ordering
class Falling:
    """A value that is the higher, the lower the value in it is."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Falling) and self.value == other.value

    def __lt__(self, other: Falling) -> bool:
        return other.value < self.value


def names_of(order: Order) -> list[str]:
    return [entry if isinstance(entry, str) else entry["column"] for entry in order]


def rank(event: Event, order: Order) -> tuple:
    """Where an event stands by these columns; null is lowest, also where a column descends."""
    places = []
    for entry, name in zip(order, names_of(order), strict=True):
        value = event[name]
        falls = not isinstance(entry, str) and entry.get("order") == "descending"
        if value is not None and falls:
            value = Falling(value)
        places.append((value is not None, 0 if value is None else value))
    return tuple(places)


def folded(events: list[Event], fold: dict[str, Any], columns: list[str]) -> Event | None:
    """The row that readers see of all events of one key; None where there is none.

    Args:
        fold: the model's config `fold`, with all functions given as mappings.
        columns: columns of the events but for the key's and the row kind.
    """
    kind = fold.get("row_kind")
    groups = dict(fold.get("sequence_groups", {}))
    ruled = {
        n for group in groups.values() for n in [*names_of(group["sequence"]), *group["columns"]]
    }
    ordered = fold.get("sequence") or fold.get("tie_break")
    by_default = ("remove_row" if ordered else "retract") if kind else "ignore"
    groups["other"] = {
        "sequence": fold.get("sequence", []),
        "columns": [n for n in columns if n not in ruled],
        "on_delete": fold.get("on_delete") or by_default,
    }
    counts = fold.get("count_rows")
    if counts and sum(-1 if event[kind] in ("-U", "-D") else 1 for event in events) == 0:
        return None
    ignoring = not counts and all(
        group.get("on_delete", "retract") == "ignore"
        for group in groups.values()
        if group["sequence"] or fold.get("tie_break") or group["columns"]
    )
    if kind and ignoring:  # deletes say nothing, not even that there is such a key
        events = [event for event in events if event[kind] not in ("-U", "-D")]
        if not events:
            return None
    row: Event = {}
    for name, group in groups.items():
        part = _group(events, name, group, fold)
        if part is None:
            return None
        row |= part
    keeps = KEEP_WHEN.get(fold.get("keep_when", ""))
    if keeps and not keeps(row):
        return None
    hidden = fold.get("hidden_columns", [])
    return {name: value for name, value in row.items() if name not in hidden}


def _group(events: list[Event], name: str, group: dict, fold: dict[str, Any]) -> Event | None:
    kind, tie = fold.get("row_kind"), fold.get("tie_break", [])
    on_delete = group.get("on_delete", "retract")
    sequence = group["sequence"]
    of_group = names_of(sequence or tie)
    taken = []
    for event in events:
        ends = kind is not None and event[kind] in ("-U", "-D")
        if of_group and all(event[name] is None for name in of_group):
            continue
        if not (ends and on_delete == "ignore"):
            taken.append((event, ends))
    taken.sort(key=lambda item: (rank(item[0], sequence), rank(item[0], tie), not item[1]))
    shown = [*names_of(sequence), *group["columns"]]
    if name == "other":
        shown = list(dict.fromkeys([*shown, *names_of(tie)]))
    if taken and taken[-1][1] and on_delete == "remove_row":
        return None
    return {item: _value(item, taken, name, sequence, tie, fold) for item in shown}


def _value(
    column: str,
    taken: list[tuple[Event, bool]],
    group: str,
    sequence: Order,
    tie: Order,
    fold: dict[str, Any],
) -> Any:
    counts = fold.get("count_rows")
    how = fold.get("aggregates", {}).get(column, fold.get("default_aggregate"))
    if not taken:
        return 0 if counts and how and how["function"] == "count" else None
    if column in names_of(sequence) or (group == "other" and column in names_of(tie)):
        return taken[-1][0][column]
    if how is None and group == "other" and fold.get("other_columns") == "last_non_null":
        how = {"function": "last_non_null_value"}
    if how is None:
        event, ends = taken[-1]
        return None if ends else event[column]
    if how.get("ignore_retract"):
        taken = [item for item in taken if not item[1]]
    function = how["function"]
    signed = [(e[column], -1 if ends else 1) for e, ends in taken if e[column] is not None]
    if function == "sum":
        total, held = sum(value * sign for value, sign in signed), sum(sign for _, sign in signed)
        is_none = not total and not held if counts else not signed
        return None if is_none else total
    if function == "count":
        return sum(sign for _, sign in signed) if signed or counts else None
    if how.get("elements"):
        signed = [(item, sign) for held, sign in signed for item in held if item is not None]
    if function in ("max", "min", "collect"):
        return _of_values(function, how, signed)
    values = [value for value, _ in signed]
    if function == "listagg":
        return how.get("delimiter", ",").join(values) if values else None
    if function in ("bool_and", "bool_or"):
        one_of = {"bool_and": all, "bool_or": any}[function]
        return one_of(values) if values else None
    if function == "first_non_null_value":
        taken = [item for item in taken if item[0][column] is not None]
    if function in ("first_value", "first_non_null_value"):
        lowest = [
            e for e, _ in taken if rank(e, sequence or tie) == rank(taken[0][0], sequence or tie)
        ]
        return lowest[-1][column] if lowest else None
    value = None
    for event, ends in taken:
        if ends:
            value = None
        elif function == "last_value" or event[column] is not None:
            value = event[column]
    return value


def _of_values(function: str, how: dict[str, Any], signed: list[tuple[Any, int]]) -> Any:
    counts: Counter = Counter()
    for value, sign in signed:
        counts[value] += sign
    if how.get("distinct") is False:
        held = sorted(counts.elements())
    elif how.get("net"):
        held = sorted(value for value, count in counts.items() if count > 0)
    else:
        held = sorted({value for value, _ in signed})
    if not held:
        return None
    if function == "collect":
        return held
    return held[-1] if function == "max" else held[0]
