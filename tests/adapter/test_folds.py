"""Folds: random streams of events against one sorted pass, and what is said of a wrong config."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pytest
from dbt.adapters.sparksession.folds import Fold
from pyspark.sql import SparkSession

from tests.deserialize.conftest import spark
from tests.support.fold_oracle import folded

__all__ = ["spark"]

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
    "last": "string",
    "known": "string",
    "plain": "string",
}
IN_ONE = ["a", "b", "total", "times", "high", "low", "tags", "words", "every", "some", "first"]
PASSING = {"ignore_retract": True}
# what gives the same under repetition, and what counts
REPEATABLE = {
    "high": {"function": "max"} | PASSING,
    "low": {"function": "min"} | PASSING,
    "tags": {"function": "collect"} | PASSING,
    "words": {"function": "listagg", "delimiter": ";"} | PASSING,
    "every": {"function": "bool_and"} | PASSING,
    "some": {"function": "bool_or"} | PASSING,
    "first": {"function": "first_value"} | PASSING,
    "last": {"function": "last_value"} | PASSING,
    "known": {"function": "last_non_null_value"},
}
COUNTING = REPEATABLE | {
    "total": {"function": "sum"},
    "times": {"function": "count"},
    "high": {"function": "max", "net": True},
    "low": {"function": "min", "net": True},
    "tags": {"function": "collect", "net": True},
}
GROUPS = {
    "of_one": {"sequence": ["one", "one_b"], "columns": [*IN_ONE, "last", "known"]},
    "of_two": {"sequence": ["two"], "columns": ["c"], "on_delete": "remove_row"},
}
FOLDS = {
    "latest": {"sequence": POSITION, "row_kind": "kind"},
    "latest, no deletes": {"sequence": POSITION},
    "last non-null": {
        "tie_break": POSITION,
        "other_columns": "last_non_null",
        "row_kind": "kind",
        "on_delete": "remove_row",
    },
    "groups": {
        "sequence_groups": GROUPS,
        "tie_break": POSITION,
        "aggregates": REPEATABLE,
        "other_columns": "last_non_null",
        "row_kind": "kind",
        "on_delete": "ignore",
    },
    "groups that count": {
        "sequence_groups": GROUPS,
        "tie_break": POSITION,
        "aggregates": COUNTING,
        "row_kind": "kind",
        "on_delete": "retract",
    },
    "groups that ignore deletes": {
        "sequence_groups": {name: one | {"on_delete": "ignore"} for name, one in GROUPS.items()},
        "tie_break": POSITION,
        "aggregates": COUNTING,
        "row_kind": "kind",
        "on_delete": "ignore",
    },
    "sums": {
        "aggregates": {"total": {"function": "sum"}, "times": {"function": "count"}},
        "row_kind": "kind",
        "on_delete": "retract",
    },
}
STREAMS = 500


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
        "last": maybe(rng.choice("klm")),
        "known": maybe(rng.choice("nop")),
        "plain": maybe(rng.choice("st")),
    }


def columns_of(name: str) -> list[str]:
    if name == "sums":
        return ["total", "times"]
    if name.startswith("latest"):
        return [*POSITION, "a", "b", "total", "plain"]
    return [one for one in TYPES if one not in (*KEY, "kind")]


def repeatable(name: str) -> bool:
    counts = {"sum", "count"}
    used = FOLDS[name].get("aggregates", {}).values()
    return not any(one["function"] in counts or one.get("net") for one in used)


@pytest.mark.parametrize("name", FOLDS)
def test_any_order_and_batching_equal_one_sorted_pass(spark: SparkSession, name: str):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"{name}: seed {seed}, {STREAMS} streams")
    rng = random.Random(seed)
    config, columns = FOLDS[name], columns_of(name)
    with_kind = [*columns, "kind"] if config.get("row_kind") else columns
    by_key: dict[tuple, list[dict]] = defaultdict(list)
    arrived = []
    for stream in range(STREAMS):
        # keys differ in their number of events, some have one alone
        events = [random_event(rng, stream, n) for n in range(rng.randint(1, 30))]
        for event in events:
            by_key[stream, event["id"]].append(event)
        if repeatable(name):
            events += rng.choices(events, k=rng.randint(0, 5))
        rng.shuffle(events)
        arrived += [(rng.randint(0, 8), event) for event in events]
    names = [*KEY, *with_kind]
    schema = "batch int, " + ", ".join(f"`{one}` {TYPES[one]}" for one in names)
    rows = [(batch, *(event[one] for one in names)) for batch, event in arrived]
    spark.createDataFrame(rows, schema).createOrReplaceTempView("fold_events")

    bound = Fold.read("wide", KEY, config).bound([(one, TYPES[one]) for one in names])
    # runs of nine batches, six of which are merged by threes: queries of the same fold with the
    # number of the run in the key
    per_run = dataclasses.replace(bound, key=("batch", *KEY))
    runs = per_run.combined(f"({per_run.lifted('fold_events')})")
    merged = per_run.combined(
        f"(select * except (batch), if(batch < 6, batch % 2, batch) as batch from ({runs}))"
    )
    got = spark.sql(bound.folded(f"({merged})", run_count=9)).collect()
    rows_got = [got]
    if name == "groups that count":  # one run, read as it is
        whole = bound.combined(f"({bound.lifted('fold_events')})")
        rows_got.append(spark.sql(bound.folded(f"({whole})", run_count=1)).collect())

    expected = {}
    for key, events in by_key.items():
        row = folded(events, config, columns)
        if row is not None:
            expected[key] = row
    for rows in rows_got:
        actual = {(row.stream, row.id): {one: row[one] for one in columns} for row in rows}
        assert len(rows) == len(actual)
        wrong = {
            key: (actual.get(key), expected.get(key))
            for key in actual.keys() | expected.keys()
            if actual.get(key) != expected.get(key)
        }
        assert not wrong, f"seed {seed}: {len(wrong)} differ, e.g. {next(iter(wrong.items()))}"
    print(f"{len(expected)} rows of {len(arrived)} events, 0 differ")
    assert len(expected) > STREAMS / 2
