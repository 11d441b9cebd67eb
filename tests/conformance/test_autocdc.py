"""Spark's own tests of AUTO CDC, and the examples of Databricks' docs, through zippers and folds.

SCD type 2 is a zipper, type 1 the fold that keeps the last row of each key.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.zippers import Zipper
from pyspark.sql import SparkSession

from tests.support.dbt_project import REPO
from tests.support.extract_project import MACRO

FOLDER = Path(__file__).parents[3] / "shared" / "conformance" / "autocdc"
CASE_COUNTS = {"scd2": 43, "scd1": 13}
TYPES = {"id": "int", "seq": "int", "score": "int"}  # others: string
BATCHES = 3
REFUSED = {
    "null sequencing value fails the batch, target unchanged": "seq in 1",
    "null key fails the batch, target unchanged": "id in 1",
    "null sequencing fails, target unchanged": "seq in 1",
    "null keys fail with count, target unchanged": "id in 2",
    "null part of a composite key fails": "country in 2, city in 2",
}


def cases(file: str) -> dict[str, Any]:
    if not (FOLDER / file).is_file():
        pytest.skip("Spark's test cases are not part of the project; none stand beside it")
    return json.loads((FOLDER / file).read_text(encoding="utf-8"))


def folding(kind: str, key: list[str], tracked: list[str] | None) -> Zipper | Fold:
    """A zipper for scd2, a fold for scd1."""
    if kind == "scd2":
        config = {"sequence": "seq", "tracked": tracked, "row_kind": "row_kind"}
        return Zipper.read(kind, key, config)
    refused = ["seq", *(column for column in key if column != "state")]
    return Fold.read(kind, key, {"sequence": "seq", "row_kind": "row_kind", "not_null": refused})


def rows_of(
    spark: SparkSession, folded: Zipper | Fold, columns: list[str], events: list[dict], batches: int
) -> list[tuple]:
    """Rows that readers see, of events (state, seq, row_kind, their columns) in several batches."""
    names = ["state", "batch", "row_kind", "seq", *columns]
    types = {"state": "int", "batch": "int"} | TYPES
    schema = ", ".join(f"{name} {types.get(name, 'string')}" for name in names)
    rows = [tuple(event.get(name) for name in names) for event in events]
    spark.createDataFrame(rows, schema).createOrReplaceTempView("cdc_events")
    bound = folded.bound([(n, types.get(n, "string")) for n in names if n != "batch"])
    runs = " union all ".join(
        f"select * from ({bound.merge_states(f'({bound.to_state(part)})')})"
        for part in (f"(select * from cdc_events where batch = {n})" for n in range(batches))
    )
    shown = [*columns, *(("valid_from", "valid_to") if isinstance(folded, Zipper) else ())]
    got = spark.sql(bound.folded(f"({runs})", batches)).collect()
    return [(row.state, *(row[name] for name in shown)) for row in got]


def change(event: dict[str, Any]) -> dict[str, Any]:
    return event | {"row_kind": "-D" if event["is_delete"] else "+U"}


@pytest.mark.parametrize("kind", CASE_COUNTS)
def test_the_rows_are_those_that_spark_expects(spark: SparkSession, kind: str):
    seed = random.SystemRandom().randint(0, 10**9)
    rng = random.Random(seed)
    reported = cases("spark_auto_cdc.json")[kind]
    passed = compared = 0
    # cases of the same columns are folded together: each state is a key of its
    # own
    together: dict[str, dict[str, Any]] = {}
    for case in reported["cases"]:
        columns = case.get("columns") or [
            column for column in reported["columns"] if column not in ("__START_AT", "__END_AT")
        ]
        key, tracked = case.get("keys", ["id"]), case.get("track_history_columns")
        layout = {"columns": columns, "key": key, "tracked": tracked}
        group = together.setdefault(json.dumps(layout), layout | {"events": [], "expected": []})
        so_far = [change(item) for item in case.get("equivalent_prior_batch", ())]
        for step in case["steps"]:
            batch = [change(item) for item in step["batch"]]
            if "expect_error" in step:
                refused = refusal(spark, folding(kind, key, tracked), columns, batch)
                assert REFUSED[case["name"]] in refused
            else:
                so_far += batch * 2 if step.get("replay") else batch
            wanted = step.get("expected_any_of") or [step.get("expected_target")]
            if wanted != [None]:
                state = len(group["expected"])
                group["expected"].append((case["name"], wanted))
                group["events"] += [
                    item | {"state": state, "batch": rng.randint(0, BATCHES - 1)} for item in so_far
                ]
        passed += 1
    for group in together.values():
        rng.shuffle(group["events"])
        folded = folding(kind, ["state", *group["key"]], group["tracked"])
        got = defaultdict(list)
        for state, *row in rows_of(spark, folded, group["columns"], group["events"], BATCHES):
            got[state].append(row)
        for state, (name, wanted) in enumerate(group["expected"]):
            rows = sorted(got[state], key=repr)
            assert rows in [sorted(any_of, key=repr) for any_of in wanted], (name, seed)
            compared += 1
    print(f"seed {seed}: {kind}: {passed} cases, {compared} expected tables, 0 differ")
    assert passed == CASE_COUNTS[kind]


def refusal(
    spark: SparkSession, folded: Zipper | Fold, columns: list[str], batch: list[dict]
) -> str:
    names = ["seq", "row_kind", *columns]
    kinds = [(name, TYPES.get(name, "string")) for name in names]
    rows = [tuple(event.get(name) for name in names) for event in batch]
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds)
    spark.createDataFrame(rows, schema).createOrReplaceTempView("cdc_refused")
    bound = folded.bound(kinds)
    (counts,) = spark.sql(bound.refused_counts("cdc_refused")).collect()
    return bound.refusal(counts) or "nothing is refused"


DELETES, TRUNCATES = "DELETE", "TRUNCATE"


def test_the_documented_examples_hold(spark: SparkSession):
    compared = 0
    for case in cases("databricks_docs_examples.json")["cases"]:
        if "snapshots" in case:
            compared += compare_snapshots(spark, case)
            continue
        options = case["options"]
        kind, key = f"scd{options['scd']}", options["keys"]
        columns = [n for n in case["event_columns"] if n not in ("operation", "sequenceNum")]
        events = [dict(zip(case["event_columns"], event, strict=True)) for event in case["events"]]
        keys = {event["userId"] for event in events} - {None}
        changes = []
        for number, event in enumerate(events):
            # a TRUNCATE is the delete of each row that there is, as the typed tables have it
            of = keys if event["operation"] == TRUNCATES else [event["userId"]]
            ends = event["operation"] in (DELETES, TRUNCATES)
            changes += [
                event
                | {"userId": item, "seq": event["sequenceNum"], "state": 0, "batch": number % 2}
                | {"row_kind": "-D" if ends else "+U"}
                for item in of
            ]
        left_out = options.get("track_history_except")
        tracked = [n for n in columns if n not in [*key, *left_out]] if left_out else None
        folded = folding(kind, ["state", *key], tracked)
        rows = [list(row[1:]) for row in rows_of(spark, folded, columns, changes, 2)]
        wanted = [[str(row[0]), *row[1:]] for row in case["expected"]]
        assert sorted(rows, key=repr) == sorted(wanted, key=repr), case["name"]
        compared += 1
    assert compared == 6


SNAPSHOTS_SQL = """
    {{{{ config(materialized='folded', unique_key='userId', {kind}={config}) }}}}
    {{{{ extract_changes(
        extracts={{
            'rows': source('src', 'snapshot_rows'),
            'complete': source('src', 'snapshots'),
            'id': 'version',
            'row_count': 'row_count',
        }},
        key='userId',
        columns='city',
        sequence='place',
        time='place',
    ) }}}}
