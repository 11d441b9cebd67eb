"""Paimon's own tests of partial updates, through folds, and the example that its docs give.

Paimon goes by the order of arrival where sequences are equal or not declared: the runner numbers
the records and breaks ties by that number. Each expected row is one key: the records before it.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.layout import FoldConfigError
from pyspark.sql import SparkSession

CASES = (
    Path(__file__).parents[3]
    / "shared"
    / "conformance"
    / "paimon_merge_function"
    / "partial_update.json"
)
FAILING = {
    "testSequenceGroupDefinedNoField": "no column f7",
    "testMultiSequenceFieldsDefinedNoField": "no column f7",
    "testSequenceGroupRepeatDefine": "f1 is in group f3 as well",
    "testMultiSequenceFieldsRepeatDefine": "f1 is in group f3_f4 as well",
    "testSequenceGroupCannotContainPrimaryKey": "f0 is a column of the key",
    "testMultiSequenceFieldsCannotContainPrimaryKey": "f2 is a column of the key",
    "testPrimaryKeyCannotBeInSequenceGroupValue": "f2 is a column of the key",
}
CASE_COUNT = 20
# step by step: what comes, and what is wanted of (a, b, g_1, c, d, g_2) after it
DOCUMENTED = [
    ((1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1)),
    ((2, 2, 2, 2, 2, None), (2, 2, 2, 1, 1, 1)),
    ((3, 3, 1, 3, 3, 3), (2, 2, 2, 3, 3, 3)),
    ((3, 3, 3, 2, 2, None), (3, 3, 3, 3, 3, 3)),
    ((4, 4, 4, 2, 2, None), (4, 4, 4, 3, 3, 3)),
    ((5, 5, 3, 5, None, 4), (4, 4, 4, 5, None, 4)),
]


def cases() -> list[dict[str, Any]]:
    if not CASES.is_file():
        pytest.skip("Paimon's test cases are not part of the project; none stand beside it")
    return json.loads(CASES.read_text(encoding="utf-8"))["cases"]


def fold_config(case: dict[str, Any]) -> dict[str, Any]:
    """Paimon's table options as a fold."""
    options, key = case["table"]["options"], case["table"]["primary_key"]
    removing = options.get("partial-update.remove-record-on-sequence-group", "").split(",")
    groups, aggregates = {}, {}
    for option, value in options.items():
        names = option.removeprefix("fields.").rpartition(".")[0]
        if option.endswith(".sequence-group"):
            sequence = names.split(",")
            groups["_".join(sequence)] = {
                "sequence": sequence,
                "columns": value.split(","),
                "on_delete": "remove_row" if set(sequence) & set(removing) else "retract",
            }
        elif option.endswith(".aggregate-function") and names not in key:
            passing = options.get(f"fields.{names}.ignore-retract") == "true"
            aggregates[names] = {"function": value, "ignore_retract": passing}
    default = options.get("fields.default-aggregate-function")
    if default:
        aggregates |= {n: default for group in groups.values() for n in group["columns"]}
    retracts = any(step.get("kind") in ("-U", "-D") for step in case["steps"])
    removes = options.get("partial-update.remove-record-on-delete") == "true"
    if not retracts:
        for group in groups.values():
            group["on_delete"] = "retract"
    return {
        "sequence_groups": groups,
        "aggregates": aggregates,
        "tie_break": ["arrival"],
        "other_columns": "last_non_null",
        "row_kind": "kind" if retracts else None,
        "on_delete": "remove_row" if removes else "ignore",
    }


def is_removed(case: dict[str, Any], last: dict[str, Any], columns: list[str]) -> bool:
    """Whether the record is gone after `last`, of which the case shows an inner value."""
    if last["kind"] != "-D":
        return False
    options = case["table"]["options"]
    named = options.get("partial-update.remove-record-on-sequence-group")
    if named is None:
        return options.get("partial-update.remove-record-on-delete") == "true"
    sequences = [last["row"][columns.index(part)] for part in named.split(",")]
    return any(sequence is not None for sequence in sequences)


