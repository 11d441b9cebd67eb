"""Folds: random streams of events against one sorted pass, and the refusals of a wrong
config."""

from __future__ import annotations

import random

import pytest
from dbt.adapters.sparksession.evaluation import compile_again, leave_uncompiled
from dbt.adapters.sparksession.keyed.folds import Fold
from pyspark.sql import SparkSession

from tests.support.random_folds import KEY, POSITION, TYPES, differing_rows, random_fold

IN_ONE = [
    "a",
    "b",
    "total",
    "times",
    "high",
    "low",
    "tags",
    "words",
    "every",
    "some",
    "first",
    "earliest",
]
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
    "earliest": {"function": "first_non_null_value"} | PASSING,
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
    "latest, deletes ignored": {"sequence": POSITION, "row_kind": "kind", "on_delete": "ignore"},
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
        "sequence_groups": {
            name: group | {"on_delete": "ignore"} for name, group in GROUPS.items()
        },
        "tie_break": POSITION,
        "aggregates": COUNTING,
        "row_kind": "kind",
        "on_delete": "ignore",
    },
    "a function by default": {
        "sequence_groups": GROUPS,
        "tie_break": POSITION,
        "aggregates": {"total": {"function": "sum"}},
        "default_aggregate": {"function": "first_non_null_value"} | PASSING,
        "row_kind": "kind",
        "on_delete": "retract",
    },
    "sums": {
        "aggregates": {"total": {"function": "sum"}, "times": {"function": "count"}},
        "row_kind": "kind",
    },
    "sums that ignore deletes": {
        "aggregates": {"total": {"function": "sum"}, "times": {"function": "count"}},
        "row_kind": "kind",
        "on_delete": "ignore",
    },
}
STREAMS = 500


def columns_of(name: str) -> list[str]:
    if name.startswith("sums"):
        return ["total", "times"]
    if name.startswith("latest"):
        return [*POSITION, "a", "b", "total", "plain"]
    return [item for item in TYPES if item not in (*KEY, "kind")]


@pytest.mark.in_turn
@pytest.mark.parametrize("name", FOLDS)
def test_any_order_and_batching_equal_one_sorted_pass(spark: SparkSession, name: str):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"{name}: seed {seed}, {STREAMS} streams")
    config, columns = FOLDS[name], columns_of(name)
    rows, wrong = differing_rows(spark, random.Random(seed), config, columns, STREAMS)
    assert not wrong, f"seed {seed}: {len(wrong)} differ, e.g. {wrong[0]}"
    print(f"{rows} rows, 0 differ")
    assert rows > STREAMS / 2


@pytest.mark.in_turn
@pytest.mark.parametrize("folds", [8, pytest.param(150, marks=pytest.mark.soak)])
def test_random_folds_in_any_order_and_batching_equal_one_sorted_pass(
    spark: SparkSession, folds: int
):
    """Options of folds in all combinations that are allowed."""
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}, {folds} folds")
    rng, compared = random.Random(seed), 0
    leave_uncompiled(spark)
    try:
        for _ in range(folds):
            config, columns = random_fold(rng)
            rows, wrong = differing_rows(spark, rng, config, columns, streams=25)
            assert not wrong, f"seed {seed}, {config}: {len(wrong)} differ, e.g. {wrong[0]}"
            compared += rows
    finally:
        compile_again(spark)
    print(f"{compared} rows, 0 differ")
    assert compared > folds


TOMBSTONES = {
    "sequence": ["at"],
    "row_kind": "kind",
    "tombstone_days": 3,
    "tombstone_time": "time",
}


def merged_whole(spark: SparkSession, fold: Fold, rows: str) -> str:
    """Query of the state of a run of these rows, alone, once all runs are merged."""
    state = fold.merge_states(f"({fold.to_state(rows)})")
    spark.sql(f"select 0 as run_level, * from ({state})").createOrReplaceTempView(f"{rows}_runs")
    return fold.merged(f"{rows}_runs", 0, whole=True)


