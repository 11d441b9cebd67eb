"""The protocol of lease, takeover, commit, publication and going back: all its interleavings."""

from __future__ import annotations

import inspect
import re

import pytest
from dbt.adapters.sparksession.inputs import Inputs
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.versions.lease import Lease
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.rollback import Rollback

from tests.support import protocol_model
from tests.support.protocol_model import CONNECT, LOCAL, MUTANTS, Model, explore, mutated

REAL = (Inputs, TableReads, Lease, OneWriter, Versions, Rollback)
FAR = Model(CONNECT, is_far=True, has_reader=False, crashes=1)
# the mutant, where it is seen, and what is broken then
CAUGHT = [
    ("takes_over_without_ending", Model(CONNECT, crashes=1), "a row came twice"),
    ("takes_over_without_waiting", Model(CONNECT, crashes=1), "a row came twice"),
    ("ends_before_it_takes", FAR, "a row came twice"),
    ("notes_without_confirm", FAR, "a row came twice"),
    ("writes_before_it_notes", Model(CONNECT, crashes=1), "a row came twice"),
    ("takes_without_condition", Model(LOCAL, has_reader=False), "a row came twice"),
    ("does_not_wait_for_java", Model(LOCAL, crashes=1), "a row came twice"),
    (
        "publishes_without_condition",
        Model(LOCAL, is_far=True, only_versions=True, has_reader=False, crashes=1),
        "two versions have one number",
    ),
    ("views_without_versions", Model(CONNECT, crashes=1), "a reader saw no version"),
    ("publishes_its_own_half", Model(CONNECT, crashes=1), "a version mixes two runs"),
]


@pytest.mark.parametrize("goes_back", [False, True])
@pytest.mark.parametrize("place", [CONNECT, LOCAL])
@pytest.mark.parametrize("with_reader", [False, True])
def test_no_interleaving_breaks_an_invariant(
    place: str, goes_back: bool, with_reader: bool
) -> None:
    """Two writers of two runs each; two of their runs die, or a single run beside a reader."""
    crashes = 1 if with_reader else 2
    found = explore(Model(place, goes_back=goes_back, has_reader=with_reader, crashes=crashes))
    print(f"\n{place}: {found.states} states")
    assert not found.broken, "\n".join(found.trace)
    assert found.published > 1000


def test_a_run_on_connect_that_only_slept_changes_nothing() -> None:
    found = explore(FAR)
    assert not found.broken, "\n".join(found.trace)
    assert found.states > 10_000


def test_a_run_with_its_own_spark_that_only_slept_publishes_nothing() -> None:
    """What it had begun may still be appended to a table: docs/how-to/where-it-runs.md."""
    far = Model(LOCAL, is_far=True, has_reader=False, crashes=1)
    assert explore(far).broken == "a row came twice"
    found = explore(Model(LOCAL, True, only_versions=True, has_reader=False, crashes=1))
    assert not found.broken, "\n".join(found.trace)


@pytest.mark.parametrize(
    ("mutant", "model", "broken"), CAUGHT, ids=[caught[0] for caught in CAUGHT]
)
def test_a_change_of_the_protocol_is_caught(mutant: str, model: Model, broken: str) -> None:
    found = explore(mutated(model, mutant))
    assert found.broken.startswith(broken)
    assert len(found.trace) > 5


def test_each_mutant_is_tried() -> None:
    assert {caught[0] for caught in CAUGHT} == MUTANTS.keys()


def test_each_step_is_a_function_of_the_adapter() -> None:
    classes = {real.__name__: real for real in REAL}
    text = inspect.getsource(protocol_model)
    named = set(re.findall(r'"([A-Z]\w+)\.(\w+)"', text)) - {("Lease", "note_late")}
    assert {name for name, _ in named} == classes.keys()
    assert [step for step in named if not hasattr(classes[step[0]], step[1])] == []
