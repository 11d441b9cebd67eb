"""One small Spark for the tests of landing and deserialization."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.dbt_project import REPO, DbtProject

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
}


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