"""


def test_the_documented_examples_of_snapshots_hold(make_project):
    """The macro finds out itself what a snapshot lacks."""
    wanted = {
        "scd2" if len(case["snapshots"][0]["expected"][0]) > 2 else "scd1": case
        for case in cases("databricks_docs_examples.json")["cases"]
        if "snapshots" in case
    }
    ordered = {"sequence": ["place", "from_extract"], "row_kind": "row_kind"}
    project = make_project(
        {
            MACRO: (REPO / MACRO).read_text(encoding="utf-8"),
            "models/sources.yml": """
                sources:
                  - name: src
                    tables: [{name: snapshots}, {name: snapshot_rows}]
            """,
            "models/scd1.sql": SNAPSHOTS_SQL.format(
                kind="fold", config=ordered | {"hidden_columns": ["place", "from_extract"]}
            ),
            "models/scd2.sql": SNAPSHOTS_SQL.format(
                kind="zipper", config=ordered | {"time": "place"}
            ),
        }
    )
    project.query("create namespace src")
    project.query(
        "create table src.snapshots (version int, row_count int, place int) using iceberg"
    )
    project.query(
        "create table src.snapshot_rows (version int, userId int, city string) using iceberg"
    )
    for version, snapshot in enumerate(wanted["scd1"]["snapshots"]):
        assert snapshot["rows"] == wanted["scd2"]["snapshots"][version]["rows"]
        rows = ", ".join(f"({version}, {user}, '{city}')" for user, city in snapshot["rows"])
        project.query(f"insert into src.snapshot_rows values {rows}")
        count = len(snapshot["rows"])
        project.query(f"insert into src.snapshots values ({version}, {count}, {version})")
        project.run("run")
        for model, columns in {
            "scd1": "userId, city",
            "scd2": "userId, city, valid_from, valid_to",
        }.items():
            got = [list(row.values()) for row in project.query(f"select {columns} from dw.{model}")]
            expected = wanted[model]["snapshots"][version]["expected"]
            assert sorted(got, key=repr) == sorted(expected, key=repr), (model, version)


def compare_snapshots(spark: SparkSession, case: dict[str, Any]) -> int:
    """Whole tables that follow each other: what a later one lacks was deleted."""
    kind = "scd2" if len(case["snapshots"][0]["expected"][0]) > 2 else "scd1"
    folded, known, changes = folding(kind, ["state", "userId"], None), set(), []
    for snapshot in case["snapshots"]:
        rows = {row[0]: row[1] for row in snapshot["rows"]}
        place = {"seq": snapshot["version"], "state": 0, "batch": snapshot["version"]}
        changes += [
            place | {"userId": user, "city": city, "row_kind": "+U"} for user, city in rows.items()
        ]
        changes += [place | {"userId": user, "row_kind": "-D"} for user in known - rows.keys()]
        known |= rows.keys()
        got = [list(row[1:]) for row in rows_of(spark, folded, case["columns"], changes, 2)]
        wanted = [[str(row[0]), *row[1:]] for row in snapshot["expected"]]
        assert sorted(got, key=repr) == sorted(wanted, key=repr), (case["name"], place["seq"])
    return 1
