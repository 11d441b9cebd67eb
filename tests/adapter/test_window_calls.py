"""Calls of window macros: the refusals of a wrong call, late rows, sessions that are left out."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from dbt.adapters.sparksession.declared.windows import WindowError, read_window

from tests.support.window_models import CONFIG, COUNTED, MACROS, MINUTES, append, seeded

# ---- what is wrong, and what it costs ------------------------------------------------------

MONTH = datetime(2026, 3, 1, tzinfo=UTC)
DAY_BOUNDS = {"earliest": "2000-01-01", "latest": "2100-01-01"}
# macro, its arguments over those that fit, what is reported
WRONG = [
    ("tumble", {"size": "7 minutes"}, "a length below an hour must divide it, got '7 minutes'"),
    ("tumble", {"size": "5 hours"}, "hours must be 1, 2, 3, 4, 6, 8 or 12"),
    ("tumble", {"size": "5 moons"}, "got '5 moons'"),
    ("tumble", {"size": "1 day", "zone": "Mars/Base"}, "got 'Mars/Base'"),
    ("tumble", {"size": "1 day", "rows": 5}, "rows must be a relation"),
    ("tumble", {"size": "1 day", "bounds": {"since": 1}}, "bounds must be a mapping of"),
    ("tumble", {"size": "1 day", "bounds": DAY_BOUNDS | {"ahead": "1 day"}}, "need each other"),
    ("tumble", {"size": "1 day", "bounds": DAY_BOUNDS | {"latest": "soon"}}, "got 'soon'"),
    ("slide", {"size": "1 hour", "slide": "25 minutes"}, "size must be made of whole slides"),
    ("slide", {"size": "1 month", "slide": "1 day"}, "size must be made of whole slides"),
    ("cumulate", {"size": "1 week", "step": "1 hour"}, "one above a day of days or longer steps"),
    ("session", {"key": "k", "gap": "-5 minutes"}, "gap must be above zero"),
    ("session", {"key": [], "gap": "5 minutes"}, "key must name the columns"),
]


@pytest.mark.parametrize(("form", "arguments", "expected"), WRONG)
def test_each_mistake_has_its_sentence(form: str, arguments: dict, expected: str) -> None:
    given = {"form": form, "rows": "x", "time": "at", "bounds": DAY_BOUNDS} | arguments
    with pytest.raises(WindowError, match=re.escape(expected)) as reported:
        read_window(given)
    assert f"Example: {form}(" in str(reported.value)


def test_a_late_row_reads_and_writes_its_own_windows(make_project) -> None:
    """A month of 5-minute windows: of a few late rows a day's files are opened and written."""
    counted = COUNTED.format(
        config=CONFIG,
        call="tumble(rows=source('src', 'facts'), time='at', size='5 minutes', zone='UTC')",
        keys="",
        sign="1",
    )
    project = make_project(
        MACROS
        | {
            "models/sources.yml": "sources: [{name: src, tables: [{name: facts}]}]",
            "models/counted.sql": counted,
        }
    )
    project.query("create namespace if not exists src")
    project.query(
        "create table src.facts (world int, v int, at timestamp) using iceberg "
        "partitioned by (days(at))"
    )
    project.query(
        "insert into src.facts select 1, cast(id as int), "
        f"timestamp_seconds({MONTH.timestamp():.0f} + id * 180) from range({30 * 480})"
    )
    project.run("run")
    assert project.column("select count(*) from dw.counted") == [30 * 288]
    project.query("insert into src.facts values (1, -1, timestamp '2026-03-07 10:02:00')")

    project.run("run")

    assert project.written_partitions("dw.counted") == {"window_date=2026-03-07"}
    summary = project.summary("dw.counted")
    assert (summary["deleted-records"], summary["added-records"]) == ("288", "288")
    (compiled,) = (project.target / "run").rglob("counted.sql")
    text = (project.target / "compiled").rglob("counted.sql")
    assert "at between timestamp '2026-03-07 10:00:00Z' and" in next(text).read_text("utf-8")
    assert "replace where window_date in (date '2026-03-07')" in compiled.read_text("utf-8")
    got = project.query(
        "select n from dw.counted where window_start = timestamp '2026-03-07 10:00'"
    )
    assert got == [{"n": 3}]


def busy_sessions(rows: list[tuple[int | None, datetime]], gap: timedelta) -> Counter:
    """(key, begin and end in seconds, number of rows) of the sessions that have several rows."""
    found: Counter = Counter()
    for key in {key for key, _ in rows}:
        times = sorted(at for k, at in rows if k == key)
        session: list[datetime] = []
        for at in [*times, None]:
            if session and (at is None or at - session[-1] > gap):
                if len(session) > 1:
                    begin, end = (int(item.timestamp()) for item in (session[0], session[-1] + gap))
                    found[key, begin, end, len(session)] += 1
                session = []
            session.append(at)
    return found


def test_sessions_that_a_model_leaves_out_are_joined_all_the_same(make_project) -> None:
    rng = seeded()
    project = make_project(
        MACROS
        | {
            "models/sources.yml": "sources: [{name: src, tables: [{name: clicks}]}]",
            "models/busy.sql": f"""
                {{{{ {CONFIG} }}}}
                with windowed as ({{{{ session(
                    rows=source('src', 'clicks'), time='at', key='k', gap='30 minutes'
                ) }}}})
                select k, window_start, window_end, window_date, count(*) as n
                from windowed group by all having count(*) > 1
            """,
        }
    )
    project.query("create namespace if not exists src")
    project.query("create or replace table src.clicks (k int, at timestamp) using iceberg")
    held: list[tuple[int | None, datetime]] = []
    for number in range(7):
        come = [
            (rng.choice([None, *range(12)]), MONTH + rng.randint(0, 100) * 12 * MINUTES)
            for _ in range(60 if number == 0 else 8)
        ]
        append(project, "src.clicks", come)
        held += come
        if number % 2:
            k, at = rng.choice(held)
            project.query(
                f"delete from src.clicks where k <=> {'null' if k is None else k} "
                f"and at = timestamp '{at.isoformat()}'"
            )
            held = [item for item in held if item != (k, at)]
        project.run("run", "-s", "busy")
        rows = project.query(
            "select k, unix_seconds(window_start) as first, unix_seconds(window_end) as end, n "
            "from dw.busy"
        )
        expected = busy_sessions(held, 30 * MINUTES)
        assert Counter(tuple(row.values()) for row in rows) == expected, number
