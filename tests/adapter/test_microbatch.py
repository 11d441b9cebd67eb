"""Microbatch models: a batch replaces its own time and nothing else, or the model is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dbt.adapters.sparksession.reading.microbatch import gaps, with_batch

from tests.support.dbt_project import REPO, DbtProject

pytestmark = pytest.mark.in_turn

CONFIG = (
    "materialized='incremental', incremental_strategy='microbatch', event_time='happened_at', "
    "batch_size='day', begin='2026-03-01', lookback=1"
)
SOURCES = """
    sources:
      - name: src
        tables: [{name: event, config: {event_time: happened_at}}]
"""
PROJECT = """
    name: small
    version: "1.0"
    config-version: 2
    profile: binlog_warehouse
    on-run-start: "{{ start_run() }}"
    on-run-end: "{{ end_run(results) }}"
"""
MODEL = f"""
    {{{{ config({CONFIG}, partition_by='days(happened_at)') }}}}
    select id, happened_at from {{{{ source('src', 'event') }}}}
"""
DAYS = ("--event-time-start", "2026-03-01", "--event-time-end", "2026-03-04")


def of_days(*days: int) -> tuple[str, ...]:
    first, last = f"2026-03-{days[0]:02d}", f"2026-03-{days[-1] + 1:02d}"
    return "--event-time-start", first, "--event-time-end", last


def day_ago(count: int) -> str:
    return (datetime.now(UTC) - timedelta(days=count)).strftime("%Y-%m-%d")


def between(first: int, behind: int) -> tuple[str, ...]:
    """Options for the days from so many ago up to, without it, another."""
    return "--event-time-start", day_ago(first), "--event-time-end", day_ago(behind)


def fill(project: DbtProject, *days: int) -> None:
    """Let the source have an event on each of these days ago, in its first second, with the
    number of days as its id; and no others."""
    project.query("delete from src.event")
    rows = ", ".join(f"({day}, timestamp '{day_ago(day)} 00:00:00')" for day in days)
    project.query(f"insert into src.event values {rows}")


@pytest.fixture
def project(make_project: Any) -> DbtProject:
    project = make_project(
        {"dbt_project.yml": PROJECT, "models/sources.yml": SOURCES, "models/per_day.sql": MODEL}
    )
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


def test_the_rows_of_batches_stand_in_the_runs_summary(project: DbtProject) -> None:
    quality = REPO / "macros" / "quality"
    reporting = PROJECT.replace("end_run(results)", "end_run(results, report_run(results))")
    project.write({"dbt_project.yml": reporting})
    for name in ("report_run.sql", "report_earlier_refusals.sql"):
        project.write({f"macros/{name}": (quality / name).read_text(encoding="utf-8")})
    outcome = project.run("run", *DAYS)
    [line] = [line.split() for line in outcome.log.splitlines() if line.startswith("per_day ")]
    assert line[:3] == ["per_day", "-", "3"]
    assert "Nothing new has landed" not in outcome.log


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


def test_full_refresh_of_a_part_is_refused_as_the_rest_would_go(project: DbtProject) -> None:
    project.run("run", *DAYS)
    for place in ("per_day", "+per_day"):
        outcome = project.run(
            "run", "--full-refresh", *of_days(2, 3), "--select", place, expect_ok=False
        )
        assert "--full-refresh would leave per_day with the rows between" in str(outcome.exception)
    assert project.column("select id from dw.per_day order by id") == [1, 2, 3]


def test_full_refresh_of_a_part_is_refused_where_no_hook_begins_the_run(
    project: DbtProject,
) -> None:
    without = "".join(line for line in PROJECT.splitlines(True) if "on-run-" not in line)
    project.write({"dbt_project.yml": without})
    project.run("run", *DAYS)
    outcome = project.run("run", "--full-refresh", *of_days(2, 3), expect_ok=False)
    assert "--full-refresh would leave per_day with the rows between" in outcome.log
    assert project.column("select id from dw.per_day order by id") == [1, 2, 3]


@pytest.mark.soak
def test_a_retry_of_a_full_refresh_keeps_the_batches_that_it_had_made(
    project: DbtProject,
) -> None:
    # of a table that was made until now, all batches, of which the second one fails
    project.write({"models/per_day.sql": MODEL.replace("2026-03-01", day_ago(3))})
    fill(project, 3, 2, 1, 0)
    project.run("run")
    project.query(f"insert into src.event values (null, timestamp '{day_ago(2)} 02:00:00')")
    failing = MODEL.replace("2026-03-01", day_ago(3)).replace(
        "select id,", "select if(id is null, raise_error('no id'), id) as id,"
    )
    project.write({"models/per_day.sql": failing})
    project.run("run", "--full-refresh", "--write-json", expect_ok=False)
    assert project.column("select id from dw.per_day order by id") == [0, 1, 3]

    project.query("delete from src.event where id is null")
    outcome = project.run("retry", "--write-json")

    assert project.column("select id from dw.per_day order by id") == [0, 1, 2, 3]
    assert "No batch of per_day" not in outcome.log


def test_time_that_no_batch_has_read_is_named_and_not_published_until_it_is_built(
    project: DbtProject,
) -> None:
    project.write({"models/per_day.sql": MODEL.replace("2026-03-01", day_ago(6))})
    fill(project, 6, 5, 4, 3, 2, 1, 0)
    gap = f"--event-time-start {day_ago(6)} --event-time-end {day_ago(5)}"

    # begun later than the model begins
    outcome = project.run("build", *between(5, 4))
    assert f"from {day_ago(6)} to {day_ago(5)}" in outcome.log
    assert gap in outcome.log
    assert "Not published: per_day has gaps" in outcome.log
    # more days without a run than it looks back
    outcome = project.run("run")
    assert gap in outcome.log
    assert f"from {day_ago(4)} to {day_ago(1)}" in outcome.log
    outcome = project.run("build", *between(6, 5))
    assert "Not published: per_day has gaps" in outcome.log
    assert gap not in outcome.log

    outcome = project.run("build", *between(4, 1))

    assert "Published as version 1" in outcome.log
    assert project.column("select id from dw.per_day order by id") == list(range(7))


def test_a_batch_that_was_built_before_it_was_over_has_not_read_the_rest_of_it() -> None:
    noon, later = datetime(2026, 3, 2, 12), datetime(2026, 3, 9)
    first, last = datetime(2026, 3, 1), datetime(2026, 3, 3)
    built = with_batch([], first, last, noon)
    assert gaps(first, built) == []
    built = with_batch(built, datetime(2026, 3, 4), datetime(2026, 3, 5), later)
    assert gaps(first, built) == [(noon, datetime(2026, 3, 4))]
    built = with_batch(built, datetime(2026, 3, 2), datetime(2026, 3, 4), later)
    assert gaps(first, built) == []
    assert gaps(datetime(2026, 2, 1), built) == [(datetime(2026, 2, 1), first)]
    # a batch of the future has read nothing
    assert with_batch([], last, later, noon) == []


def test_rows_that_come_behind_their_batch_are_named_and_not_published_until_they_are_read(
    project: DbtProject,
) -> None:
    project.write({"models/per_day.sql": MODEL.replace("2026-03-01", day_ago(6))})
    fill(project, 6, 5, 4, 3, 2, 1, 0)
    project.run("run")  # of no table dbt makes all batches
    project.run("build")
    # of a day that the next run builds, too, and of one that it doesn't; and one without a time
    for id, moment in ((10, f"timestamp '{day_ago(0)}'"), (14, f"timestamp '{day_ago(4)}'")):
        project.query(f"insert into src.event values ({id}, {moment})")
    project.query("insert into src.event values (99, null)")
    command = f"--event-time-start {day_ago(4)} --event-time-end {day_ago(3)}"

    for _ in range(2):  # also where nothing came since
        outcome = project.run("build")
        assert "No batch of per_day has read all that happened" in outcome.log
        assert command in outcome.log
        assert "Not published: per_day has gaps" in outcome.log
    assert 14 not in project.column("select id from dw.per_day")

    outcome = project.run("build", *between(4, 3))

    assert "No batch of per_day" not in outcome.log
    assert "Published as version 2" in outcome.log
    assert project.column("select id from dw.per_day order by id") == [*range(7), 10, 14]


def test_rows_of_a_batch_that_the_clock_chooses_are_refused(project: DbtProject) -> None:
    reads = MODEL.replace("}}\n    select", "}}\n    with e as (select * from %s)\n    select") % (
        "{{ ref('seen') }}"
    )
    by_clock = MODEL + " where happened_at > now() - interval 30 days"
    looks_up = " where id in (select id from {{ ref('open') }} where id < year(now()))"
    project.write(
        {
            "models/seen.sql": "{{ config(event_time='happened_at') }}"
            " select * from {{ source('src', 'event') }}",
            "models/open.sql": "{{ config(materialized='table') }} select 1 as id",
            "models/by_clock.sql": by_clock,
            "models/by_view.sql": reads.replace("{{ source('src', 'event') }}", "e")
            + " where happened_at < date 'today'",
            "models/today.sql": "{{ config(event_time='happened_at') }}"
            " select * from {{ source('src', 'event') }} where happened_at < now()",
            "models/below.sql": reads.replace("seen", "today").replace(
                "{{ source('src', 'event') }}", "e"
            ),
            "models/of_run.sql": MODEL + " where happened_at < '{{ run_started_at }}'",
            "models/meant.sql": by_clock.replace("lookback=1", "lookback=1, partial_runs=true"),
            "models/looks_up.sql": MODEL + looks_up,
            "models/fixed.sql": MODEL + " where happened_at > '2026-01-01'",
        }
    )
    outcome = project.run("run", *DAYS, expect_ok=False)
    refused = {"by_clock", "by_view", "below", "of_run"}
    assert {name for name, is_of in outcome.statuses().items() if is_of == "error"} == refused
    for name in refused:
        assert f"{name} takes or leaves out rows of a batch by the clock" in outcome.log
