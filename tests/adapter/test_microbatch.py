"""Microbatch models: a batch replaces its own time and nothing else, or the model is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.dbt_project import DbtProject

CONFIG = (
    "materialized='incremental', incremental_strategy='microbatch', event_time='happened_at', "
    "batch_size='day', begin='2026-03-01', lookback=1"
)
SOURCES = """
    sources:
      - name: src
        tables: [{name: event, config: {event_time: happened_at}}]
"""
MODEL = f"""
    {{{{ config({CONFIG}, partition_by='days(happened_at)') }}}}
    select id, happened_at from {{{{ source('src', 'event') }}}}
"""
DAYS = ("--event-time-start", "2026-03-01", "--event-time-end", "2026-03-04")


def of_days(*days: int) -> tuple[str, ...]:
    first, last = f"2026-03-{days[0]:02d}", f"2026-03-{days[-1] + 1:02d}"
    return "--event-time-start", first, "--event-time-end", last


@pytest.fixture
def project(make_project: Any) -> DbtProject:
    project = make_project({"models/sources.yml": SOURCES, "models/per_day.sql": MODEL})
    project.query("create namespace if not exists src")
    project.query("create table src.event (id bigint, happened_at timestamp) using iceberg")
    project.query(
        "insert into src.event select id, timestamp '2026-02-28 12:00:00' + make_dt_interval(id) "
        "from range(1, 4)"
    )
    return project


def test_each_batch_replaces_its_own_time_alone(project: DbtProject) -> None:
    outcome = project.run("run", *DAYS)
    assert project.column("select id from dw.per_day order by id") == [1, 2, 3]
    assert "+1 rows" in outcome.log
    project.query("insert into src.event values (20, timestamp '2026-03-02 01:00:00')")
    project.query("delete from src.event where id = 3")
    project.query("update src.event set id = 100 where id = 1")

    project.run("run", *of_days(2, 3))  # the first day isn't asked for

    assert project.column("select id from dw.per_day order by id") == [1, 2, 20]
    project.run("run", *DAYS)
    assert project.column("select id from dw.per_day order by id") == [2, 20, 100]
    project.run("run", *DAYS, "--full-refresh")
    assert project.column("select id from dw.per_day order by id") == [2, 20, 100]


def test_empty_touches_no_batch_and_makes_no_table_of_batches(project: DbtProject) -> None:
    project.run("run", "--empty", *DAYS)
    assert project.query("show tables in dw like 'per_day'") == []
    project.run("run", *DAYS)
    project.run("run", "--empty", *DAYS)
    assert project.column("select id from dw.per_day order by id") == [1, 2, 3]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (MODEL.replace(", partition_by='days(happened_at)'", ""), "partition_by is not set"),
        (MODEL.replace("days(happened_at)", "months(happened_at)"), "a day or less at a time"),
        (MODEL.replace("days(happened_at)", "id"), "must be partitioned by its event_time"),
        (
            MODEL.replace("{{ source('src', 'event') }}", "{{ new_rows(source('src', 'event')) }}"),
            "not by new_rows(..)",
        ),
    ],
)
def test_a_model_that_has_no_partitions_to_replace_is_refused_at_parse(
    project: DbtProject, model: str, expected: str
) -> None:
    project.write({"models/per_day.sql": model})
    outcome = project.run("parse", "--write-json", expect_ok=False)
    assert expected in str(outcome.exception)
    assert "models/per_day.sql" in str(outcome.exception)


def test_an_input_that_is_not_cut_fails_instead_of_adding_its_rows_with_each_batch(
    project: DbtProject,
) -> None:
    project.write(
        {"models/sources.yml": SOURCES.replace(", config: {event_time: happened_at}", "")}
    )
    outcome = project.run("run", *DAYS, expect_ok=False)
    assert "lies outside of the batch or is null" in outcome.log
