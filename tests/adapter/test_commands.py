"""dbt's commands and flags on one small warehouse: its tables are right, or the command is refused.

Each row of docs/reference/commands.md names one of these tests, or one of test_flags.py and
test_microbatch.py; tests/project/test_commands.py compares them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.dbt_project import DbtProject, Outcome
from tests.support.flagged_project import FILES, answers, holding, make_log

TABLES = ("appended", "by_day", "latest__runs", "copied", "past_this", "whole", "kept", "codes")

OTHER_TARGET = """
    other:
      <<: *local
      schema: other
"""
# each reads another model: what --defer lets it read elsewhere, its next run reads at home
READERS = {
    "models/passed_on.sql": """
        {{ config(materialized='incremental') }}
        select id from {{ new_rows(ref('appended')) }}
    """,
    "models/counted.sql": """
        {{ config(
            materialized='incremental',
            incremental_strategy='replace_partitions',
            partition_by='day',
        ) }}
        select day, count(*) as n
        from {{ changed_partitions(ref('appended'), by='day') }}
        group by day
    """,
    "models/summed.sql": """
        {{ config(
            materialized='folded',
            unique_key='day',
            fold={'tie_break': ['position'], 'aggregates': {'n': 'sum'}},
        ) }}
        select day, position, 1 as n from {{ new_rows(ref('appended')) }}
    """,
    "models/row_wise.sql": """
        {{ config(meta={'row_wise': true}) }}
        select id, position, day from {{ ref('appended') }}
    """,
    "models/passed_by_view.sql": """
        {{ config(materialized='incremental') }}
        select id from {{ new_rows(ref('row_wise')) }}
    """,
    "models/passed_by_fold.sql": """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select id from {{ new_changes(ref('latest')) }}
    """,
    "models/py_passed_on.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_rows(dbt.ref("appended")).select("id")
    """,
}
PASSING = ("passed_on", "passed_by_view", "passed_by_fold", "py_passed_on")
READER_NAMES = (*PASSING, "counted", "summed")
READ_BY_THEM = ("appended", "latest", "row_wise")


class Log:
    """A project and the ids that its log has."""

    def __init__(self, project: DbtProject) -> None:
        self.project, self.ids = project, 0

    def grow(self) -> None:
        """Let two more ids come in, of a day of their own."""
        day = f"date '2026-03-01' + interval {self.ids // 2} day"
        rows = ", ".join(f"({item}, {item}, {day})" for item in (self.ids + 1, self.ids + 2))
        self.project.query(f"insert into src.log values {rows}")
        self.ids += 2

    def is_right(self) -> bool:
        return answers(self.project) == holding(*range(1, self.ids + 1))

    def heads(self) -> dict[str, int]:
        """Newest snapshot of each table."""
        return {
            name: self.project.column(
                f"select snapshot_id from dw.{name}.refs where name = 'main'"
            )[0]
            for name in TABLES
        }


@pytest.fixture(scope="module")
def whole_log(make_project: Callable[..., DbtProject]) -> Iterator[Log]:
    project = make_project(FILES)
    make_log(project)
    log = Log(project)
    log.grow()
    project.run("build", "--write-json")
    assert log.is_right()
    yield log
    # whatever the tests did, an ordinary build makes all of it right
    project.run("build")
    assert log.is_right()


@pytest.fixture
def log(whole_log: Log) -> Log:
    """The warehouse with two ids more that no run has read."""
    whole_log.grow()
    return whole_log


def test_run(log: Log) -> None:
    log.project.run("run")
    log.project.run("snapshot")
    assert log.is_right()


def test_build(log: Log) -> None:
    outcome = log.project.run("build")
    assert log.is_right()
    assert "Published as version" in outcome.log


def test_seed(log: Log) -> None:
    log.project.write({"seeds/codes.csv": "id,name\n1,a\n2,b\n3,c\n"})
    log.project.run("seed")
    assert log.project.column("select id from dw.codes order by id") == [1, 2, 3]
    log.project.write({"seeds/codes.csv": FILES["seeds/codes.csv"]})
    log.project.run("seed")


def test_snapshot(log: Log) -> None:
    log.project.run("snapshot")
    assert len(log.project.column("select id from dw.kept")) == log.ids


READING = {
    "test": ("test",),
    "show": ("show", "--inline", "select * from {{ ref('latest') }}", "--limit", "-1"),
    "compile": ("compile",),
    "compile --empty": ("compile", "--empty"),
    "docs generate": ("docs", "generate"),
    "source freshness": ("source", "freshness"),
    "list": ("list",),
    "ls": ("ls", "--output", "json"),
    "debug": ("debug",),
    "deps": ("deps",),
    "parse": ("parse", "--write-json"),
}