@pytest.mark.parametrize("name", FAILING)
def test_a_table_that_paimon_refuses_is_refused(name: str):
    case = next(case for case in cases() if case["name"] == name)
    columns = [(column, kind.split()[0].lower()) for column, kind in case["table"]["columns"]]
    with pytest.raises(FoldConfigError, match=FAILING[name]):
        fold = Fold.read(name, case["table"]["primary_key"], fold_config(case))
        fold.bound([*columns, ("arrival", "int"), ("kind", "string")])


def test_the_rows_are_those_that_paimon_expects(spark: SparkSession):
    seed = random.SystemRandom().randint(0, 10**9)
    rng = random.Random(seed)
    passed, compared = len(FAILING), 0
    assert len(cases()) == CASE_COUNT
    for case in cases():
        if case["name"] in FAILING:
            continue
        columns = case.get("projected_columns") or [name for name, _ in case["table"]["columns"]]
        so_far: list[dict] = []
        events, expected = [], {}
        for step in case["steps"]:
            if step["op"] == "reset":
                so_far = []
            elif step["op"] == "add":
                so_far.append(step)
            else:
                number = len(expected)
                expected[number] = (
                    None if is_removed(case, so_far[-1], columns) else tuple(step["row"])
                )
                for arrival, row in enumerate(so_far):
                    values = [*row["row"], None][: len(columns)]
                    batch = rng.randint(0, 2)
                    events.append((number, batch, arrival, row["kind"], *values))
        got = fold_events(spark, case["name"], fold_config(case), columns, events, rng)
        assert got == {k: v for k, v in expected.items() if v is not None}, (case["name"], seed)
        compared += len(expected)
        passed += 1
    print(f"seed {seed}: {passed} of {CASE_COUNT} cases, {compared} expected rows, 0 differ")
    assert passed == CASE_COUNT


def test_the_documented_example_holds_after_each_step(spark: SparkSession):
    config = {
        "sequence_groups": {
            "g_1": {"sequence": ["g_1"], "columns": ["a", "b"]},
            "g_2": {"sequence": ["g_2"], "columns": ["c", "d"]},
        },
        "tie_break": ["arrival"],
    }
    events = [
        (step, arrival % 3, arrival, "+I", *DOCUMENTED[arrival][0])
        for step in range(len(DOCUMENTED))
        for arrival in range(step + 1)
    ]
    columns = ["a", "b", "g_1", "c", "d", "g_2"]
    got = fold_events(spark, "sg", config, columns, events, random.Random(1))
    assert got == {step: wanted for step, (_, wanted) in enumerate(DOCUMENTED)}


def fold_events(
    spark: SparkSession,
    name: str,
    config: dict[str, Any],
    columns: list[str],
    events: list[tuple],
    rng: random.Random,
) -> dict[int, tuple]:
    """k -> values of `columns`, of events (k, batch, arrival, kind, *values) in three batches."""
    rng.shuffle(events)
    schema = "k int, batch int, arrival int, kind string, "
    schema += ", ".join(f"{column} int" for column in columns)
    spark.createDataFrame(events, schema).createOrReplaceTempView("paimon_events")
    kinds = [("k", "int"), ("arrival", "int"), ("kind", "string")]
    if not config.get("row_kind"):
        kinds.pop()
    fold = Fold.read(name, "k", config).bound([*kinds, *((column, "int") for column in columns)])
    batches = [
        fold.merge_states(
            f"({fold.to_state(f'(select * from paimon_events where batch = {number})')})"
        )
        for number in range(3)
    ]
    runs = " union all ".join(f"select * from ({batch})" for batch in batches)
    rows = spark.sql(fold.folded(f"({runs})", run_count=3)).collect()
    return {row.k: tuple(row[column] for column in columns) for row in rows}
