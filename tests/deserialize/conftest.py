"""One small Spark for the tests of landing and deserialization: no dbt, no Iceberg."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in UTC with ANSI on: what the project's own sessions are set to.

    A process has one Spark: where other tests started it, this is a session of theirs.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    running = SparkContext._active_spark_context
    if running is None:
        # else workers take whatever python3 is on the PATH
        os.environ["PYSPARK_PYTHON"] = sys.executable
        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            # else each column function looks up its caller for error texts: half the planning time
            .config("spark.python.sql.dataFrameDebugging.enabled", "false")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
    else:
        session = SparkSession(running).newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    yield session
    if running is None:
        session.stop()
