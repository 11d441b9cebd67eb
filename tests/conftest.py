"""Fixtures of all tests."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.dbt_project import REPO, DbtProject

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


# files in the order of their time, longest first: whichever of the processes is free takes the next
LONGEST = (
    "e2e/test_sample.py",
    "ingestion/whole_table/test_table_state.py",
    "e2e/test_sources.py",
    "e2e/test_bad_input.py",
    "e2e/test_corrections.py",
    "e2e/test_chain.py",
    "adapter/test_joins.py",
    "targets/test_publish_postgres.py",
    "reliability/test_kills.py",
    "adapter/test_versions.py",
    "e2e/test_accounting.py",
    "e2e/test_reconciliation.py",
    "e2e/test_hostile_corpus.py",
    "e2e/test_hostile_text.py",
    "ingestion/formats/test_hostile_statements.py",
    "reliability/test_one_writer.py",
    "reliability/test_places.py",
    "ingestion/formats/test_mongodb.py",
    "e2e/test_traffic.py",
    "e2e/test_random_histories.py",
    "adapter/test_metrics.py",
    "adapter/test_folded_models.py",
    "adapter/test_zipper_models.py",
    "adapter/test_folded_layout.py",
    "adapter/test_closed_periods.py",
    "adapter/test_folds.py",
    "adapter/test_windows.py",
    "adapter/test_changes.py",
    "adapter/test_threads_and_isolation.py",
    "adapter/test_pinned_inputs.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    places = {folder / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(scope="session")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., DbtProject]:
    """Maker of small dbt projects, each with a warehouse of its own.

    make_project({"models/a.sql": "select 1 as id"}) has the repository's profile and no macro but
    the adapter's own. All projects share the process's one Spark.
    """
    numbers = itertools.count(1)

    def make(files: dict[str, str], **env: str) -> DbtProject:
        root = tmp_path_factory.mktemp(f"project{next(numbers)}", numbered=False)
        shutil.copytree(REPO / "profiles", root / "profiles")
        shutil.copy(REPO / "jars.lock", root)
        project = DbtProject(root, root / "warehouse", profiles=root / "profiles", **env)
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
