"""The page of dbt's own suite says what is run of it."""

from __future__ import annotations

from tests.dbt_suite import suite
from tests.dbt_suite.overrides import changed


def test_the_table_names_each_class_of_the_suite() -> None:
    assert suite.parity().keys() == suite.cases().keys()


def test_what_stays_out_has_a_reason_and_what_is_changed_passes() -> None:
    said = suite.parity()
    assert {one.outcome for one in said.values()} <= suite.OUTCOMES.keys()
    assert [name for name, one in said.items() if one.outcome != "passes" and not one.reason] == []
    # a class that overrides tests or files of the suite says what and why
    changed_ones = {name for name, one in said.items() if one.outcome == "passes" and one.reason}
    assert changed_ones == changed().keys()


def test_the_page_is_the_table() -> None:
    assert suite.PAGE.read_text(encoding="utf-8") == suite.page(), (
        "run .venv/bin/python -m tests.dbt_suite.suite"
    )
