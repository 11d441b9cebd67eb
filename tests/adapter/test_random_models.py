"""Whatever an analyst writes: after each run a model holds what a full refresh would give it."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from dbt.adapters.sparksession.reading.view_marks import statement_of

from tests.support.random_models import RandomProject, statements


def rows_of(project, sql: str) -> Counter:
    found = project.query(f"select id, day, cast(v as bigint) as v from {sql}")
    return Counter(tuple(row.values()) for row in found)


def check_project(make_project, seed: int, runs: int) -> int:
    """Build a random project again and again while its tables change; how many tables compared."""
    rng = random.Random(seed)
    models = RandomProject(rng)
    project = make_project(models.files())
    project.query("create namespace if not exists src")
    project.query(
        "create table src.events (id int, day date, v int) using iceberg partitioned by (day) "
        "tblproperties ('write.summary.partition-limit' = '100')"
    )
    project.query("create table src.rates (rate int) using iceberg")
    project.query("insert into src.events values (1, date '2026-03-01', 1)")
    project.query("insert into src.rates values (2)")
    compared = 0
    for _ in range(runs):
        done = statements(rng)
        for statement in done:
            project.query(statement)
        if rng.random() < 0.3:
            chosen = rng.choice(list(models.names.values()))
            selected = rng.choice(("{}", "+{}", "{}+")).format(chosen)
            project.run("run", "--select", selected, expect_ok=None)
            done.append(f"run {selected}")
        if rng.random() < 0.2:
            gone = models.rename_one()
            (project.root / gone).unlink()
            project.write(models.files())
            done.append(f"rename {gone}")
        outcome = project.run("run", expect_ok=None)
        refused = {
            name: one.message for name, one in outcome.results.items() if one.status == "error"
        }
        for name, message in refused.items():
            assert "--full-refresh" in message, f"seed {seed}, after {done}: {name}: {message}"
        if refused:
            project.run("run", "--full-refresh")
        compared += compare(project, models, f"seed {seed}, after {done}")
    return compared


def compare(project, models: RandomProject, when: str) -> int:
    """Compare what each model holds with what its SQL gives over all rows; how many did."""
    done = project.run("compile", "--full-refresh").raw.results
    compiled = {one.node.name: one.node.compiled_code for one in done}
    compared = 0
    for model in models.models:
        if model.kind in ("python", "ephemeral"):
            continue
        name = models.names[model.name]
        wanted = f"({statement_of(compiled[name])})"
        if model.kind == "summed":
            wanted = f"(select id, day, sum(v) as v from {wanted} group by id, day)"
        if model.kind == "latest":
            best = f"select id, max(struct(day, v)) as best from {wanted} group by id"
            wanted = f"(select id, best.day, best.v from ({best}))"
        stored = f"dw.{name}"
        if model.kind == "summed":  # a key of which nothing is left stays with a sum of 0
            stored, wanted = (f"{one} where v is distinct from 0" for one in (stored, wanted))
        held, full = rows_of(project, stored), rows_of(project, wanted)
        assert held == full, (
            f"{when}: {name} has {held - full} too much and lacks {full - held}\n{models.files()}"
        )
        compared += 1
    return compared


def test_random_models_hold_what_a_full_refresh_gives(make_project) -> None:
    first = int(os.environ.get("MODELS_SEED", random.SystemRandom().randrange(10**6)))
    projects = int(os.environ.get("MODELS_PROJECTS", "2"))
    compared = sum(check_project(make_project, first + one, runs=4) for one in range(projects))
    print(f"{projects} projects from seed {first}: {compared} tables compared, 0 differ")


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, int(os.environ.get("MODELS_SOAK", "1000")), 50))
def test_a_thousand_projects_of_random_models(make_project, first: int) -> None:
    compared = sum(check_project(make_project, seed, runs=10) for seed in range(first, first + 50))
    print(f"50 projects from seed {first}: {compared} tables compared, 0 differ")
