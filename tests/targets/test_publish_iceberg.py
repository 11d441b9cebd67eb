"""Versions as plain Iceberg tables: row by row those of the warehouse, in one commit a table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from dbt.adapters.sparksession.versions.targets import PublishError

from python_udfs.targets import iceberg
from tests.support.dbt_project import DbtProject
from tests.support.published import (
    SEED,
    Source,
    as_text,
    expected,
    files,
    kill,
    publishing,
    tables,
)

PUBLISH = ("run-operation", "publish_to")


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    return make_project(files("serving", "iceberg"), publish_targets="serving=iceberg")


def rows(project: DbtProject) -> dict[str, list[tuple]]:
    """Table -> its rows as `expected` gives those of the warehouse."""
    return {
        table: sorted(
            tuple(map(as_text, row.items()))
            for row in project.query(f"select * from serving.{table}")
        )
        for table in tables()
    }


def versions(project: DbtProject) -> dict[str, str]:
    """Table -> the version that its newest publication states."""
    return {
        table: project.column(
            f"select max_by(summary['{iceberg.VERSION}'], committed_at) "
            f"from serving.{table}.snapshots where summary['{iceberg.VERSION}'] is not null"
        )[0]
        for table in tables()
    }


def problem(project: DbtProject) -> str:
    """What `publish_to` states where it fails."""
    log = project.run(*PUBLISH, expect_ok=False).log
    (line,) = {line.strip() for line in log.splitlines() if "Target serving: " in line}
    return line


@pytest.mark.in_turn
def test_each_version_is_there_row_by_row_as_tables(project: DbtProject) -> None:
    print(f"PUBLISH_SEED={SEED}")
    source = Source(project, SEED)
    source.change(30)
    assert "Target serving holds version 1." in project.run("build").log
    assert rows(project) == expected(project)
    # what reads no views finds them
    assert {row["tableName"] for row in project.query("show tables in serving")} == set(tables())
    assert project.query("show views in serving") == []

    # of the next version the changed rows alone, those of the appended table are new
    source.change(6, entries=3)
    log = project.run("build").log
    assert "entries: 3 rows written, 0 removed" in log
    assert "compared as a whole" not in log
    assert rows(project) == expected(project)
    assert set(versions(project).values()) == {"2"}

    # one of the past is gone back to
    source.change(5)
    project.run("build")
    now = expected(project)
    assert rows(project) == now
    project.run(*PUBLISH, "--args", "{target: serving, version: 2}")
    assert set(versions(project).values()) == {"2"}
    assert rows(project) != now
    project.run(*PUBLISH)
    assert rows(project) == now

    # nothing new: nothing is written; a table that somebody dropped comes whole
    assert "rows written" not in project.run(*PUBLISH).log
    project.query("drop table serving.total")
    assert "total: " in project.run(*PUBLISH).log
    assert rows(project) == now


@pytest.mark.soak
def test_what_is_somebody_elses_is_reported_and_never_written_over(
    project: DbtProject,
) -> None:
    source = Source(project, SEED)
    source.change(10)
    project.run("build")
    project.query("insert into serving.total values ('stray', 1, 1)")
    stray = rows(project)["total"]
    source.change(4)
    project.run("build", expect_ok=False)
    reported = problem(project)
    assert "table serving.total was changed by a commit that is no publication" in reported
    assert "drop it and publish again" in reported
    assert rows(project)["total"] == stray
    project.query("drop table serving.total")
    project.run(*PUBLISH)
    assert rows(project) == expected(project)

    project.env["PUBLISH_SERVING_SCHEMA"] = "dw"
    assert "schema dw is there, and was not made by publishing" in problem(project)
    del project.env["PUBLISH_SERVING_SCHEMA"]

    # another shape, and files that somebody compacted
    project.query("alter table serving.entries drop column kind")
    project.query(
        "call system.rewrite_data_files(table => 'serving.latest', "
        "options => map('rewrite-all', 'true'))"
    )
    source.change(4)
    project.run("build", expect_ok=False)
    assert "table serving.entries differs from the model: column kind is missing (" in problem(
        project
    )
    project.query("alter table serving.entries add column kind string after user_id")
    project.query("drop table serving.entries")
    project.run(*PUBLISH)
    assert rows(project) == expected(project)


@pytest.mark.parametrize(("setting", "value"), [("SCHEMA", "a.b"), ("KEEP_HOURS", "-1")])
def test_wrong_settings_are_refused(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    monkeypatch.setenv(f"PUBLISH_SERVING_{setting}", value)
    with pytest.raises(PublishError, match=f"PUBLISH_SERVING_{setting} must be .*'{value}'"):
        iceberg.open_store(None, "serving", "0" * 16)


@pytest.mark.soak
def test_old_snapshots_and_deleted_rows_go_in_time(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg, "MANY_SNAPSHOTS", 3)
    monkeypatch.setattr(iceberg, "MANY_DELETE_FILES", 3)
    project.env["PUBLISH_SERVING_KEEP_HOURS"] = "0"
    source = Source(project, SEED)
    for _ in range(5):
        source.change(6)
        project.run("build")
    assert rows(project) == expected(project)
    for table in ("facts_now", "user_status", "latest"):
        (snapshots,) = project.column(f"select count(*) from serving.{table}.snapshots")
        (deletes,) = project.column(f"select count(*) from serving.{table}.delete_files")
        assert snapshots <= 5 and deletes <= 3, (table, snapshots, deletes)


@pytest.mark.soak
def test_a_publication_that_is_killed_is_finished_by_the_next(project: DbtProject) -> None:
    print(f"PUBLISH_SEED={SEED}")
    pick, source = random.Random(SEED), Source(project, SEED)
    source.change(30)
    project.run("build")
    for _ in range(4):
        before = rows(project)
        source.change(100)
        targets = project.env.pop("PUBLISH_TARGETS")
        project.run("build")
        project.env["PUBLISH_TARGETS"] = targets
        run = publishing(project)
        time.sleep(pick.uniform(10, 25))
        kill(run)
        now, half = expected(project), rows(project)
        for table in tables():  # each table is of one of the versions
            assert half[table] in (before[table], now[table]), table
        project.run(*PUBLISH)
        assert rows(project) == now