@pytest.mark.in_turn
def test_reading_commands_write_no_table(log: Log) -> None:
    before = log.heads()
    for name, command in READING.items():
        log.project.run(*command)
        assert log.heads() == before, name


def test_a_warehouse_that_dbt_clean_would_delete_is_not_begun(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    inside = DbtProject(project.root, project.target / "warehouse", profiles=project.profiles)
    inside.env["DBT_TARGET_PATH"] = str(project.target)
    refused = inside.run("run", expect_ok=False)
    assert "which dbt clean deletes" in f"{refused.exception}{refused.log}"


@pytest.mark.in_turn
def test_retry(log: Log) -> None:
    for first in ("run", "build"):
        log.grow()
        broken = FILES["models/appended.sql"] + " where nowhere"
        log.project.write({"models/appended.sql": broken})
        log.project.run(first, "--write-json", expect_ok=False)
        log.project.write({"models/appended.sql": FILES["models/appended.sql"]})
        log.project.run("retry", "--write-json")
    log.project.run("snapshot")
    assert log.is_right()


def test_run_operation(log: Log) -> None:
    before = log.heads()
    log.project.run("run-operation", "list_versions")
    unknown = log.project.run("run-operation", "lst_versions", expect_ok=False)
    assert "lst_versions" in f"{unknown.exception}{unknown.log}"
    assert log.heads() == before


@pytest.mark.soak
def test_full_refresh(log: Log) -> None:
    for layer in ("appended", "by_day", "latest", "copied", "whole", "codes", "kept"):
        log.project.run("build", "--full-refresh", "--select", layer)
    log.grow()
    log.project.run("build")
    assert log.is_right()


class Elsewhere:
    """A project whose readers are built in the schema `other`; what they read is built in dw."""

    def __init__(self, project: DbtProject) -> None:
        self.project, self.log = project, Log(project)
        profiles = project.profiles / "profiles.yml"
        profiles.write_text(profiles.read_text(encoding="utf-8") + OTHER_TARGET, encoding="utf-8")
        make_log(project)
        self.log.grow()
        project.run("build", "--select", *READ_BY_THEM, "kept", "codes", "--write-json")
        self.state = project.root / "state"
        shutil.copytree(project.target, self.state)

    def grow(self) -> None:
        self.log.grow()
        self.project.run("run", "--select", *READ_BY_THEM)

    def run(self, *options: str, command: str = "run", ok: bool = True) -> Outcome:
        return self.project.run(command, "--target", "other", *options, expect_ok=ok)

    def compare(self) -> None:
        """Whether all readers hold the whole log."""
        listed, halves = list(range(1, self.log.ids + 1)), [2] * (self.log.ids // 2)
        ask = self.project.column
        for name in PASSING:
            assert (name, ask(f"select id from other.{name} order by id")) == (name, listed)
        for name in ("counted", "summed"):
            assert (name, ask(f"select n from other.{name} order by day")) == (name, halves)


@pytest.fixture
def elsewhere(make_project: Callable[..., DbtProject]) -> Elsewhere:
    return Elsewhere(make_project(FILES | READERS))


@pytest.mark.soak
@pytest.mark.parametrize("flags", [("--defer", "--favor-state"), ("--defer",)])
def test_defer(elsewhere: Elsewhere, flags: tuple[str, ...]) -> None:
    readers = ("--select", *READER_NAMES)
    deferred = (*flags, "--state", str(elsewhere.state), *readers)

    elsewhere.run(*deferred)
    elsewhere.compare()
    elsewhere.grow()
    # the view is the schema's own, what it reads is the state's
    elsewhere.run(*deferred, "row_wise")
    elsewhere.compare()
    # the same schema has tables of its own from now on
    elsewhere.log.grow()
    elsewhere.run("--select", "appended", "latest")
    elsewhere.run(*readers)
    elsewhere.compare()
    # and reads those of the state again, where there are none of its own or it is asked to
    if "--favor-state" in flags:
        elsewhere.project.run("run", "--select", *READ_BY_THEM)
    elsewhere.run(*deferred)
    elsewhere.compare()


@pytest.mark.soak
def test_clone(elsewhere: Elsewhere) -> None:
    project, readers = elsewhere.project, ("--select", *READER_NAMES)
    cloning = ("--state", str(elsewhere.state))
    assert "skipping clone" in project.run("clone", *cloning).log  # into its own place

    elsewhere.run(*cloning, command="clone")
    cloned = {"appended", "latest", "row_wise", "kept", "codes"}
    assert {row["viewName"] for row in project.query("show views in other")} == cloned
    assert project.column("select id from other.latest order by id") == [1, 2]
    # a clone is read as what it was made of, by what is new there
    elsewhere.run(*readers)
    elsewhere.compare()
    elsewhere.grow()
    elsewhere.run(*readers)
    elsewhere.compare()
    # what is built under a clone's name takes its place
    elsewhere.log.grow()
    elsewhere.run("--select", "appended", "latest")
    elsewhere.run(*readers)
    elsewhere.compare()
    elsewhere.run("--select", "kept", "codes", command="build")
    assert project.column("select id from other.codes order by id") == [1, 2]
    assert len(project.column("select id from other.kept")) == elsewhere.log.ids

    refused = elsewhere.run(*cloning, "--full-refresh", command="clone", ok=False)
    for name in ("appended", "latest", "kept", "codes"):
        assert f"in the place of the table other.{name} and drop its rows" in refused.log
    elsewhere.compare()


def test_fail_fast(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.project.write({"models/seen.sql": "select nowhere from {{ source('src', 'log') }}"})
    for flags in (("--fail-fast",), ()):
        if not flags:
            monkeypatch.setenv("DBT_FAIL_FAST", "true")
        outcome = log.project.run("build", *flags, "--threads", "4", expect_ok=False)
        assert "Traceback" not in outcome.log
        assert log.project.query("select run_id from dw.meta_lease") == [{"run_id": None}]
    log.project.write({"models/seen.sql": FILES["models/seen.sql"]})


@pytest.mark.soak
def test_selections(log: Log) -> None:
    for chosen in (
        ("--exclude", "appended"),
        ("--resource-type", "model"),
        ("--exclude-resource-type", "snapshot"),
        ("--select", "latest", "--indirect-selection", "empty"),
    ):
        log.project.run("build", *chosen)
        log.grow()
    log.project.run("build")
    assert log.is_right()


@pytest.mark.soak
def test_flags_of_how_a_run_is_done(log: Log) -> None:
    for flags in (
        ("--threads", "1"),
        ("--threads", "16"),
        ("--no-partial-parse", "--no-populate-cache"),
        ("--cache-selected-only", "--warn-error"),
    ):
        log.grow()
        log.project.run("build", *flags)
        assert log.is_right(), flags


@pytest.mark.soak
def test_store_failures(log: Log) -> None:
    log.project.run("build", "--store-failures")
    assert log.is_right()


def test_target_offline_runs_nothing(log: Log) -> None:
    before = log.heads()
    outcome = log.project.run("build", "--target", "ci", expect_ok=False)
    assert "offline" in f"{outcome.exception}{outcome.log}"
    assert log.heads() == before


def test_a_var_that_nothing_reads_is_named(log: Log) -> None:
    outcome = log.project.run("build", vars={"publish_version": False})
    assert (
        "--vars sets publish_version, which nothing reads; near it: publish_versions" in outcome.log
    )
    assert log.is_right()


@pytest.mark.in_turn
def test_a_var_that_rows_depend_on_is_not_changed_between_runs(log: Log) -> None:
    refused = log.project.run("run", vars={"step": 2}, expect_ok=False).results["appended"]
    assert "var step (was 1, is 2)" in refused.message
    log.project.run("run", "--full-refresh", "--select", "appended", vars={"step": 2})
    assert log.project.column("select distinct step from dw.appended") == [2]
    log.project.run("run", "--full-refresh", "--select", "appended")


@pytest.mark.soak
def test_environment_variables_of_dbt_are_its_flags(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = log.heads()
    monkeypatch.setenv("DBT_EMPTY", "true")
    log.project.run("build")
    assert log.heads() == before
    monkeypatch.delenv("DBT_EMPTY")
    monkeypatch.setenv("DBT_SAMPLE", "3 days")
    refused: Any = log.project.run("build", expect_ok=False)
    assert "--sample would build tables of a part" in str(refused.exception)
    monkeypatch.delenv("DBT_SAMPLE")
    monkeypatch.setenv("DBT_DEFER", "true")
    refused = log.project.run("build", expect_ok=False)
    assert "required for deferral" in str(refused.exception)
    monkeypatch.delenv("DBT_DEFER")
    monkeypatch.setenv("DBT_EVENT_TIME_START", "2026-03-01")
    monkeypatch.setenv("DBT_EVENT_TIME_END", "2026-03-02")
    monkeypatch.setenv("DBT_FULL_REFRESH", "true")
    outcome = log.project.run("run", "--select", "appended")
    assert "--event-time-start and --event-time-end choose batches" in outcome.log
    assert outcome.results["appended"].adapter_response["rows_affected"] == log.ids
