"""A build that is held back: what comes to it, and what operations do before it is published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.sparksession.versions.lease import Lease

from tests.support.dbt_project import DbtProject
from tests.support.four_models import F, four_models, ids, land

APART = """
    {{ config(materialized='incremental') }}
    select cast(id as int) as id from {{ new_rows(source('raw', 'raw')) }}
"""
NAMES = ("a", "b", "c", "d", "f", "apart")
HELD = {"hold_back": True}


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    """Ids 0 to 2 are published."""
    project = four_models(make_project, f=F, apart=APART)
    project.run("build")
    return project


def is_published(project: DbtProject, end: int) -> None:
    """Whether all that readers see has ids 0 to end - 1."""
    for name in NAMES:
        assert ids(project, f"published.{name}") == list(range(end)), name


@pytest.mark.in_turn
def test_a_second_build_adds_to_the_candidate(project: DbtProject) -> None:
    land(project, 3, 5)
    project.run("build", "-s", "a+", vars=HELD)
    log = project.run("build", "-s", "apart", vars=HELD).log
    assert "differs from version 1" in log
    assert "dw.b: 2 added" in log and "dw.apart: 2 added" in log
    land(project, 5, 6)
    behind = project.run("build", "-s", "a", vars=HELD).log
    assert "Not published: b, c, f would stand on older rows of a than the version has" in behind
    project.run("build", "-s", "a+", vars=HELD)
    project.run("build", "-s", "apart", vars=HELD)
    project.run("run-operation", "publish_candidate")
    is_published(project, 6)
    assert "Published" not in project.run("build").log


@pytest.mark.in_turn
def test_the_candidate_is_whole_whatever_is_published_before_it(project: DbtProject) -> None:
    for end in range(3, 8):
        land(project, end, end + 1)
        project.run("build")
    land(project, 8, 9)
    project.run("build", "-s", "apart", vars=HELD)
    compacted = project.run("run-operation", "compact", "--args", "{merge_runs: true}").log
    assert "Published as version 7: the same rows." in compacted
    project.run("run-operation", "publish_candidate")
    assert ids(project, "published.apart") == list(range(9))
    for name in set(NAMES) - {"apart"}:
        assert ids(project, f"published.{name}") == list(range(8)), name
    project.run("build", vars=HELD)
    project.run("run-operation", "roll_back", "--args", "{version: 1}")
    project.run("run-operation", "publish_candidate")
    is_published(project, 9)
    land(project, 9, 10)
    project.run("build")
    is_published(project, 10)


@pytest.mark.in_turn
def test_what_a_candidate_holds_does_not_expire(project: DbtProject) -> None:
    land(project, 3, 4)
    project.run("build", vars=HELD)
    named = "keep_version", "--args", "{version: 1, tag: candidate}"  # it would be the build's name
    refused = project.run("run-operation", *named, expect_ok=False)
    assert "must not be a number, latest or candidate" in f"{refused.exception}{refused.log}"
    for end in range(4, 7):  # tables go on, the candidate doesn't
        land(project, end, end + 1)
        project.run("build", vars=HELD | {"c_stops": True}, expect_ok=False)
    project.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    project.run("run-operation", "publish_candidate")
    is_published(project, 4)
    project.run("build")
    is_published(project, 7)


@pytest.mark.in_turn
def test_a_build_that_is_held_back_as_another_run_begins_keeps_that_from_writing(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held back behind dbt's look for tables, and before that run takes the lease."""
    land(project, 3, 5)
    take, others = Lease.take, []

    def take_behind_another_run(self: Lease, *given: Any, **named: Any) -> Any:
        if not others:
            others.append(None)
            others.append(project.subprocess("build", vars=HELD))
        return take(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Lease, "take", take_behind_another_run)
        refused = project.run("build", expect_ok=False)
    assert others[-1].returncode == 0, others[-1].stdout
    assert "A build is held back and waits for a decision" in str(refused.exception)
    is_published(project, 3)
    project.run("run-operation", "drop_candidate")
    assert ids(project, "dw.apart") == [0, 1, 2]
