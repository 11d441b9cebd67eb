"""Servers that versions are published to, and a child process whose Spark has their jars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.child import Child, child_process
from tests.support.kafka_broker import KafkaBroker, running_broker
from tests.support.mysql_server import (
    MariadbServer,
    MysqlServer,
    mariadb_folder,
    mysql_client,
    mysql_folder,
)


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
    with child_process() as one:
        yield one
