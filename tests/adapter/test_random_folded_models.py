"""Folded models of random folds, as Iceberg keeps them: every run against the oracle, and what
their readers get as changes."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import DbtProject
from tests.support.fold_oracle import folded
from tests.support.random_folds import (
    KEY,
    TYPES,
    is_repeatable,
    random_events,
    random_fold,
    seen_columns,
)

MODELS = 4
SMALL_TIERS = {"buckets": 2, "tier_runs": 2, "tier_rows": 20}
SOURCES = "sources: [{name: src, tables: [{name: events}]}]\n"
CHANGES = """
    {{{{ config(materialized='incremental') }}}}
    select * from {{{{ new_changes(ref('{}')) }}}}
"""
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in TYPES.items())


def model_text(fold: dict[str, Any], columns: list[str]) -> str:
    names = [*KEY, *columns, *(["kind"] if fold.get("row_kind") else [])]
    config = f"materialized='folded', unique_key={KEY}, fold={fold | SMALL_TIERS}"
    return (
        f"{{{{ config({config}) }}}}\n"
        f"select {', '.join(names)} from {{{{ new_rows(source('src', 'events')) }}}}\n"
    )


@pytest.mark.in_turn
def test_random_folds_equal_the_oracle_after_every_run(make_project):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    folds = {f"fold_{number}": random_fold(rng) for number in range(MODELS)}
    for fold, _ in folds.values():
        print(fold)
    files = {"models/sources.yml": SOURCES}
    for name, (fold, columns) in folds.items():
        files[f"models/{name}.sql"] = model_text(fold, columns)
        files[f"models/{name}_changes.sql"] = CHANGES.format(name)
    project = make_project(files)
    project.query("create namespace if not exists src")
    project.query(f"create table src.events ({SCHEMA}) using iceberg")
    held: list[dict[str, Any]] = []
    compared = 0
    for count in (60, 4, 30, 2):
        places = range(len(held), len(held) + count)
        new = [
            event
            for stream in range(1, 6)
            for event in random_events(rng, stream, places[stream - 1 :: 5])
        ]
        held += new
        # what changes nothing may come again, long after it came first
        again = all(is_repeatable(fold) for fold, _ in folds.values())
        new += rng.choices(held, k=3) if again else []
        rng.shuffle(new)
        rows = [tuple(event.values()) for event in new]
        session = own_session(project.credentials()).session
        session.createDataFrame(rows, SCHEMA).writeTo("src.events").append()
        project.run("run")
        for name, (fold, columns) in folds.items():
            compared += compare(project, name, (fold, columns), held)
    before = {name: rows_of(project, name) for name in folds}
    changes = {name: project.query(f"select * from dw.{name}_changes") for name in folds}
    project.run("run", vars={"merge_runs": True})
    for name in folds:
        assert rows_of(project, name) == before[name], (seed, name)
        assert len(project.query(f"select * from dw.{name}_changes")) == len(changes[name])
    project.run("run", "--full-refresh")
    for name in folds:
        assert rows_of(project, name) == before[name], (seed, name)
    print(f"{compared} rows of {MODELS} folds compared, 0 differ")
    assert compared > 0


def rows_of(project: DbtProject, name: str) -> list[tuple]:
    rows = project.query(f"select * from dw.{name} order by {', '.join(KEY)}")
    return [tuple(map(str, row.values())) for row in rows]


def compare(
    project: DbtProject,
    name: str,
    declared: tuple[dict[str, Any], list[str]],
    held: list[dict[str, Any]],
) -> int:
    """How many rows of a model are those of the oracle, and what its changes come to."""
    fold, columns = declared
    seen = seen_columns(fold, columns)
    by_key = defaultdict(list)
    for event in held:
        by_key[event["stream"], event["id"]].append(event)
    expected = {key: folded(events, fold, columns) for key, events in by_key.items()}
    rows = project.query(f"select * from dw.{name}")
    got = {(row["stream"], row["id"]): {n: row[n] for n in seen} for row in rows}
    assert len(rows) == len(got)
    assert got == {key: row for key, row in expected.items() if row is not None}, fold
    assert not rows or {*rows[0]} == {*KEY, *seen}
    names = ", ".join([*KEY, *seen])
    differing = project.query(
        f"select {names}, sum(sign) as n from (select {names}, sign from dw.{name}_changes "
        f"union all select {names}, -1 from dw.{name}) group by all having sum(sign) <> 0"
    )
    assert differing == [], fold
    return len(rows)
