"""Random folds and random events of them, and whether both come to what the oracle finds."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from dbt.adapters.sparksession.keyed.folds import Fold
from pyspark.sql import SparkSession

from tests.support.fold_oracle import Event, folded

KEY = ["stream", "id"]
POSITION = ["file", "position"]
TYPES = {
    "stream": "int",
    "id": "int",
    "file": "int",
    "position": "int",
    "kind": "string",
    "one": "int",
    "one_b": "int",
    "two": "bigint",
    "a": "string",
    "b": "int",
    "c": "string",
    "total": "decimal(12,2)",
    "times": "int",
    "high": "int",
    "low": "int",
    "tags": "string",
    "words": "string",
    "every": "boolean",
    "some": "boolean",
    "first": "string",
    "earliest": "string",
    "last": "string",
    "known": "string",
    "plain": "string",
    "items": "array<int>",
}


def random_event(rng: random.Random, stream: int, position: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.25 else value

    return {
        "stream": stream,
        "id": rng.randint(1, 3),
        "file": 1 + position // 10,
        "position": position % 10,
        "kind": rng.choice(["+I", "+U", "+U", "+U", "-U", "-D"]),
        "one": maybe(rng.randint(1, 4)),
        "one_b": maybe(rng.randint(1, 3)),
        "two": maybe(rng.randint(1, 9)),
        "a": maybe(rng.choice("xyz")),
        "b": maybe(rng.randint(-5, 5)),
        "c": maybe(rng.choice("pqr")),
        "total": maybe(Decimal(rng.randint(-900, 900)) / 100),
        "times": maybe(1),
        "high": maybe(rng.randint(-5, 5)),
        "low": maybe(rng.randint(-5, 5)),
        "tags": maybe(rng.choice("tuvw")),
        "words": maybe(rng.choice(["he,llo", "w'o", "", "\\"])),
        "every": maybe(rng.random() < 0.7),
        "some": maybe(rng.random() < 0.3),
        "first": maybe(rng.choice("fgh")),
        "earliest": maybe(rng.choice("ijk")),
        "last": maybe(rng.choice("klm")),
        "known": maybe(rng.choice("nop")),
        "plain": maybe(rng.choice("st")),
        "items": maybe([maybe(rng.randint(1, 4)) for _ in range(rng.randint(0, 3))]),
    }


def random_events(rng: random.Random, stream: int, places: Sequence[int]) -> list[Event]:
    """An event at each place; some take back an earlier event, so that keys come to nothing."""
    other_kind = {"+I": "-D", "+U": "-U", "-U": "+U", "-D": "+I"}
    events: list[Event] = []
    for place in places:
        event = random_event(rng, stream, place)
        if events and rng.random() < 0.4:
            earlier = rng.choice(events)
            here = {name: event[name] for name in POSITION}
            event = earlier | here | {"kind": other_kind[earlier["kind"]]}
        events.append(event)
    return events


ORDERING = ("file", "position", "one", "one_b", "two")
GROUPED = {
    "of_one": (["one", "one_b"], ("a", "b", "total", "high", "tags", "words", "first", "items")),
    "of_two": (["two"], ("c", "last", "times")),
}
NUMBERS = ("b", "total", "times", "high", "low")
PASSING = {"ignore_retract": True}
NEED_ORDER = ("first_value", "first_non_null_value", "last_value", "last_non_null_value", "listagg")
TAKE_BACK = ("sum", "count", "last_value", "last_non_null_value")
NETTED = ("max", "min", "collect")


def directed(rng: random.Random, names: Sequence[str]) -> list[str | dict[str, str]]:
    """Columns of an order, each in a direction of its own."""
    falling = {"order": "descending"}
    return [
        rng.choice([name, {"column": name} | falling, {"column": name} | falling, name])
        for name in names
    ]


def random_aggregate(
    rng: random.Random, column: str, *, takes_back: bool, is_ordered: bool
) -> dict[str, Any]:
    """A function of a column.

    Args:
        takes_back: whether retracting rows reach it.
        is_ordered: whether its group has an order.
    """
    functions = ["count", "collect"]
    functions += ["max", "min"] if column != "items" else []
    functions += ["sum"] if column in NUMBERS else []
    functions += ["listagg"] if is_ordered and TYPES[column] == "string" else []
    functions += ["bool_and", "bool_or"] if TYPES[column] == "boolean" else []
    functions += NEED_ORDER[:4] if is_ordered else []
    how: dict[str, Any] = {"function": rng.choice(functions)}
    if how["function"] == "listagg":
        how["delimiter"] = rng.choice([",", ";"])
    if how["function"] in NETTED and rng.random() < 0.6:
        how["net"] = True
    if how["function"] == "collect":
        how |= {"elements": True} if column == "items" else {}
        how |= {"distinct": False} if rng.random() < 0.5 else {}
    if takes_back and (
        rng.random() < 0.3 or (how["function"] not in TAKE_BACK and not how.get("net"))
    ):
        how |= PASSING
    return how


def random_fold(rng: random.Random) -> tuple[dict[str, Any], list[str]]:
    """A fold of options that go together, and the columns of its rows but for the key's and the
    kind."""
    shape = rng.choice(["groups", "groups", "one order", "no order"])
    fold: dict[str, Any] = {}
    if rng.random() < 0.85:
        fold["row_kind"] = "kind"
    deletes = ["ignore", "retract", "remove_row"] if fold else ["retract", "ignore"]
    columns = [name for name in TYPES if name not in (*KEY, "kind")]
    ruled: dict[str, str] = {}
    if shape == "groups":
        fold["sequence_groups"] = {
            name: {
                "sequence": directed(rng, sequence),
                "columns": list(held),
                "on_delete": rng.choice(deletes),
            }
            for name, (sequence, held) in GROUPED.items()
        }
        ruled = {column: name for name, (_, held) in GROUPED.items() for column in held}
        fold["tie_break"] = directed(rng, POSITION)
    elif shape == "one order":
        first = rng.sample(["one", "two"], k=rng.randint(0, 2))
        fold["sequence"] = directed(rng, [*first, *POSITION])
        ordering = {*first, *POSITION}
        columns = [name for name in columns if name not in ORDERING or name in ordering]
    else:
        columns = [name for name in columns if name not in ORDERING]
        deletes = [name for name in deletes if name != "remove_row"]
    on_delete = rng.choice([*deletes, None])
    if on_delete:
        fold["on_delete"] = on_delete
    if "row_kind" in fold and on_delete != "ignore" and rng.random() < 0.5:
        fold["count_rows"] = True
    is_ordered = shape != "no order"
    by_default = "remove_row" if is_ordered else "retract"
    if rng.random() < 0.3 and is_ordered:
        fold["other_columns"] = "last_non_null"
    aggregates = {}
    for column in columns:
        if column in ORDERING or (is_ordered and rng.random() < 0.4):
            continue
        name = ruled.get(column)
        deleted = fold["sequence_groups"][name]["on_delete"] if name else on_delete or by_default
        aggregates[column] = random_aggregate(
            rng,
            column,
            takes_back="row_kind" in fold and deleted != "ignore",
            is_ordered=is_ordered,
        )
    fold["aggregates"] = aggregates
    if rng.random() < 0.5:
        fold["hidden_columns"] = rng.sample(columns, k=rng.randint(1, 4))
    elif rng.random() < 0.3:
        fold["derived"] = {"by": KEY, "key": KEY, "sql": "select * from folded_rows"}
    if rng.random() < 0.3:
        fold["keep_when"] = "b is not null"
    return fold, columns


def seen_columns(fold: dict[str, Any], columns: list[str]) -> list[str]:
    return [name for name in columns if name not in fold.get("hidden_columns", [])]


def is_repeatable(fold: dict[str, Any]) -> bool:
    """Whether a row that comes twice changes nothing."""
    used = fold.get("aggregates", {}).values()
    counts = any(
        row["function"] in ("sum", "count") or row.get("net") or row.get("distinct") is False
        for row in used
    )
    return not counts and not fold.get("count_rows")


def differing_rows(
    spark: SparkSession,
    rng: random.Random,
    fold: dict[str, Any],
    columns: list[str],
    streams: int,
) -> tuple[int, list[str]]:
    """Plays events of some keys a stream, in any order and batching, and compares what readers see
    with what one sorted pass comes to: with runs that are merged in part, with a merge of all the
    runs there are in mid-stream, and with a single run.

    Returns:
        How many rows there are, and a text of each key that differs.
    """
    names = [*KEY, *columns, *(["kind"] if fold.get("row_kind") else [])]
    by_key: dict[tuple, list[Event]] = defaultdict(list)
    arrived = []
    for stream in range(streams):
        # keys differ in their number of events, some have one alone
        events = random_events(rng, stream, range(rng.randint(1, 30)))
        for event in events:
            by_key[stream, event["id"]].append(event)
        if is_repeatable(fold):
            events += rng.choices(events, k=rng.randint(0, 5))
        rng.shuffle(events)
        arrived += [(rng.randint(0, 8), event) for event in events]
    schema = "batch int, " + ", ".join(f"`{name}` {TYPES[name]}" for name in names)
    rows = [(batch, *(event[name] for name in names)) for batch, event in arrived]
    spark.createDataFrame(rows, schema).createOrReplaceTempView("fold_events")

    expected = {key: folded(events, fold, columns) for key, events in by_key.items()}
    expected = {key: row for key, row in expected.items() if row is not None}
    bound = Fold.read("wide", KEY, fold).bound([(name, TYPES[name]) for name in names])
    # runs of nine batches, six of which are merged by threes: queries of the same fold with the
    # number of the run in the key
    per_run = dataclasses.replace(bound, key=("batch", *KEY))
    runs = per_run.merge_states(f"({per_run.to_state('fold_events')})")
    spark.sql(runs).localCheckpoint().createOrReplaceTempView("fold_runs")
    merged = per_run.merge_states(
        "(select * except (batch), if(batch < 6, batch % 2, batch) as batch from fold_runs)"
    )
    spark.sql(
        "select 0 as run_level, * except (batch) from fold_runs where batch < 6"
    ).createOrReplaceTempView("early_runs")
    early = bound.merged("early_runs", 0, whole=True)
    late = "select * except (batch) from fold_runs where batch >= 6"
    whole = bound.merge_states(f"({bound.to_state('fold_events')})")
    wrong, seen = [], seen_columns(fold, columns)
    for state, run_count in ((merged, 9), (f"{early} union all {late}", 4), (whole, 1)):
        got = spark.sql(bound.folded(f"({state})", run_count=run_count)).collect()
        actual = {(row.stream, row.id): {column: row[column] for column in seen} for row in got}
        assert len(got) == len(actual)
        assert not got or {*got[0].asDict()} == {*KEY, *seen}
        wrong += [
            f"{key} of {run_count} runs is {actual.get(key)}, not {expected.get(key)}"
            for key in actual.keys() | expected.keys()
            if actual.get(key) != expected.get(key)
        ]
    return len(expected), wrong
