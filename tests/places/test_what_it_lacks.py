"""A Spark outside of the process that lacks something: one sentence names it, and nothing hangs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest
from dbt.adapters.sparksession.executors import (
    PlaceError,
    address,
    check_place,
    check_version,
    python_problem,
)

from benchmarks.common import free_ports
from benchmarks.spark_servers import Cluster, can_isolate, connect_server, standalone
from tests.support.dbt_project import DbtProject

TABLE = "{{ config(materialized='table') }} select 1 as id"
MODELS = {"models/a.sql": "select 1 as id"}


def refused(project: DbtProject, **env: str) -> str:
    """Why a build reports that Spark can't be used; it must end soon and without a stack."""
    begun = time.monotonic()
    done = project.subprocess("run", env=env)
    seconds = time.monotonic() - begun
    assert done.returncode != 0, done.stdout
    assert seconds < 75, seconds
    assert "Traceback" not in done.stdout and "\tat " not in done.stdout
    assert "java." not in done.stdout, done.stdout
    return done.stdout


# ---- without a server -----------------------------------------------------------------------


def test_an_address_has_a_host_and_a_port() -> None:
    assert address("sc://spark", 15002) == ("spark", 15002)
    assert address("spark://a:7078", 7077) == ("a", 7078)
    assert address("sc://[::1]:15003/;token=a:b", 15002) == ("::1", 15003)


@pytest.mark.parametrize(
    ("place", "master", "remote", "expected"),
    [
        ("cloud", "local[*]", None, "runs_on of the profile must be one of"),
        ("connect", "local[*]", None, "set SPARK_REMOTE=sc://host:15002"),
        ("cluster", "local[*]", None, "set SPARK_MASTER=spark://host:7077"),
        ("cluster", "", None, "set SPARK_MASTER=spark://host:7077"),
    ],
)
def test_a_place_that_is_not_set_is_named(
    place: str, master: str, remote: str | None, expected: str
) -> None:
    with pytest.raises(PlaceError, match=expected):
        check_place(place, master, remote)


def test_a_place_that_does_not_answer_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(PlaceError, match=f"No Spark Connect server answers at 127.0.0.1:{port}"):
        check_place("connect", "local[*]", f"sc://127.0.0.1:{port}/;token=a")
    with pytest.raises(PlaceError, match=f"No Spark master answers at 127.0.0.1:{port}"):
        check_place("cluster", f"spark://127.0.0.1:{port}", None)
    check_place("local", "local[*]", None)
    check_place("local", "yarn", None)


def test_a_server_of_another_spark_is_named() -> None:
    check_version("4.1.9", "4.1.4")
    with pytest.raises(PlaceError, match=r"runs Spark 4\.0\.1, and this project pyspark 4\.1\.4"):
        check_version("4.0.1", "4.1.4")


def test_a_python_that_differs_is_named() -> None:
    found = python_problem(
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
        "driver: 3.11, PySpark cannot run with different minor versions."
    )
    assert found is not None and found.startswith(
        "The executors' Python is 3.9, this process has 3."
    )
    assert python_problem("Division by zero") is None


# ---- a standalone cluster -------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.mark.soak
def test_without_a_worker_the_run_reports_that_no_executor_came(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> None:
    project = make_project(MODELS)
    with standalone(tmp_path, workers=0) as cluster:
        refusal = refused(project, **cluster.env, SPARK_EXECUTORS_WITHIN="3")
    assert f"No executor has come within 3 s from {cluster.master} (memory 800m)" in refusal
    assert "SPARK_DRIVER_HOST" in refusal


@pytest.mark.in_turn
def test_workers_without_the_driver_s_python_are_named(
    make_project: Callable[..., DbtProject], cluster: Cluster
) -> None:
    refusal = refused(make_project(MODELS), **cluster.env, PYSPARK_PYTHON="/nowhere/python")
    assert "The executors have no Python at /nowhere/python: set PYSPARK_PYTHON" in refusal


@pytest.mark.soak
@pytest.mark.parametrize("module", ["pyarrow", "numpy"])
def test_workers_without_a_module_are_named(
    make_project: Callable[..., DbtProject], cluster: Cluster, tmp_path: Path, module: str
) -> None:
    beside = tmp_path / "beside"  # what is installed beside the interpreter, without the module
    beside.mkdir()
    for installed in Path(pyarrow.__file__).parents[1].iterdir():
        if not installed.name.startswith(module):
            (beside / installed.name).symlink_to(installed)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{beside}:$PYTHONPATH"\n'
        f'exec "{os.path.realpath(sys.executable)}" -S "$@"\n'
    )
    python.chmod(0o755)
    refusal = refused(make_project(MODELS), **cluster.env, PYSPARK_PYTHON=str(python))
    assert f"The executors' Python lacks the module {module}: set PYSPARK_PYTHON" in refusal


@pytest.mark.soak
def test_a_run_on_a_cluster_builds_its_tables(
    make_project: Callable[..., DbtProject], cluster: Cluster
) -> None:
    project = make_project({"models/a.sql": TABLE})
    done = project.subprocess("run", env=cluster.env)
    assert done.returncode == 0, done.stdout
    assert project.query("select * from dw.a") == [{"id": 1}]


@pytest.mark.soak
@pytest.mark.skipif(not can_isolate(), reason="this user may not make namespaces")
def test_a_worker_of_another_host_that_lacks_the_landing_is_named(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> None:
    """Its network and its file system are its own: it sees the warehouse and not the landing."""
    landing = tmp_path / "landing"
    (landing / "topics").mkdir(parents=True)
    project = make_project({"models/a.sql": TABLE}, landing=landing)
    with standalone(tmp_path / "far", another_host=True, hidden=[landing]) as cluster:
        refusal = refused(project, **cluster.env)
        assert f"doesn't see {landing} as this process does" in refusal
        (landing / "topics").rmdir()  # nothing there to be seen
        done = project.subprocess("run", env=cluster.env)
        assert done.returncode == 0, done.stdout
    assert project.query("select * from dw.a") == [{"id": 1}]


# ---- a Spark Connect server -----------------------------------------------------------------


@pytest.mark.soak
def test_a_server_without_the_jars_is_named(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> None:
    project = make_project(MODELS)
    with connect_server(tmp_path, with_jars=False, with_extensions=False) as remote:
        refusal = refused(project, DBT_TARGET="connect", SPARK_REMOTE=remote)
    # jars alone don't do without the extensions, nor the extensions without jars
    assert (
        "was started without Iceberg's SQL extensions: start it with --packages org.ap" in refusal
    )


@pytest.mark.soak
def test_a_run_on_a_server_builds_its_tables(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> None:
    project = make_project({"models/a.sql": TABLE})
    with connect_server(tmp_path) as remote:
        done = project.subprocess("run", env={"DBT_TARGET": "connect", "SPARK_REMOTE": remote})
    assert done.returncode == 0, done.stdout
    assert project.query("select * from dw.a") == [{"id": 1}]
