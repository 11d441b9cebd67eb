"""Which models' queries Spark doesn't compile: those that add to their rows and read few."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.building import NodeBuilds
from dbt.adapters.sparksession.evaluation import (
    FEW_OWN_ROWS,
    FEW_ROWS,
    UNCOMPILED,
    choose_evaluation,
    reads_few,
)
from dbt.adapters.sparksession.iceberg.history import History, Snapshot
from dbt.adapters.sparksession.read_plans import OwnCommits, Read, ReadPlan

EMPTY = OwnCommits("dw.m", History(None, {}))


def stored(**summary: str) -> OwnCommits:
    counted = {name.replace("_", "-"): value for name, value in summary.items()}
    return OwnCommits("dw.m", History(1, {1: Snapshot(1, None, "append", counted)}))


STORED = stored(total_records=str(FEW_OWN_ROWS))


def plan(*rows: int | None, own: OwnCommits | None = STORED, **other: object) -> ReadPlan:
    reads = {f"t{place}": Read(f"t{place}", 1, 2, count) for place, count in enumerate(rows)}
    return ReadPlan(own=own, reads=reads, **other)


PLANS = {
    "few": (plan(FEW_ROWS - 1, 1), True),
    "nothing": (plan(0), True),
    "many": (plan(FEW_ROWS, 1), False),
    "unknown_rows": (plan(1, None), False),
    "many_of_its_own": (plan(1, own=stored(total_records=str(FEW_OWN_ROWS + 1))), False),
    "unknown_rows_of_its_own": (plan(1, own=stored()), False),
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


def node(*parents: str, kind: str = "table", name: str = "") -> SimpleNamespace:
    config = {"materialized": kind}
    return SimpleNamespace(schema="dw", alias=name, config=config, depends_on_nodes=parents)


NODES = {
    "model.half": node(name="half"),
    "model.other_half": node(name="other_half", kind="folded"),
    "model.one": node(name="one", kind="incremental"),
    "model.new": node(name="new"),
    "model.of_half": node("model.half", kind="view"),
    "model.of_both": node("model.of_half", "model.other_half", "model.half", kind="ephemeral"),
    "model.of_source": node("source.raw", kind="view"),
}
ROWS = {"dw.half": FEW_ROWS // 2, "dw.other_half__runs": FEW_ROWS // 2, "dw.one": 1}


@pytest.mark.parametrize(
    ("parents", "few"),
    [
        (("model.half", "model.other_half"), True),
        (("model.of_both",), True),
        (("model.of_both", "model.one"), False),
        (("model.one", "model.new"), False),
        (("model.of_source",), False),
    ],
    ids=["tables", "through_views", "many", "a_table_without_commits", "a_source"],
)
def test_few_rows_of_a_data_test_are_those_of_all_tables_below_it(
    parents: tuple[str, ...], few: bool
) -> None:
    warehouse: Any = SimpleNamespace(
        manifest=lambda: SimpleNamespace(nodes=NODES),
        input_history=lambda table: SimpleNamespace(rows=ROWS.get(table)),
    )
    other: Any = None
    builds = NodeBuilds(
        warehouse,
        other,
        other,
        batches=other,
        reads=other,
        lease=other,
        place=other,
        makers=other,
        interrupts=other,
    )
    assert builds.tests_few_rows(node(*parents, kind="test")) is few
