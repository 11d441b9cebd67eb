"""A business day of the sample comes again with corrections, is looked at, and then published."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from urllib.parse import unquote_plus

import pytest

from tests.support import histories, oracle
from tests.support.warehouse import Warehouse, differing, sample_days, sample_lines, truth

MODELS = ("--select", "+dws_trade__user_status_td", "--exclude-resource-type", "unit_test")
DAYS, TOTALS = "dws_trade__user_status_1d", "dws_trade__user_status_td"


@pytest.mark.soak
def test_a_day_of_the_sample_is_corrected_beside_its_readers(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"\nseed {seed}")
    warehouse, lines = Warehouse(tmp_path), sample_lines()
    for _, files in sample_days():
        warehouse.land(*files)
    warehouse.run("build", *MODELS)
    live = oracle.read_messages(lines)
    days = sorted({oracle.cut_date(item) for item in live})
    again = histories.import_again(lines, [days[len(days) // 2]], seed)
    warehouse.land_lines(again, 0, batch="fix")
    sent = oracle.read_messages(again)
    wanted = oracle.corrected(live, sent)
    was, will_be = oracle.daily_counts(live), oracle.daily_counts(wanted)
    wrong = {key[0] for key, _, _ in differing(was, will_be)}

    both = {"batches": ["live", "fix"]}
    held = warehouse.run("build", *MODELS, vars=both | {"hold_back": True}).log

    assert differing(truth("final"), warehouse.td(f"published.{TOTALS}")) == []
    written = warehouse.written_partitions(f"dw.{DAYS}")
    got = {date.fromisoformat(unquote_plus(item).removeprefix("cut_date=")) for item in written}
    reported = next(line for line in held.splitlines() if f"dw.{DAYS} was written in" in line)
    print(f"{reported.strip()}; the days that differ: {sorted(map(str, wrong))}")
    # days that a message of the batch counts for, as it was or as it is now
    places = {item.identity for item in sent}
    touched = {oracle.cut_date(item) for item in [*live, *sent] if item.identity in places}
    assert wrong <= got <= touched
    assert len(got) < len(days)
    assert all(item in reported for item in sorted(written)[:3])
    rows = warehouse.query("select * from dw.meta_quality where verdict = 'differs'")
    (of_days,) = [row for row in rows if row["check_name"].startswith(f"dw.{DAYS}: candidate")]
    assert of_days["groups_differing"] == len(differing(was, will_be))

    warehouse.run("run-operation", "publish_candidate")

    for schema in ("dw", "published"):
        totals = warehouse.td(f"{schema}.{TOTALS}")
        assert differing(oracle.counts_to_date(wanted), totals) == [], schema
    print(f"{len(again)} messages again, {len(wrong)} days and {len(totals)} totals are right")
    assert "Nothing new has landed" in warehouse.run("build", *MODELS, vars=both).log
