"""A Kafka broker, and a process of its own for dbt: its Spark has Kafka's jars, ours has not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparksession.session import application

from tests.support.dbt_project import Outcome, event_log
from tests.support.kafka_broker import KafkaBroker, running_broker
from tests.support.warehouse import Warehouse


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    yield from running_broker(tmp_path_factory)


class ChildWarehouse:
    """A Warehouse whose dbt and Spark run in another process.

    Args:
        env: environment variables of each command, named in lower case.
    """

    def __init__(self, child: ProcessPoolExecutor, folder: Path, **env: str) -> None:
        self._child, self.folder, self.env = child, folder, env
        self.here = Warehouse(folder)  # to land files

    def build(self, *args: str, expect_ok: bool = True, **env: str) -> Outcome:
        """Build ods_binlog, with further environment variables."""
        command = ("run", "--select", "ods_binlog", *args)
        return self._child.submit(_run, self.folder, self.env | env, command, expect_ok).result()

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self._child.submit(_query, self.folder, self.env, sql).result()


@pytest.fixture(scope="session")
def event_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the child's Spark logs all that it does."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def child(
    broker: KafkaBroker, event_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProcessPoolExecutor]:
    """A process whose Spark has Kafka's jars: those of KAFKA_JARS, else the profile's own."""
    env = {"kafka_servers": broker.servers, "spark_submit_opts": event_log(event_folder)}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        error = pool.submit(_start, tmp_path_factory.mktemp("child"), env).result()
        if error and "KAFKA_JARS" not in os.environ:
            pytest.skip(f"Kafka's jars could not be had; KAFKA_JARS may name them. {error[:300]}")
        assert not error
        yield pool


@pytest.fixture
def warehouse(child: ProcessPoolExecutor, broker: KafkaBroker, tmp_path: Path) -> ChildWarehouse:
    return ChildWarehouse(child, tmp_path, kafka_servers=broker.servers)


def _warehouse(folder: Path, env: dict[str, str]) -> Warehouse:
    made = Warehouse(folder)
    made.env |= {name.upper(): value for name, value in env.items()}
    return made


def _start(folder: Path, env: dict[str, str]) -> str:
    """Start Spark; the error, or ""."""
    try:
        application(_warehouse(folder, env).credentials())
    except Exception as exc:
        return str(exc)
    return ""


def _run(folder: Path, env: dict[str, str], args: tuple[str, ...], expect_ok: bool) -> Outcome:
    outcome = _warehouse(folder, env).run(*args, expect_ok=expect_ok)
    # what dbt itself returns can't be sent to another process
    return replace(outcome, raw=None, exception=None)


def _query(folder: Path, env: dict[str, str], sql: str) -> list[dict[str, Any]]:
    return _warehouse(folder, env).query(sql)