def test_a_tombstone_is_forgotten_when_its_life_is_over(spark: SparkSession):
    types = [("id", "int"), ("at", "int"), ("time", "timestamp"), ("v", "int"), ("kind", "string")]
    fold = Fold.read("m", "id", TOMBSTONES).bound(types)
    rows = (
        "(1, 5, '2026-03-01', 1, '-D'), (2, 5, '2026-03-06', 1, '-D'), "
        "(3, 5, '2026-03-01', 1, '+I'), (4, 9, '2026-03-08', 1, '+I')"
    )
    values = f"select id, at, cast(time as timestamp) as time, v, kind from values {rows} as t"
    spark.sql(f"{values}(id, at, time, v, kind)").createOrReplaceTempView("tomb_rows")
    state = fold.merge_states(f"({fold.to_state('tomb_rows')})")
    spark.sql(f"select 0 as run_level, * from ({state})").createOrReplaceTempView("tomb_runs")
    part, whole = (fold.merged("tomb_runs", 0, whole) for whole in (False, True))
    assert {row.id for row in spark.sql(part).collect()} == {1, 2, 3, 4}
    assert {row.id for row in spark.sql(whole).collect()} == {2, 3, 4}
    # a late change: the row stays gone while its tombstone is there
    spark.sql(
        "select 2 as id, 4 as at, timestamp '2026-03-09' as time, 7 as v, '+U' as kind"
    ).createOrReplaceTempView("tomb_late")
    late = fold.merge_states(f"({fold.to_state('tomb_late')})")
    shown = spark.sql(fold.folded(f"({whole} union all {late})", run_count=2)).collect()
    assert {(row.id, row.v) for row in shown} == {(3, 1), (4, 1)}


