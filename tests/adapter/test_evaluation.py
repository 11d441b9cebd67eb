"""Which models' queries Spark doesn't compile: those that add to their rows and read few."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dbt.adapters.sparksession.evaluation import (
    FEW_ROWS,
    UNCOMPILED,
    choose_evaluation,
    reads_few,
)
from dbt.adapters.sparksession.iceberg.history import History, Snapshot
from dbt.adapters.sparksession.inputs import OwnCommits, Read, ReadPlan

STORED = OwnCommits("dw.m", History(1, {1: Snapshot(1, None, "append", {})}))
EMPTY = OwnCommits("dw.m", History(None, {}))


def plan(*rows: int | None, own: OwnCommits | None = STORED, **other: object) -> ReadPlan:
    reads = {f"t{place}": Read(f"t{place}", 1, 2, count) for place, count in enumerate(rows)}
    return ReadPlan(own=own, reads=reads, **other)


PLANS = {
    "few": (plan(FEW_ROWS - 1, 1), True),
    "nothing": (plan(0), True),
    "many": (plan(FEW_ROWS, 1), False),
    "unknown_rows": (plan(1, None), False),
    "its_first_run": (plan(1, own=EMPTY), False),
    "of_no_table": (plan(1, own=None), False),
    "rebuilt": (plan(1, rebuilds=True), False),
    "what_has_no_snapshots": (plan(1, unpinned=frozenset({"dw.other"})), False),
}


@pytest.mark.parametrize(("read", "few"), PLANS.values(), ids=PLANS)
def test_few_rows_are_those_of_all_inputs_of_a_run_that_adds(read: ReadPlan, few: bool) -> None:
    assert reads_few(read) is few


def test_a_session_compiles_again_once_a_model_turns_out_to_read_much() -> None:
    settings: dict[str, str] = {}
    conf = SimpleNamespace(set=settings.__setitem__, unset=lambda key: settings.pop(key, None))
    session = SimpleNamespace(conf=conf, _jsparkSession=None)
    choose_evaluation(session, plan(5))
    assert settings == UNCOMPILED
    choose_evaluation(session, plan(5, FEW_ROWS))
    assert settings == {}
    choose_evaluation(SimpleNamespace(conf=None), plan(5))  # a remote session is left as it is
