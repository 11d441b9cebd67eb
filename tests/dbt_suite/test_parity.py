"""The table of dbt's own suite is complete, and its page is the table."""

from __future__ import annotations

from tests.dbt_suite import suite
from tests.dbt_suite.overrides import changed


def test_the_table_names_each_class_of_the_suite() -> None:
    assert suite.parity().keys() == suite.cases().keys()


def test_what_stays_out_has_a_reason_and_so_has_each_change() -> None:
    entries = suite.parity()
    assert {entry.outcome for entry in entries.values()} <= suite.OUTCOMES.keys()
    passing = {name: entry for name, entry in entries.items() if entry.outcome == "passes"}
    without = [name for name, entry in entries.items() if not entry.reason and name not in passing]
    assert without == []
    reasons = {name for name, entry in passing.items() if entry.reason}
    assert reasons == passing.keys() & changed().keys()


def test_the_page_is_the_table() -> None:
    assert suite.PAGE.read_text(encoding="utf-8") == suite.page(), (
        "run .venv/bin/python -m tests.dbt_suite.suite"
    )
