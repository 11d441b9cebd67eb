"""Servers that versions are published to, and a child process whose Spark has their jars."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.child import Child, ChildProject, child_process
from tests.support.dbt_project import DbtProject
from tests.support.kafka_broker import KafkaBroker, running_broker
from tests.support.mysql_server import (
    MariadbServer,
    MysqlServer,
    mariadb_folder,
    mysql_client,
    mysql_folder,
)
from tests.support.postgres_server import PostgresServer, postgres_folder
from tests.support.published import files

if TYPE_CHECKING:
    from tests.support.transactional import Serving

pytest.register_assert_rewrite("tests.support.transactional")


@pytest.fixture(scope="session", params=["mysql", pytest.param("mariadb", marks=pytest.mark.live)])
def mysql(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MysqlServer]:
    """A server of either make."""
    kinds: dict[str, tuple[Callable[..., MysqlServer], Path | None]] = {
        "mysql": (MysqlServer, mysql_folder()),
        "mariadb": (MariadbServer, mariadb_folder()),
    }
    make, folder = kinds[request.param]
    client = mysql_client()
    if not (folder and client):
        pytest.skip(
            f"no {request.param} server, or CDC_LAB names no folder with mysql-connector/lib"
        )
    started = make(tmp_path_factory.mktemp(request.param), folder, client)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    yield from running_broker(tmp_path_factory)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with child_process() as server:
        yield server


@pytest.fixture
def project(
    make_project: Callable[..., DbtProject], child: Child, serving: Serving
) -> ChildProject:
    """A project that publishes to the module's `serving`."""
    made = make_project(files("serving", serving.kind), **serving.env)
    error = child.start(made)
    assert not error, error
    return ChildProject(made, child)


@pytest.fixture(scope="module")
def postgres(
    make_project: Callable[..., DbtProject], child: Child, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PostgresServer]:
    """A server; the tests' own connections use the driver that the child's Spark has."""
    programs = postgres_folder()
    if programs is None:
        pytest.skip("no PostgreSQL server: neither initdb on the PATH nor Debian's packages")
    any_project = make_project({}, publish_targets="serving=postgres")
    error = child.start(any_project)
    if error and "POSTGRES_JARS" not in os.environ:
        pytest.skip(
            f"PostgreSQL's driver could not be had; POSTGRES_JARS may name it. {error[:300]}"
        )
    assert not error
    driver = child.class_path(any_project)
    started = PostgresServer(programs, tmp_path_factory.mktemp("postgres"), driver)
    yield started
    started.stop()
