"""A PostgreSQL server: it keeps a catalog, or gets what is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.child import child_process
from tests.support.dbt_project import DbtProject
from tests.support.postgres_server import LOCALHOST, PostgresServer, postgres_folder


@pytest.fixture
def start_postgres(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> Iterator[Callable[..., PostgresServer]]:
    """Starts a server at an address of this machine, LOCALHOST if it is given none."""
    programs = postgres_folder()
    if programs is None:
        pytest.skip("no PostgreSQL server: neither initdb on the PATH nor Debian's packages")
    with child_process() as child:
        any_project = make_project({}, publish_targets="serving=postgres")
        error = child.start(any_project)
        if error:
            pytest.skip(f"PostgreSQL's driver could not be had: {error[:300]}")
        driver = child.class_path(any_project)
    with ExitStack() as servers:

        def started(host: str = LOCALHOST) -> PostgresServer:
            server = PostgresServer(programs, tmp_path, driver, host)
            servers.callback(server.stop)
            return server

        yield started


@pytest.fixture
def postgres(start_postgres: Callable[..., PostgresServer]) -> PostgresServer:
    return start_postgres()
