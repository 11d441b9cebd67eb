"""One JVM for many processes of tests, one after the other.

As a module it starts the JVM and prints how it is reached; it ends with its standard input. As a
plugin of pytest (`-p tests.mutants.warm`) it lets the tests of a process use that JVM, which
MUTANT_JVM names, each process with a Spark application of its own. Processes that these tests
start have JVMs of their own. MUTANT_TESTS names a file with the ids of the tests that run, in
their order.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

OTHER_ADAPTER = 99  # exit code: the tests have run with the code of another folder


def serve() -> None:
    """Start Spark as the tests do, end the application, keep the JVM until nobody needs it."""
    from pyspark import SparkContext

    from tests.support.dbt_project import REPO, DbtProject

    # temporary folders that the JVM chose at its start have to stay as long as it does
    with tempfile.TemporaryDirectory() as folder:
        DbtProject(REPO, Path(folder) / "warehouse").query("select 1")
        context: Any = SparkContext._active_spark_context
        parameters = context._gateway.gateway_parameters
        context.stop()
        print(json.dumps([parameters.port, parameters.auth_token]), flush=True)
        sys.stdin.read()


def pytest_configure(config: pytest.Config) -> None:
    from pyspark import java_gateway

    port, secret = json.loads(os.environ.pop("MUTANT_JVM"))
    launch = java_gateway.launch_gateway
    names = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    def connect(*args: Any, **kwargs: Any) -> Any:
        os.environ.update(names)
        try:
            return launch(*args, **kwargs)
        finally:
            for name in names:
                del os.environ[name]

    java_gateway.launch_gateway = connect
    import pyspark.core.context as core

    core.launch_gateway = connect


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "MUTANT_TESTS" not in os.environ:
        return
    wanted = json.loads(Path(os.environ["MUTANT_TESTS"]).read_text(encoding="utf-8"))
    by_id = {item.nodeid: item for item in items}
    items[:] = [by_id[name] for name in wanted if name in by_id]


def pytest_sessionfinish(session: pytest.Session) -> None:
    for name in ("dbt.adapters.sparksession", "python_udfs"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and not Path(file).is_relative_to(Path.cwd()):
            session.exitstatus = OTHER_ADAPTER


def pytest_unconfigure(config: pytest.Config) -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()


if __name__ == "__main__":
    serve()
