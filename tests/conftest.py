"""Fixtures of all tests."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.dbt_project import (
    COMPILES_ALL,
    REPO,
    DbtProject,
    compiles_all,
    copied_profiles,
)
from tests.support.tiers import starts_process
from tools.ci_diff import OWN_FOLDERS

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
}
PROJECT_FILE = """
name: small
version: "1.0"
config-version: 2
profile: binlog_warehouse
"""


DURATIONS = Path(__file__).parent / "durations.json"  # file below tests -> seconds
OF_A_PROCESS = 5.0  # seconds that a test with Spark is taken to need in a file without a duration
TURN = "TESTS_TURN"  # environment variable: which of the tests marked in_turn run
TURNS = 6  # a day each, 0 to 5


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "write into tests/durations.json how long the files took that ran"
    parser.addoption("--store-durations", action="store_true", help=text)
    text = f"leave out the tests marked in_turn whose turn isn't today, or isn't {TURN}"
    parser.addoption("--in-turn", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("-m") == "soak":
        os.environ.setdefault(COMPILES_ALL, "true")
    if config.getoption("--in-turn"):
        # the processes of one run inherit it: midnight may lie between their looks at the clock
        os.environ.setdefault(TURN, str(datetime.now(UTC).toordinal() % TURNS))


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--in-turn"):
        return None
    return f"{TURN}={os.environ[TURN]}: of the tests marked in_turn, those of this number run"


def _turn_of(item: pytest.Item) -> int | None:
    """The turn of a test that takes turns, else None.

    Tests of a file that is marked as a whole share one, for what they set up together; else each
    case of a test has its own.
    """
    if item.get_closest_marker("in_turn") is None:
        return None
    file = item.getparent(pytest.Module)
    is_whole = file is not None and any(mark.name == "in_turn" for mark in file.own_markers)
    name = item.nodeid.partition("::")[0] if is_whole else item.nodeid
    return zlib.crc32(name.encode()) % TURNS


def _leave_out_of_turn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests whose turn it isn't."""
    turns = {str(number): number for number in range(TURNS)}
    if os.environ[TURN] not in turns:
        known = ", ".join(turns)
        raise pytest.UsageError(f"{TURN}: a turn is one of {known}, got {os.environ[TURN]!r}")
    today, kept, left_out = turns[os.environ[TURN]], [], []
    for item in items:
        (kept if _turn_of(item) in (None, today) else left_out).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start a process; the longest files first.

    Whichever of the processes of `make test` is free takes the next file.
    """
    if config.getoption("--in-turn"):
        _leave_out_of_turn(config, items)
    known = json.loads(DURATIONS.read_text(encoding="utf-8"))
    seconds: Counter[Path] = Counter()
    for item in items:
        if starts_process(item):
            item.add_marker(pytest.mark.process)
            seconds[item.path] += OF_A_PROCESS
    seconds |= {Path(__file__).parent / name: item for name, item in known.items()}
    items.sort(key=lambda item: -seconds[item.path])


took: Counter[str] = Counter()  # file below tests -> seconds


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    took[report.nodeid.partition("::")[0].removeprefix("tests/")] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    is_worker = hasattr(session.config, "workerinput")
    if session.config.getoption("--store-durations") and not is_worker:
        known = json.loads(DURATIONS.read_text(encoding="utf-8"))
        known |= {name: round(seconds) for name, seconds in took.items() if seconds >= 1}
        there = {name: item for name, item in known.items() if (DURATIONS.parent / name).exists()}
        ordered = dict(sorted(there.items(), key=lambda item: (-item[1], item[0])))
        DURATIONS.write_text(json.dumps(ordered, indent=4) + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def folders_of_dbt_stay() -> Iterator[None]:
    """No test leaves dbt's folders set for those behind it."""
    before = {name: os.environ.get(name) for name in OWN_FOLDERS}
    yield
    assert {name: os.environ.get(name) for name in OWN_FOLDERS} == before


@pytest.fixture(scope="session")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., DbtProject]:
    """Maker of small dbt projects, each with a warehouse of its own.

    make_project({"models/a.sql": "select 1 as id"}) has the repository's profile and no macro but
    the adapter's own. All projects share the process's one Spark.
    """
    numbers = itertools.count(1)
    compiles = compiles_all()

    def make(files: dict[str, str], **env: str) -> DbtProject:
        root = tmp_path_factory.mktemp(f"small_project{next(numbers)}", numbered=False)
        shutil.copy(REPO / "jars.lock", root)
        options: dict[str, Any] = {"profiles": copied_profiles(root, compiles)}
        project = DbtProject(root, root / "warehouse", compiles=compiles, **options, **env)
        project.write({"dbt_project.yml": PROJECT_FILE} | files)
        return project

    return make


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in UTC with ANSI on: what the project's own sessions are set to.

    A process has one Spark, for the tests of the whole project too: this is a session of it.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    if SparkContext._active_spark_context is None:
        # as the project starts it, with its jars: tests that need them may come later
        project = DbtProject(REPO, tmp_path_factory.mktemp("spark") / "warehouse")
        project.query("select 1")
    session = SparkSession(SparkContext._active_spark_context).newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    yield session
