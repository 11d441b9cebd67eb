"""Zippers of partial rows: random streams against one sorted pass; refusals of a wrong config."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.partial_zippers import KNOWN, PartialZipper
from dbt.adapters.sparksession.keyed.zippers import ZipperConfigError
from pyspark.sql import SparkSession

from tests.support.zipper_oracle import Event, Group, Partial, wide_versions

KEY = ["stream", "id"]
HELD = ["a", "b", "c", "d"]
TYPES = {
    "stream": "int",
    "id": "int",
    "file": "int",
    "position": "int",
    "own": "int",
    "time": "int",
    "kind": "string",
    "known": "array<string>",
    "a": "string",
    "b": "int",
    "c": "string",
    "d": "array<int>",
}
STREAMS = 500
ONE = {"sequence": ["file", "position"], "time": "time", "row_kind": "kind"}
ONE |= {"unpaired_retraction": "ends"}
GROUPS = {
    "first": {"sequence": ["file", "position"], "columns": ["a", "b"], "on_delete": "remove_row"},
    "second": {"sequence": "own", "columns": ["c", "d"]},
}
WIDE = {
    "time": "time",
    "row_kind": "kind",
    "unpaired_retraction": "ends",
    "sequence_groups": GROUPS,
}
TWO_GROUPS = [Group(["file", "position"], ["a", "b"], True), Group(["own"], ["c", "d"])]


ALL_COLUMNS = Partial()  # each row gives values to all columns


@dataclass(frozen=True)
class Case:
    """A config, and how the oracle is asked for the same."""

    config: dict[str, Any]
    partial: Partial = ALL_COLUMNS
    tracked: tuple[str, ...] = tuple(HELD)
    is_kept: Callable[[Event], bool] = lambda row: True

    @property
    def groups(self) -> list[Group]:
        is_wide = "sequence_groups" in self.config
        return TWO_GROUPS if is_wide else [Group(["file", "position"], HELD)]


CASES = {
    "known columns": Case(ONE | {"known_columns": "known", "keep_time": True}, Partial("known")),
    "no null counts": Case(ONE | {"ignore_nulls": True}, Partial(None, HELD)),
    "some nulls, some tracked": Case(
        ONE | {"ignore_nulls": ["b"], "tracked": ["a", "b"], "keep_time": True},
        Partial(None, ["b"]),
        ("a", "b"),
    ),
    "known columns without nulls": Case(
        ONE
        | {"known_columns": "known", "ignore_nulls": ["a", "d"], "keep_when": "b = 1"}
        | {"keep_time": True},
        Partial("known", ["a", "d"]),
        is_kept=lambda row: row["b"] == 1,
    ),
    "groups": Case(WIDE),
    "groups, some tracked": Case(WIDE | {"tracked": ["b", "c"]}, tracked=("b", "c")),
    "groups of partial rows": Case(
        WIDE | {"known_columns": "known", "ignore_nulls": ["c"], "keep_when": "file is not null"},
        Partial("known", ["c"]),
        is_kept=lambda row: row["file"] is not None,
    ),
}


def random_event(rng: random.Random, stream: int, number: int, is_wide: bool) -> Event:
    # several changes at one time, and a clock that steps back now and then
    time = number // 2 - (rng.randint(1, 4) if rng.random() < 0.15 else 0)
    event = {
        "stream": stream,
        "id": rng.choice([1, 1, 2]),
        "file": 1 + number // 10,
        "position": number % 10,
        "own": None,
        "time": time,
        "kind": rng.choice(["+I", "+U", "+U", "+U", "+U", "-U", "-D"]),
        "known": rng.choice([None, [], *([name] for name in HELD), ["a", "c", "other"]]),
        "a": rng.choice(["x", "x", "y", None]),
        "b": rng.choice([1, 1, 2, None]),
        "c": rng.choice(["p", "q", None]),
        "d": rng.choice([[1], [1, 2], None]),
    }
    if is_wide:  # rows of the first group, of the second, and of both
        event["own"] = rng.choice([None, number * 3 % 100, 1000 + number])
        if event["own"] is not None and rng.random() < 0.7:
            event |= {"file": None, "position": None}
    return event


def cell(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("name", CASES)
def test_any_order_and_batching_equal_one_sorted_pass(spark: SparkSession, name: str):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"{name}: seed {seed}, {STREAMS} streams")
    rng, case = random.Random(seed), CASES[name]
    is_wide = "sequence_groups" in case.config
    by_key: dict[tuple, list[Event]] = defaultdict(list)
    arrived = []
    for stream in range(STREAMS):
        events = [random_event(rng, stream, n, is_wide) for n in range(rng.randint(1, 25))]
        for item in list(events):  # the before image of a change stands at its place
            if item["kind"] == "+U" and rng.random() < 0.3:
                events.append(item | {"kind": "-U", "a": "old"})
        for item in events:
            by_key[stream, item["id"]].append(item)
        events += rng.choices(events, k=rng.randint(0, 5))
        rng.shuffle(events)
        arrived += [(rng.randint(0, 8), event) for event in events]
    names = [item for item in TYPES if item != "own" or is_wide]
    if not case.partial.known:
        names.remove("known")
    schema = "batch int, " + ", ".join(f"`{name}` {TYPES[name]}" for name in names)
    rows = [(batch, *(event[name] for name in names)) for batch, event in arrived]
    spark.createDataFrame(rows, schema).createOrReplaceTempView("partial_events")

    zipper = PartialZipper.read("z", KEY, case.config).bound(
        [(item, TYPES[item]) for item in names]
    )
    (counts,) = spark.sql(zipper.refused_counts("partial_events")).collect()
    assert zipper.refusal(counts) is None
    per_run = dataclasses.replace(zipper, key=("batch", *KEY))
    runs = per_run.merge_states(f"({per_run.to_state('partial_events')})")
    merged = per_run.merge_states(
        f"(select * except (batch), if(batch < 6, batch % 2, batch) as batch from ({runs}))"
    )
    whole = zipper.merge_states(f"({zipper.to_state('partial_events')})")
    shown = [*HELD, *(["file", "position", "own"] if is_wide else [])]
    dated = ["dated"] if case.config.get("keep_time") else []
    expected = {
        (*key, start): (end, end is None, *(cell(row[name]) for name in [*shown, *dated]))
        for key, events in by_key.items()
        for start, end, row in wide_versions(
            events, case.groups, ("time", "kind"), case.tracked, case.partial, case.is_kept
        )
    }
    for state, run_count in ((merged, 9), (whole, 1)):
        got = spark.sql(zipper.folded(f"({state})", run_count)).collect()
        actual = {
            (row.stream, row.id, row.valid_from): (
                row.valid_to,
                row.is_current,
                *(cell(row[name]) for name in [*shown, *(["time"] if dated else [])]),
            )
            for row in got
        }
        assert len(got) == len(actual)
        wrong = {
            key: (actual.get(key), expected.get(key))
            for key in actual.keys() | expected.keys()
            if actual.get(key) != expected.get(key)
        }
        assert not wrong, f"seed {seed}: {len(wrong)} differ, e.g. {next(iter(wrong.items()))}"
    print(f"{len(expected)} versions of {len(arrived)} changes, 0 differ")
    assert len(expected) > STREAMS / 2


def test_names_of_known_columns_are_the_same_in_any_case(spark: SparkSession):
    """Spark gives a column the spelling of the query that takes it."""
    config = {"sequence": "at", "known_columns": "known"}
    kinds = {"id": "int", "at": "int", "known": "array<string>", "CITY": "string", "b": "int"}
    zipper = PartialZipper.read("z", "id", config).bound(list(kinds.items()))
    rows = (
        "(select * from values (1, 1, null, 'x', 1), (1, 2, array('city'), 'y', null), "
        f"(1, 3, array('B', 'CITY'), 'z', 2) as t({', '.join(kinds)})) as r"
    )
    state = zipper.merge_states(f"({zipper.to_state(rows)})")
    for run_count in (1, 2):
        got = spark.sql(zipper.folded(f"({state})", run_count)).collect()
        assert {(row.CITY, row.b, row.valid_from) for row in got} == {
            ("x", 1, 1),
            ("y", 1, 2),
            ("z", 2, 3),
        }
    # of a state that an older version stored
    stored = f"(select * except ({KNOWN}), array('CITY') as {KNOWN} from ({state}) where at = 2)"
    assert [row.CITY for row in spark.sql(zipper.folded(stored, 1)).collect()] == ["y"]


def test_rows_whose_place_is_unknown_are_refused_with_their_number(spark: SparkSession):
    zipper = PartialZipper.read("z", KEY, WIDE).bound(
        [pair for pair in TYPES.items() if pair[0] != "known"]
    )
    columns = "stream, id, file, position, own, time, kind, a, b, c, d"
    cells = "'+I', 'x', 1, 'p', array(1)"
    rows = (
        f"(select * from values (1, 1, 1, 2, 3, 4, {cells}), (1, 1, null, 2, 3, 4, {cells}), "
        f"(1, 1, null, null, null, 4, {cells}), (1, 1, null, null, 3, 4, {cells}) as t({columns}))"
    )
    (counts,) = spark.sql(zipper.refused_counts(f"{rows} as r")).collect()
    assert (
        "z: 2 rows have null in the sequence of every group, or in a part of it (first: file, "
        in (zipper.refusal(counts) or "")
    )


PROBLEMS = [
    (
        WIDE | {"sequence": "own"},
        "zipper.sequence and sequence_groups exclude each other",
    ),
    (
        ONE | {"sequence_groups": ["a"]},
        "zipper.sequence_groups must map names to {sequence, columns}",
    ),
    (WIDE | {"sequence_groups": {"g": ["a"]}}, "zipper.sequence_groups.g must be {sequence, col"),
    (
        WIDE | {"sequence_groups": {"g": {"sequence": "own", "columns": [], "order": 1}}},
        "zipper.sequence_groups.g.order is an unknown setting; expected one of sequence, columns",
    ),
    (
        WIDE | {"sequence_groups": {"g": {"sequence": "own", "columns": []}}},
        "zipper.sequence_groups.g.columns must name at least one column, got []",
    ),
    (
        WIDE | {"sequence_groups": GROUPS | {"third": {"sequence": "x", "columns": "a"}}},
        "zipper.sequence_groups.third: a is in group first as well",
    ),
    (
        WIDE | {"sequence_groups": {"g": {"sequence": "own", "columns": "a", "on_delete": "x"}}},
        "zipper.sequence_groups.g.on_delete must be one of remove_row, retract, got 'x'",
    ),
    (
        WIDE | {"sequence_groups": {"g": {"sequence": "own", "columns": ["id"]}}},
        "zipper.sequence_groups.g.columns: id is a column of the key, the time or a sequence",
    ),
    (
        WIDE | {"keep_time": True},
        "zipper.keep_time isn't for sequence_groups, of which each has a time of its own",
    ),
    ({"sequence_groups": GROUPS}, "zipper.time must name the column that dates a change, got None"),
    (
        {"sequence_groups": GROUPS, "time": "time"},
        "zipper.sequence_groups.first.on_delete has no effect without zipper.row_kind",
    ),
    (ONE | {"ignore_nulls": 7}, "zipper.ignore_nulls must be true or list columns, got 7"),
    (ONE | {"known_columns": ["a"]}, "zipper.known_columns must be a text, got ['a']"),
    (ONE | {"known_columns": "own"}, "zipper.known_columns: own is int, no array<string>"),
    (ONE | {"known_columns": "nowhere"}, "zipper.known_columns: the model has no column nowhere"),
    (ONE | {"ignore_nulls": ["z"]}, "zipper.ignore_nulls: the model has no column z"),
    (
        WIDE | {"sequence_groups": {"first": GROUPS["first"]}},
        "zipper.sequence_groups: c is in no group",
    ),
]


@pytest.mark.parametrize(("config", "expected"), PROBLEMS, ids=[item for _, item in PROBLEMS])
def test_a_config_that_makes_no_sense_is_refused(config: dict[str, Any], expected: str):
    with pytest.raises(ZipperConfigError) as caught:
        PartialZipper.read("dim_z", KEY, config).bound(list(TYPES.items()))
    assert "dim_z: its zipper can't be built" in str(caught.value)
    assert expected in str(caught.value)