COUNTED = {
    "n": "sum",
    "times": "count",
    "high": {"function": "max", "net": True},
    "tags": {"function": "collect", "net": True},
    "top": {"function": "max", "ignore_retract": True},
}
BESIDE = {  # a removed key whose sums and values aren't gone, and one of which nothing is left
    "sequence_groups": {
        "o": {"sequence": ["at"], "columns": ["time"], "on_delete": "remove_row"},
    },
    "row_kind": "kind",
    "on_delete": "retract",
    "tombstone_days": 3,
    "tombstone_time": "time",
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_no_sequence_rules_outlives_a_tombstone(spark: SparkSession, name: str):
    types = [("id", "int"), ("kind", "string"), ("at", "int"), ("time", "timestamp")]
    fold = Fold.read("m", "id", BESIDE | {"aggregates": {name: COUNTED[name]}}).bound(
        [*types, (name, "int")]
    )

    def state_of(*rows: str) -> str:
        values = (
            f"select id, kind, at, cast(time as timestamp) as time, {name} from values "
            f"{', '.join(rows)} as t(id, kind, at, time, {name})"
        )
        return fold.merge_states(f"({fold.to_state(f'({values})')})")

    removed = (f"({id}, '-D', 5, '2026-03-01', null)" for id in (1, 2, 3))
    state = state_of(
        *removed,
        "(1, '+I', null, null, 2)",
        "(2, '+I', null, null, 2)",
        "(2, '-D', null, null, 2)",
        "(4, '+I', 9, '2026-03-08', null)",
    )
    spark.sql(f"select 0 as run_level, * from ({state})").createOrReplaceTempView("beside_runs")
    kept = fold.merged("beside_runs", 0, whole=True)
    stays = {2} if name == "top" else set()  # takes nothing back
    assert {row.id for row in spark.sql(kept).collect()} == {1, 4} | stays
    # the rest is taken back, and the key comes again
    late = state_of("(1, '-D', null, null, 2)", "(1, '+I', 6, '2026-03-09', null)")
    wanted, got = (
        sorted(
            tuple(row)
            for row in spark.sql(fold.folded(f"({runs} union all {late})", run_count=2)).collect()
        )
        for runs in (state, kept)
    )
    assert got == wanted
    assert [row[0] for row in got] == [1, 4]


def test_a_time_ahead_of_the_clock_ends_no_tombstone(spark: SparkSession):
    for kind in ("timestamp", "timestamp_ntz", "date"):
        types = [("id", "int"), ("at", "int"), ("time", kind), ("kind", "string")]
        fold = Fold.read("m", "id", TOMBSTONES).bound(types)
        spark.sql(
            f"select id, 5 as at, cast(current_timestamp() + make_dt_interval(days) as {kind}) as "
            "time, kind from values (1, -5, '-D'), (2, -1, '-D'), (3, 9000, '+I') "
            "as t(id, days, kind)"
        ).createOrReplaceTempView("ahead_rows")
        kept = spark.sql(merged_whole(spark, fold, "ahead_rows")).collect()
        assert {row.id for row in kept} == {2, 3}, kind


@pytest.mark.parametrize("keep_when", [None, "n >= 0", "n <> 0 or id = 1", "nullif(n, 0) > 0"])
def test_a_merge_of_all_runs_shows_the_rows_that_were_shown(
    spark: SparkSession, keep_when: str | None
):
    types = [("id", "int"), ("n", "int"), ("kind", "string")]
    spark.sql(
        "select * from values (1, 2, '+I'), (1, 2, '-D'), (2, 1, '+I'), (3, 0, '+I'), "
        "(4, null, '+I') as t(id, n, kind)"
    ).createOrReplaceTempView("zero_rows")
    for config in ({"row_kind": "kind", "on_delete": "retract"}, {}):
        config |= {"aggregates": {"n": "sum"}} | ({"keep_when": keep_when} if keep_when else {})
        fold = Fold.read("m", "id", config).bound(types if "row_kind" in config else types[:2])
        merged = merged_whole(spark, fold, "zero_rows")
        before, after = (
            {tuple(row) for row in spark.sql(fold.folded(rows, run_count=count)).collect()}
            for rows, count in (("zero_rows_runs", 2), (f"({merged})", 1))
        )
        assert after == before
        if keep_when is None:
            assert {row[0] for row in after} == {1, 2, 3, 4}


def rows_by_id(spark: SparkSession, fold: Fold, state: str) -> dict[int, tuple]:
    rows = spark.sql(fold.folded(f"({state})", run_count=2)).collect()
    return {row.id: tuple(row)[1:] for row in rows}


SUMMED = {"aggregates": {"n": "sum"}, "row_kind": "kind", "on_delete": "retract"}


def test_sums_that_come_to_nothing_are_forgotten(spark: SparkSession):
    config = SUMMED | {"keep_when": "n <> 0", "not_null": "n"}
    fold = Fold.read("m", "id", config).bound([("id", "int"), ("n", "int"), ("kind", "string")])
    spark.sql(
        "select * from values (1, 2, '+I'), (1, 2, '-D'), (2, 1, '+I'), (3, 1, '-D') "
        "as t(id, n, kind)"
    ).createOrReplaceTempView("sum_rows")
    kept = spark.sql(merged_whole(spark, fold, "sum_rows")).collect()
    assert {(row.id, row.n) for row in kept} == {(2, 1), (3, -1)}


@pytest.mark.parametrize(
    "more",
    [
        {"keep_when": "n <> 0"},
        {"keep_when": "n <> 0", "not_null": "n"},
        {"count_rows": True},
        {"count_rows": True, "keep_when": "n > 0"},
    ],
    ids=str,
)
def test_a_sum_that_begins_again_is_the_same_whether_its_runs_were_merged(
    spark: SparkSession, more: dict
):
    """A key that came to nothing comes again with no amount: its amounts are then 0 or null, the
    same before a merge and after it."""
    types = [("id", "int"), ("n", "int"), ("amount", "int"), ("kind", "string")]
    config = SUMMED | more | {"aggregates": {"n": "sum", "amount": "sum"}}
    fold = Fold.read("m", "id", config).bound(types)
    early = "values (1, 1, 5, '+I'), (1, 1, 5, '-D'), (2, 1, 5, '+I') as t(id, n, amount, kind)"
    late = "values (1, 1, cast(null as int), '+I'), (2, 1, 5, '-D') as t(id, n, amount, kind)"
    spark.sql(f"select * from {early}").createOrReplaceTempView("begun_rows")
    kept = merged_whole(spark, fold, "begun_rows")
    state = fold.merge_states(f"({fold.to_state(f'(select * from {late})')})")
    both = rows_by_id(
        spark, fold, f"select * except (run_level) from begun_rows_runs union all {state}"
    )
    assert rows_by_id(spark, fold, f"{kept} union all {state}") == both
    forgets = "count_rows" in more
    assert (1 not in {row.id for row in spark.sql(kept).collect()}) is forgets
    assert both == {1: (1, None if forgets else 0)}


def test_a_sum_that_takes_nothing_back_is_not_forgotten_at_zero(spark: SparkSession):
    """The next row may pass it by: it is 0 then, and null where it was forgotten."""
    types = [("id", "int"), ("n", "int"), ("top", "int"), ("kind", "string")]
    aggregates = {"n": "sum", "top": {"function": "sum", "ignore_retract": True}}
    more = {"aggregates": aggregates, "keep_when": "n <> 0", "not_null": ["n", "top"]}
    fold = Fold.read("m", "id", SUMMED | more).bound(types)
    early, late = "(1, 1, 0, '+I'), (1, 1, 0, '-D')", "(1, 1, 3, '-D')"
    spark.sql(f"select * from values {early} as t(id, n, top, kind)").createOrReplaceTempView(
        "passed_rows"
    )
    kept = merged_whole(spark, fold, "passed_rows")
    rows = f"(select * from values {late} as t(id, n, top, kind))"
    state = fold.merge_states(f"({fold.to_state(rows)})")
    assert rows_by_id(spark, fold, f"{kept} union all {state}") == {1: (-1, 0)}


def test_a_key_that_counts_no_rows_is_gone_like_a_group_of_sql(spark: SparkSession):
    """Whatever its sums come to; and it comes again."""
    types = [("id", "int"), ("amount", "int"), ("high", "int"), ("kind", "string")]
    aggregates = {"amount": "sum", "high": {"function": "max", "net": True}}
    config = {"aggregates": aggregates, "row_kind": "kind", "count_rows": True}
    fold = Fold.read("m", "id", config).bound(types)
    spark.sql(
        "select * from values (1, 2, 7, '+I'), (1, 2, 7, '-D'), "  # nothing is left
        "(2, 2, 7, '+I'), (2, 1, 7, '-D'), "  # its amounts don't agree: hidden, but not forgotten
        "(3, 2, 7, '+I'), (3, null, 9, '+I'), (3, 2, 7, '-U'), (3, 4, 7, '+U'), "
        "(4, 1, 1, '-D'), "  # its insert comes late
        "(5, null, null, '+I') as t(id, amount, high, kind)"
    ).createOrReplaceTempView("counted_rows")
    kept = merged_whole(spark, fold, "counted_rows")
    assert {row.id for row in spark.sql(kept).collect()} == {2, 3, 4, 5}
    shown = {3: (4, 9), 4: (-1, None), 5: (None, None)}
    assert rows_by_id(spark, fold, kept) == shown
    late = "values (1, 3, 3, '+I'), (2, 5, 5, '+I'), (4, 1, 1, '+I') as t(id, amount, high, kind)"
    state = fold.merge_states(f"({fold.to_state(f'(select * from {late})')})")
    again = rows_by_id(spark, fold, f"{kept} union all {state}")
    assert again == {1: (3, 3), 2: (6, 5), 3: (4, 9), 5: (None, None)}


def test_a_counted_key_outlives_its_tombstone_while_rows_of_it_are_left(spark: SparkSession):
    types = [("id", "int"), ("at", "int"), ("time", "timestamp"), ("v", "int"), ("kind", "string")]
    fold = Fold.read("m", "id", TOMBSTONES | {"count_rows": True}).bound(types)
    rows = (
        "(1, 4, '2026-03-01', 1, '+I'), (1, 5, '2026-03-01', 1, '-D'), "
        "(2, 5, '2026-03-01', 1, '-D'), (3, 9, '2026-03-08', 1, '+I')"
    )
    values = f"select id, at, cast(time as timestamp) as time, v, kind from values {rows} as t"
    spark.sql(f"{values}(id, at, time, v, kind)").createOrReplaceTempView("counted_tombs")
    kept = merged_whole(spark, fold, "counted_tombs")
    assert {row.id for row in spark.sql(kept).collect()} == {2, 3}
    assert list(rows_by_id(spark, fold, kept)) == [3]


def test_deletes_that_are_ignored_make_no_key(spark: SparkSession):
    types = [("id", "int"), ("at", "int"), ("n", "int"), ("v", "int"), ("kind", "string")]
    of_group = {"g": {"sequence": ["at"], "columns": ["v"], "on_delete": "ignore"}}
    summed = {"sequence_groups": of_group, "aggregates": {"n": "sum"}}
    # whatever the rule of columns of no group, where there are none
    no_others = {"g": of_group["g"] | {"columns": ["v", "n"]}}
    cases = [
        ({"sequence": ["at"], "on_delete": "ignore"}, {2, 3}),
        (summed | {"on_delete": "ignore"}, {2, 3}),
        (summed | {"on_delete": "retract"}, {1, 2, 3}),  # its sum is taken back
        ({"sequence_groups": no_others}, {2, 3}),
    ]
    spark.sql(
        "select * from values (1, 1, 1, 1, '-D'), (1, 2, 1, 1, '-U'), (2, 1, 1, 7, '+I'), "
        "(2, 2, 1, 8, '-D'), (3, 1, 1, 7, '+U') as t(id, at, n, v, kind)"
    ).createOrReplaceTempView("ghosts")
    for config, ids in cases:
        fold = Fold.read("m", "id", config | {"row_kind": "kind"}).bound(types)
        state = fold.merge_states(f"({fold.to_state('ghosts')})")
        rows = spark.sql(fold.folded(f"({state})", run_count=1)).collect()
        assert {row.id for row in rows} == ids, config
        assert {row.v for row in rows if row.id > 1} == {7}


COLLECTED = [  # how, what is held of it after an array, and after more
    ({}, [1, 2], [1, 2, 3]),
    ({"distinct": False}, [1, 2, 2], [1, 2, 2, 2, 3]),
    ({"net": True}, [1, 2], [2, 3]),
    ({"net": True, "distinct": False}, [1, 2, 2], [2, 2, 3]),
]


@pytest.mark.parametrize(("how", "first", "second"), COLLECTED, ids=str)
def test_elements_of_arrays_are_collected_one_by_one(
    spark: SparkSession, how: dict, first: list[int], second: list[int]
):
    passing = {} if how.get("net") else PASSING
    collect = {"function": "collect", "elements": True} | how | passing
    config = {"aggregates": {"v": collect}, "row_kind": "one"}  # a name that lambdas have as well
    types = [("id", "int"), ("v", "array<int>"), ("one", "string")]
    fold = Fold.read("m", "id", config).bound(types)

    def state_of(*rows: str) -> str:
        values = f"(select * from values {', '.join(rows)} as t(id, v, one))"
        return fold.merge_states(f"({fold.to_state(values)})")

    state = state_of("(1, array(2, null, 1, 2), '+I')", "(2, array(), '+I')", "(3, null, '+I')")
    nothing = {2: (None,), 3: (None,)}
    assert rows_by_id(spark, fold, state) == {1: (first,)} | nothing
    more = state_of("(1, array(2, 1, null), '-U')", "(1, array(3, 2), '+U')")
    assert rows_by_id(spark, fold, f"{state} union all {more}") == {1: (second,)} | nothing
    # what is taken back before it came is known until then
    if how.get("net"):
        ahead = state_of("(2, array(7, 7), '-D')", "(2, array(7), '+I')")
        assert rows_by_id(spark, fold, f"{state} union all {ahead}")[2] == (None,)
        late = state_of("(2, array(7, 7), '+I')")
        both = f"{state} union all {ahead} union all {late}"
        assert rows_by_id(spark, fold, both)[2] == ([7],)


@pytest.mark.parametrize("on_delete", ["ignore", "retract", "remove_row"])
def test_an_unknown_row_kind_is_reported(spark: SparkSession, on_delete: str):
    config = {"sequence": ["at"], "row_kind": "kind", "on_delete": on_delete}
    fold = Fold.read("m", "id", config).bound([("id", "int"), ("at", "int"), ("kind", "string")])
    for kind, item in (("'X'", "got X"), ("cast(null as string)", "got null")):
        spark.sql(f"select 1 as id, 1 as at, {kind} as kind").createOrReplaceTempView("kinds")
        with pytest.raises(Exception, match=rf"kind must be \+I, -U, \+U or -D, {item}"):
            spark.sql(fold.merge_states(f"({fold.to_state('kinds')})")).collect()


def test_runs_are_merged_by_their_size():
    fold = Fold.read("m", "id", {"sequence": ["at"], "tier_runs": 3, "tier_rows": 100})
    assert [fold.level_of(rows) for rows in (0, 99, 100, 299, 300, 899, 900)] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
    ]
    assert fold.level_to_compact([]) is None
    assert fold.level_to_compact([[0, 5], [0, 5], [1, 100], [1, 100]]) is None
    assert fold.level_to_compact([[0, 5], [0, 5], [0, 5], [1, 100]]) == 0
    assert fold.level_to_compact([[0, 5], [0, 5], [0, 5], [1, 9], [1, 9], [1, 9], [2, 9]]) == 1


def test_a_batch_is_merged_few_times_however_many_come():
    fold = Fold.read("m", "id", {"sequence": ["at"], "tier_runs": 4, "tier_rows": 10})
    runs: list[list[int]] = []
    written = 0
    for _ in range(1_000):
        runs.append([fold.level_of(10), 10])
        level = fold.level_to_compact(runs)
        if level is not None:
            merged = sum(rows for number, rows in runs if number <= level)
            runs = [run for run in runs if run[0] > level] + [[fold.level_of(merged), merged]]
            written += merged
    assert len(runs) < 20
    assert sum(rows for _, rows in runs) == 10_000
    assert written / 10_000 < 6  # a row is written again once for each size: log4(1,000) = 5
