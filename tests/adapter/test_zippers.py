"""Zippers: random streams of changes against one sorted pass; the refusals of a wrong
config."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import defaultdict
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.zippers import Zipper, ZipperConfigError
from pyspark.sql import SparkSession

from tests.support.zipper_oracle import versions

KEY = ["stream", "id"]
TYPES = {
    "stream": "int",
    "id": "int",
    "file": "int",
    "position": "int",
    "time": "int",
    "kind": "string",
    "a": "string",
    "b": "int",
    "c": "string",
}
ZIPPER = {
    "sequence": ["file", "position"],
    "time": "time",
    "row_kind": "kind",
    "unpaired_retraction": "ends",
}
ZIPPERS = {
    "all columns": ZIPPER,
    "some columns": ZIPPER | {"tracked": ["a"]},
    "a key without nulls, upserts alone": {"sequence": ["file", "position"], "time": "time"},
    "all columns with the time": ZIPPER | {"keep_time": True},
    "some columns with the time": ZIPPER | {"tracked": ["a"], "keep_time": True},
}
STREAMS = 500


def random_event(rng: random.Random, stream: int, number: int) -> dict[str, Any]:
    # several changes at one time, and a clock that steps back now and then
    time = number // 2 - (rng.randint(1, 4) if rng.random() < 0.15 else 0)
    return {
        "stream": stream,
        "id": rng.choice([1, 1, 2]),
        "file": 1 + number // 10,
        "position": number % 10,
        "time": time,
        "kind": rng.choice(["+I", "+U", "+U", "+U", "-U", "-D"]),
        "a": rng.choice(["x", "x", "y", None]),
        "b": rng.choice([1, 1, 2, None]),
        "c": rng.choice(["p", "q"]),
    }


@pytest.mark.parametrize("name", ZIPPERS)
def test_any_order_and_batching_equal_one_sorted_pass(spark: SparkSession, name: str):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"{name}: seed {seed}, {STREAMS} streams")
    rng = random.Random(seed)
    config = ZIPPERS[name]
    tracked = config.get("tracked", ["a", "b", "c"])
    by_key: dict[tuple, list[dict]] = defaultdict(list)
    arrived = []
    for stream in range(STREAMS):
        events = [random_event(rng, stream, n) for n in range(rng.randint(1, 25))]
        if "row_kind" not in config:
            events = [event | {"kind": "+U"} for event in events]
        for item in list(events):  # the before image of a change stands at its place
            if item["kind"] == "+U" and rng.random() < 0.3:
                events.append(item | {"kind": "-U", "a": "old"})
        for item in events:
            by_key[stream, item["id"]].append(item)
        events += rng.choices(events, k=rng.randint(0, 5))
        rng.shuffle(events)
        arrived += [(rng.randint(0, 8), event) for event in events]
    names = [item for item in TYPES if item != "kind" or "row_kind" in config]
    if "row_kind" not in config:
        arrived = [(batch, row) for batch, row in arrived if row["kind"] == "+U"]
    schema = "batch int, " + ", ".join(f"`{name}` {TYPES[name]}" for name in names)
    rows = [(batch, *(event[name] for name in names)) for batch, event in arrived]
    spark.createDataFrame(rows, schema).createOrReplaceTempView("zipper_events")

    zipper = Zipper.read("z", KEY, config).bound([(name, TYPES[name]) for name in names])
    per_run = dataclasses.replace(zipper, key=("batch", *KEY))
    runs = per_run.merge_states(f"({per_run.to_state('zipper_events')})")
    merged = per_run.merge_states(
        f"(select * except (batch), if(batch < 6, batch % 2, batch) as batch from ({runs}))"
    )
    whole = zipper.merge_states(f"({zipper.to_state('zipper_events')})")
    dated = ["dated"] if config.get("keep_time") else []
    expected = {
        (*key, start): (end, end is None, *(event[name] for name in ("a", "b", "c", *dated)))
        for key, events in by_key.items()
        for start, end, event in versions(events, config["sequence"], "time", tracked, "kind")
    }
    for state, run_count in ((merged, 9), (whole, 1)):
        got = spark.sql(zipper.folded(f"({state})", run_count)).collect()
        actual = {
            (row.stream, row.id, row.valid_from): (
                row.valid_to,
                row.is_current,
                row.a,
                row.b,
                row.c,
                *(row.time for _ in dated),
            )
            for row in got
        }
        assert len(got) == len(actual)
        assert ("time" in got[0]) is bool(dated)
        wrong = {
            key: (actual.get(key), expected.get(key))
            for key in actual.keys() | expected.keys()
            if actual.get(key) != expected.get(key)
        }
        assert not wrong, f"seed {seed}: {len(wrong)} differ, e.g. {next(iter(wrong.items()))}"
    print(f"{len(expected)} versions of {len(arrived)} changes, 0 differ")
    assert len(expected) > STREAMS


def test_a_version_has_the_place_of_the_change_that_began_it(spark: SparkSession):
    zipper = Zipper.read("z", "id", {"sequence": "at", "tracked": "a"}).bound(
        [("id", "int"), ("at", "int"), ("a", "string"), ("b", "int")]
    )
    spark.sql(
        "select * from values (1, 1, 'x', 1), (1, 2, 'x', 2), (1, 5, 'y', 3) as t(id, at, a, b)"
    ).createOrReplaceTempView("placed")
    state = zipper.merge_states(f"({zipper.to_state('placed')})")
    rows = spark.sql(zipper.folded(f"({state})", 1))
    assert rows.columns == ["id", "a", "b", "valid_from", "valid_to", "is_current"]
    assert sorted(map(tuple, rows.collect())) == [
        (1, "x", 2, 1, 5, False),
        (1, "y", 3, 5, None, True),
    ]
    shows = dataclasses.replace(zipper, keep_time=True)
    rows = spark.sql(shows.folded(f"({state})", 1))
    assert rows.columns == ["id", "at", "a", "b", "valid_from", "valid_to", "is_current"]
    assert {(row.at, row.valid_from) for row in rows.collect()} == {(1, 1), (5, 5)}


OWN_SEQUENCES = "(1, 1, '+I', 1, 'a'), (1, 2, '-U', 1, 'a'), (1, 3, '+U', 10, 'b')"
MOVED = "(1, 1, '+I', 1, 'a'), (1, 2, '-U', 10, 'a'), (2, 2, '+U', 10, 'a')"
PAIRED = "(1, 1, '+I', 1, 'a'), (1, 2, '-U', 10, 'a'), (1, 2, '+U', 10, 'b')"
COUNTED = "(1, 2, '-U', 1, 'a'), (1, 3, '+U', 9, 'b'), (2, 2, '-U', 1, 'a'), (2, 3, '+U', 9, 'b')"


def zipper_of_kinds(**more: str) -> Zipper:
    config = {"sequence": "at", "time": "time", "row_kind": "kind", **more}
    types = {"id": "int", "at": "int", "kind": "string", "time": "int", "a": "string"}
    return Zipper.read("z", "id", config).bound(list(types.items()))


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)], ids=str)
def test_a_before_image_with_a_sequence_of_its_own_ends_no_version(
    spark: SparkSession, cuts: tuple[int, ...]
):
    """Such a row is refused, in every batching, until it is declared to be ignored."""
    rows = OWN_SEQUENCES.replace("), (", ")|(").split("|")
    bounds = [0, *cuts, len(rows)]
    batches = [
        f"(select * from values {', '.join(rows[first:end])} as t(id, at, kind, time, a)) as b"
        for first, end in itertools.pairwise(bounds)
    ]
    zipper, ignoring = zipper_of_kinds(), zipper_of_kinds(unpaired_retraction="ignored")
    reported = [
        zipper.refusal(spark.sql(zipper.refused_counts(batch)).first()) for batch in batches
    ]
    assert len([item for item in reported if item]) == 1
    assert "z: 1 rows of kind -U have a sequence that no +U has" in "".join(filter(None, reported))

    for batch in batches:
        assert ignoring.refusal(spark.sql(ignoring.refused_counts(batch)).first()) is None
    state = " union all ".join(
        ignoring.merge_states(f"({ignoring.to_state(batch)})") for batch in batches
    )
    got = spark.sql(ignoring.folded(f"({state})", len(batches))).collect()
    assert sorted((row.a, row.valid_from, row.valid_to) for row in got) == [
        ("a", 1, 10),
        ("b", 10, None),
    ]


@pytest.mark.parametrize(
    ("rows", "count"), [(MOVED, 0), (PAIRED, 0), (COUNTED, 2)], ids=["moved", "paired", "counted"]
)
def test_a_before_image_is_paired_by_its_sequence(spark: SparkSession, rows: str, count: int):
    zipper = zipper_of_kinds()
    batch = f"(select * from values {rows} as t(id, at, kind, time, a)) as b"
    assert spark.sql(zipper.refused_counts(batch)).first().unpaired == count


def test_what_is_tracked_may_change_over_stored_state():
    types = [("id", "int"), ("at", "int"), ("a", "int"), ("b", "int")]
    zipper = Zipper.read("z", "id", {"sequence": "at"}).bound(types)
    dated = Zipper.read("z", "id", {"sequence": "at", "keep_time": True}).bound(types)
    assert dated.changed_since(zipper.signature()) == []
    assert dated.reading != zipper.reading
    other = Zipper.read("z", "id", {"sequence": "at", "tracked": "a"}).bound([*types, ("c", "int")])
    assert other.changed_since(zipper.signature()) == []
    moved = Zipper.read("z", "id", {"sequence": "b", "buckets": 8}).bound(types)
    reported = moved.changed_since(zipper.signature())
    assert [line.split(" was ")[0] for line in reported] == ["partition_by", "sequence", "time"]


PROBLEMS = [
    ({}, "zipper.sequence must name at least one column, got None"),
    ({"sequence": ["at", "n"]}, "zipper.time must name the column that dates a change, got None"),
    ({"sequence": "at", "tracked": []}, "zipper.tracked must name at least one column, got []"),
    ({"sequence": "at", "tracked": ["at"]}, "zipper.tracked: at orders or dates the changes"),
    ({"sequence": "id"}, "zipper.sequence: id is a column of the key"),
    (
        {"sequence": "at", "row_kind": "s", "unpaired_retraction": "kept"},
        "zipper.unpaired_retraction must be 'ends' or 'ignored', got 'kept'",
    ),
    (
        {"sequence": "at", "unpaired_retraction": "ends"},
        "zipper.unpaired_retraction has no effect without zipper.row_kind",
    ),
    ({"sequence": "at", "buckets": 0}, "zipper.buckets must be a whole number from 1, got 0"),
    ({"sequence": "at", "keep_time": "at"}, "zipper.keep_time must be true or false, got 'at'"),
    ({"sequence": "at", "merge": 1}, "zipper.merge is an unknown setting"),
    ({"sequence": "nowhere"}, "zipper.sequence: the model has no column nowhere"),
    ({"sequence": "at", "tracked": "w"}, "zipper.tracked: the model has no column w"),
    ({"sequence": "at", "row_kind": "k"}, "zipper.row_kind: the model has no column k"),
    ({"sequence": "at", "bucket_by": "n"}, "bucket(4, n) must be of a column of the key"),
    ({"sequence": "at", "partition_by": "years(id)"}, "years(id) can't be partitioned by"),
    ({"sequence": "at", "time": "r"}, "zipper.time: r is double, must be a timestamp, a date or"),
    ({"sequence": "at", "time": "s"}, "zipper.time: s is string, must be a timestamp, a date or"),
]


@pytest.mark.parametrize(("config", "expected"), PROBLEMS, ids=[item for _, item in PROBLEMS])
def test_a_config_that_makes_no_sense_is_reported(config: dict[str, Any], expected: str):
    columns = [("id", "int"), ("at", "int"), ("n", "int"), ("r", "double"), ("s", "string")]
    with pytest.raises(ZipperConfigError) as caught:
        Zipper.read("dim_z", "id", config).bound(columns)
    assert "dim_z: its zipper can't be built" in str(caught.value)
    assert expected in str(caught.value)


def test_all_problems_are_reported_at_once():
    with pytest.raises(ZipperConfigError) as caught:
        Zipper.read("dim_z", None, {"buckets": "many", "time": 7, "row_kind": 1})
    assert str(caught.value).count("\n  - ") == 5
    columns = [("id", "int"), ("at", "int"), ("v", "map<string,string>"), ("valid_to", "int")]
    with pytest.raises(ZipperConfigError) as caught:
        Zipper.read("dim_z", "id", {"sequence": "at"}).bound(columns)
    assert str(caught.value).count("\n  - ") == 2
