"""A Kafka broker, and a process of its own for dbt: its Spark has Kafka's jars, ours has not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.support.child_warehouse import ChildWarehouse, start
from tests.support.dbt_project import event_log
from tests.support.kafka_broker import KafkaBroker, running_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    yield from running_broker(tmp_path_factory)


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
        error = pool.submit(start, tmp_path_factory.mktemp("child"), env).result()
        if error and "KAFKA_JARS" not in os.environ:
            pytest.skip(f"Kafka's jars could not be had; KAFKA_JARS may name them. {error[:300]}")
        assert not error
        yield pool


@pytest.fixture
def warehouse(child: ProcessPoolExecutor, broker: KafkaBroker, tmp_path: Path) -> ChildWarehouse:
    return ChildWarehouse(child, tmp_path, kafka_servers=broker.servers)
