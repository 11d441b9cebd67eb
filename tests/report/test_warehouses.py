"""What the report asks, of real tables: of a warehouse that is empty or that older code built, and
of counts with days that are far off."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.report.made_up import context
from tests.support.dbt_project import REPO, DbtProject
from tools.report.charts import to_date
from tools.report.declared import Counted
from tools.report.facts import MODELS, SERIES, Asker, Facts, Gathering
from tools.report.page import html_of

pytestmark = pytest.mark.process
MEASURES = {"n": "count", "amount": "sum"}
CHANGES = {"n": "n_change", "amount": "amount_change"}
DAYS = Counted("dw.of_days", "of_days", "c", MEASURES, ("kind",), has_days=True, columns=CHANGES)
ALONE = Counted("dw.of_days", "alone", "other", MEASURES, ("kind",), has_days=True, columns=CHANGES)
TOTALS = Counted("dw.to_date", "to_date", "c", MEASURES, ("kind",))
ABSENT = Counted("dw.absent", "absent", "c", MEASURES, ("kind",))
TODAY = datetime.now(UTC).date()
SEED = 20261127


@pytest.fixture
def project(tmp_path: Path) -> DbtProject:
    (tmp_path / "warehouse").mkdir()
    return DbtProject(REPO, tmp_path / "warehouse")


def facts_of(project: DbtProject, *counted: Counted) -> Facts:
    gathering = Gathering(Asker(project.credentials()))
    gathering.ask(counted)
    return gathering.facts()


def test_an_empty_warehouse_has_a_page_that_names_what_is_missing(project: DbtProject) -> None:
    facts = facts_of(project, ABSENT)
    assert not any(facts.rows.values()) and facts.counts == {"absent": []}
    assert facts.missing == [*MODELS.values(), "absent"]
    page = html_of(replace(context(texts=("shop",)), facts=facts, counted=[ABSENT]), "")
    assert "7 models aren&#39;t in the warehouse, or only as older code built them" in page
    assert "No version is published yet." in page and "No topic has a message." in page


def test_a_warehouse_of_older_code_shows_what_it_has(project: DbtProject) -> None:
    """It has no meta_message_block, and meta_version has fewer columns."""
    project.query("create namespace dw")
    project.query("create table dw.meta_version (version bigint, published_at timestamp)")
    project.query("""
        create table dw.meta_quarantine as
        select 'ods_binlog' as refused_by, 'shop' as topic, 7L as message_offset,
            'no such table' as reject_reason, '{}' as raw_text
    """)
    facts = facts_of(project)
    assert "meta_quarantine" not in facts.missing and "meta_topic_volume" in facts.missing
    assert facts.rows["versions"] == []
    assert [(row["reason"], row["messages"]) for row in facts.rows["refused"]] == [
        ("no such table", 1)
    ]


def test_the_curves_of_a_count_are_those_of_plain_python_with_days_that_are_far_off(
    project: DbtProject,
) -> None:
    """Also with more values than a chart has lines, and with one that only old days have."""
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    far = [date(1969, 12, 31), date(2099, 1, 1), date(2099, 1, 2)]
    near = [TODAY - timedelta(days=back) for back in (0, 1, 5, 90, 183, 184, 185, 400)]
    rows = [
        (draw.choice(near + far), f"kind {draw.randrange(18)}", draw.randint(-3, 9))
        for _ in range(400)
    ]
    rows += [(date(1969, 12, 31), "old alone", 10_000), (TODAY, "kind 1", 1)]
    values = ", ".join(f"(date '{day}', '{kind}', {n})" for day, kind, n in rows)
    project.query("create namespace dw")
    project.query(f"""
        create table dw.of_days using iceberg partitioned by (cut_date) as
        select col1 as cut_date, col2 as kind, cast(col3 as bigint) as n_change,
            cast(col3 as decimal(20, 2)) / 4 as amount_change
        from values {values}
    """)
    project.query("""
        create view dw.to_date as
        select kind, sum(n_change) as n, sum(amount_change) as amount from dw.of_days group by kind
    """)
    facts = facts_of(project, DAYS, ALONE, TOTALS)

    shown = [row for row in rows if TODAY - timedelta(days=184) < row[0] <= TODAY]
    days = sorted({day for day, _, _ in shown})
    sizes: dict[str, int] = defaultdict(int)
    for (_, kind), change in summed(shown).items():
        sizes[kind] += abs(change)
    largest = sorted(sizes, key=lambda kind: (-sizes[kind], kind))[:SERIES]
    drawn = {day for day, kind, _ in shown if kind in largest}
    expected = {
        (day, kind): sum(n for at, of, n in rows if of == kind and at <= day)
        for day in days
        for kind in largest
        if day in drawn
    }
    for name in ("of_days", "alone"):  # with a table of the totals, and without
        points = to_date(facts.counts[name], "n")
        assert {(row["cut_date"], row["value"]): row["n"] for row in points} == expected, name
        amounts = to_date(facts.counts[name], "amount")
        assert all(
            row["amount"] == Decimal(expected[row["cut_date"], row["value"]]) / 4 for row in amounts
        )
        assert facts.beyond[name] == {
            "count": sum(day.year == 2099 for day, _, _ in rows),
            "days": 2,
            "newest": TODAY,
            "last": far[-1],
        }


def summed(rows: list[tuple[date, str, int]]) -> dict[tuple[date, str], int]:
    found: dict[tuple[date, str], int] = defaultdict(int)
    for day, kind, n in rows:
        found[day, kind] += n
    return found


def test_rows_without_a_day_are_of_the_curves_too(project: DbtProject) -> None:
    """Of a table that has a table of its totals, and of a table that has none."""
    project.query("create namespace dw")
    project.query(f"""
        create table dw.of_days using iceberg partitioned by (cut_date) as
        select col1 as cut_date, 'a' as kind, cast(col2 as bigint) as n_change,
            cast(col2 as decimal(20, 2)) as amount_change
        from values (date '{TODAY}', 2), (date '2020-01-01', 3), (cast(null as date), 5)
    """)
    project.query("""
        create view dw.to_date as
        select kind, sum(n_change) as n, sum(amount_change) as amount from dw.of_days group by kind
    """)
    facts = facts_of(project, DAYS, ALONE, TOTALS)
    for name in ("of_days", "alone"):
        [point] = to_date(facts.counts[name], "n")
        assert (point["cut_date"], point["n"]) == (TODAY, 10), name


@pytest.mark.in_turn
def test_a_store_that_was_brought_back_to_an_older_version_holds_that(project: DbtProject) -> None:
    project.query("create namespace dw")
    project.query("""
        create table dw.meta_publication as
        select 'serving' as target, 'orders' as table_name, col1 as version, col2 as published_at
        from values (2, timestamp '2026-03-02 10:00:00'), (5, timestamp '2026-03-05 10:00:00'),
            (3, timestamp '2026-03-06 10:00:00')
    """)
    [row] = facts_of(project).rows["publications"]
    assert (row["version"], row["published_at"].day) == (3, 6)
