"""dbt's flags: no table takes a part of its inputs for the whole, and none loses what it holds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.flagged_project import FILES, QUERIES, answers, holding, make_log

FIRST = "insert into src.log values (1, 1, date '2026-03-01'), (2, 2, date '2026-03-01')"
SECOND = "insert into src.log values (3, 3, date '2026-03-02')"


@pytest.fixture
def project(make_project: Any) -> DbtProject:
    project = make_project(FILES)
    make_log(project)
    project.query(FIRST)
    return project


def test_empty_makes_tables_that_are_not_there_and_the_next_run_is_their_first(
    project: DbtProject,
) -> None:
    outcome = project.run("build", "--empty")
    found = answers(project)
    assert found.pop("seen") == [1, 2]  # a view holds nothing that could be missing
    assert not any(found.values())
    assert "nothing was read or published" in outcome.log
    assert project.query("show tables in dw like 'meta_version'") == []
    project.run("build")
    assert answers(project) == holding(1, 2)
    assert project.column("select version from dw.meta_version") == [1]


@pytest.mark.in_turn
def test_empty_leaves_what_tables_hold_and_nothing_counts_as_read(project: DbtProject) -> None:
    project.run("build")
    project.query(SECOND)
    heads = {name: project.summary(f"dw.{name}") for name in ("appended", "copied", "kept")}
    for flags in ((), ("--full-refresh",)):
        project.run("build", "--empty", *flags)
        assert answers(project) == holding(1, 2) | {"seen": [1, 2, 3]}
    project.run("snapshot", "--empty")
    assert project.column(QUERIES["kept"]) == [1, 2]
    assert heads == {name: project.summary(f"dw.{name}") for name in heads}
    assert project.column("select max(version) from dw.meta_version") == [1]
    project.run("build")
    assert answers(project) == holding(1, 2, 3)


def test_a_table_read_while_it_is_still_as_empty_made_it_is_named(project: DbtProject) -> None:
    project.run("run", "--empty", "--select", "appended")
    project.write(
        {
            "models/reader.sql": "{{ config(materialized='table') }} "
            "select count(*) as n from {{ pinned(ref('appended')) }}"
        }
    )
    outcome = project.run("run", "--select", "reader")
    assert "dw.appended was made by --empty and has read nothing yet" in outcome.log


def test_sample_is_refused_in_one_sentence(project: DbtProject) -> None:
    project.run("build")
    for command in ("run", "build"):
        outcome = project.run(command, "--sample", "3 days", expect_ok=False)
        assert "--sample would build tables of a part of their inputs" in str(outcome.exception)
    assert answers(project) == holding(1, 2)


def test_sample_is_refused_where_no_hook_begins_the_run(project: DbtProject) -> None:
    text = (project.root / "dbt_project.yml").read_text("utf-8")
    without = "".join(line for line in text.splitlines(True) if not line.startswith("on-run-"))
    project.write({"dbt_project.yml": without})
    project.run("run", "--select", "appended", "latest")
    project.query(SECOND)
    outcome = project.run(
        "run", "--select", "appended", "latest", "--sample=3 days", expect_ok=False
    )
    for name in ("appended", "latest"):
        message = outcome.results[name].message
        assert "--sample would build tables of a part of their inputs" in message
    project.run("run", "--select", "appended", "latest")
    for name in ("appended", "latest"):
        assert project.column(f"select id from dw.{name} order by id") == [1, 2, 3]


def test_flags_that_do_nothing_are_named(project: DbtProject) -> None:
    project.write(
        {"models/settings.yml": "models: [{name: appended, config: {full_refresh: false}}]"}
    )
    outcome = project.run(
        "build",
        "--full-refresh",
        "--favor-state",
        "--event-time-start",
        "2026-03-01",
        "--event-time-end",
        "2026-03-02",
        "--select",
        "appended",
        "kept",
    )
    assert "--full-refresh does nothing to appended" in outcome.log
    assert "--event-time-start and --event-time-end choose batches" in outcome.log
    assert "--full-refresh does nothing to kept: the versions" in outcome.log
    assert "--favor-state does nothing without --defer" in outcome.log
