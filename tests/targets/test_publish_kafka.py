"""Versions in Kafka: a consumer rebuilds each table, whatever is killed when."""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.child import Child, ChildProject
from tests.support.dbt_project import DbtProject
from tests.support.kafka_broker import KafkaBroker
from tests.support.published import (
    KILLS,
    SEED,
    Source,
    build_without_publishing,
    expected,
    files,
    kill,
    publishing,
    stop_publication,
    tables,
)

VERSIONS = "published_version"
numbers = itertools.count(1)
Rows = dict[bytes, tuple]


class Stream:
    """The topics that a project publishes to."""

    def __init__(self, broker: KafkaBroker, project: ChildProject) -> None:
        self.broker, self.project = broker, project

    def versions(self) -> dict[str, dict]:
        """Topic -> its newest record."""
        return {
            (key or b"").decode(): json.loads(value or b"{}")
            for _, _, (key, value), _ in self.broker.read(VERSIONS, 1)
        }

    def rows(self) -> dict[str, list[tuple]]:
        """Topic -> the rows that a consumer of the newest version has."""
        reported = self.versions()
        return {topic: sorted(self.upserted(topic, reported[topic]).values()) for topic in tables()}

    def upserted(self, topic: str, expected: dict) -> Rows:
        found: Rows = {}
        for partition, offset, (key, value), _ in self.broker.read(topic, len(expected["ends"])):
            if offset >= expected["ends"][str(partition)]:
                continue
            found.pop(key or b"", None)
            if value is not None:
                found[key or b""] = row_of(json.loads(value, parse_float=str, parse_int=str), value)
        return found


def row_of(texts: dict, value: bytes, *path: str) -> tuple:
    """A row of JSON as `expected` gives those of the warehouse."""
    plain = json.loads(value)
    for key in path:
        texts, plain = texts[key], plain[key]
    found = []
    for name, text in texts.items():
        if isinstance(text, list | dict):
            text = json.dumps(plain[name], ensure_ascii=False, separators=(",", ":"))
        if isinstance(text, bool):
            text = int(text)
        if name == "bytes" and text is not None:
            text = base64.b64decode(text).hex()
        found.append((name, "null" if text is None else f"={text}"))
    return tuple(found)


@pytest.fixture
def make(
    make_project: Callable[..., DbtProject], child: Child, broker: KafkaBroker
) -> Callable[..., ChildProject]:
    def made(**publish: str) -> ChildProject:
        env = {
            "publish_targets": "stream=kafka",
            "publish_stream_url": broker.servers,
            "publish_stream_partitions": "2",
        }
        project = make_project(files("stream", "kafka", mode="upsert") | publish, **env)
        error = child.start(project)
        if error and "KAFKA_JARS" not in os.environ:
            pytest.skip(f"Kafka's jars could not be had; KAFKA_JARS may name them. {error[:300]}")
        assert not error
        return ChildProject(project, child)

    return made


@pytest.fixture(autouse=True)
def no_topics(broker: KafkaBroker) -> None:
    for topic in [*tables(), VERSIONS]:
        if topic in list(broker._admin.listTopics().names().get()):
            broker.delete(topic)


def test_a_consumer_rebuilds_the_tables(
    make: Callable[..., ChildProject], broker: KafkaBroker
) -> None:
    print(f"PUBLISH_SEED={SEED}")
    project = make()
    stream, source = Stream(broker, project), Source(project, SEED)
    source.change(30)
    assert "Target stream holds version 1." in project.run("build").log
    assert stream.rows() == expected(project)
    source.change(6, entries=3)
    assert "entries: 3 rows written, 0 removed\n" in project.run("build").log
    assert stream.rows() == expected(project)
    # a topic that somebody deleted and made again, empty, holds no version
    broker.delete("entries")
    broker.create("entries", config={"cleanup.policy": "compact"})
    project.run("run-operation", "publish_to")
    assert stream.rows() == expected(project)
    # topics that the record of versions doesn't know may be another's: they are left alone
    broker.delete(VERSIONS)
    source.change(10)
    partitions = {topic: 1 if topic == "entries" else 2 for topic in tables()}
    before = {topic: broker.ends(topic, number) for topic, number in partitions.items()}
    refused = project.run("build", expect_ok=False).log
    assert "it has messages, and published_version doesn't know it" in refused
    assert {topic: broker.ends(topic, number) for topic, number in partitions.items()} == before
    for topic in tables():
        broker.delete(topic)
    assert "compared as a whole" in project.run("run-operation", "publish_to").log
    assert stream.rows() == expected(project)


@pytest.mark.live
def test_a_publication_that_is_killed_and_run_again_leaves_each_row_once(
    make: Callable[..., ChildProject], broker: KafkaBroker
) -> None:
    print(f"PUBLISH_SEED={SEED}")
    pick = random.Random(SEED)
    project = make()
    stream, source = Stream(broker, project), Source(project, SEED)
    source.change(30)
    project.run("build")
    for number in range(KILLS):
        before = stream.rows()
        source.change(150)
        build_without_publishing(project)
        here = sum(sum(broker.ends(topic, 2)) for topic in tables())
        run, wanted = publishing(project.inner), here + pick.choice([1, 60, 140])
        while run.poll() is None:
            time.sleep(0.05)
            if sum(sum(broker.ends(topic, 2)) for topic in tables()) >= wanted:
                break
        kill(run)
        # each topic is of one version: the version before, or this one
        now, half = expected(project), stream.rows()
        assert all(half[topic] in (before[topic], now[topic]) for topic in half)
        if number % 2 == 0:  # rows come back to what they were meanwhile, in another version
            source.change(20)
            build_without_publishing(project)
        project.run("run-operation", "publish_to")
        assert stream.rows() == expected(project)
        reported = stream.versions()
        assert len({row["version"] for row in reported.values()}) == 1
        # who reads all that there is has it too
        for topic in tables():
            everything = {str(n): end for n, end in enumerate(broker.ends(topic, 2))}
            assert everything == reported[topic]["ends"]


@pytest.mark.live
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_publication_that_is_stopped_leaves_topics_of_the_old_version_or_the_new_version(
    make: Callable[..., ChildProject], broker: KafkaBroker, tmp_path: Path, sign: signal.Signals
) -> None:
    print(f"PUBLISH_SEED={SEED}")
    project = make()
    stream, source = Stream(broker, project), Source(project, SEED)
    source.change(30)
    project.run("build")
    before = stream.rows()
    source.change(400)
    build_without_publishing(project)
    here = sum(sum(broker.ends(topic, 2)) for topic in tables())
    log = tmp_path / "stopped.log"
    with log.open("wb") as printed:
        run = publishing(project.inner, printed=printed)
    while run.poll() is None and sum(sum(broker.ends(name, 2)) for name in tables()) == here:
        time.sleep(0.02)
    assert run.poll() is None, log.read_text()

    text = stop_publication(run, log, sign)

    assert project.query("select run_id from dw.meta_lease") == [{"run_id": None}], text
    now, half = expected(project), stream.rows()
    assert all(half[topic] in (before[topic], now[topic]) for topic in half), text
    assert "took over" not in project.run("run-operation", "publish_to").log
    assert stream.rows() == now


@pytest.mark.live
def test_an_append_stream_is_distinguished_by_version_and_key(
    make: Callable[..., ChildProject], broker: KafkaBroker
) -> None:
    project = make(**files("stream", "kafka", mode="append"))
    source = Source(project, SEED)
    source.change(20)
    project.run("build")
    source.change(150)
    build_without_publishing(project)
    run = publishing(project.inner)
    while run.poll() is None:
        time.sleep(0.05)
        if sum(broker.ends("facts_now", 2)) > 20:
            break
    kill(run)
    project.run("run-operation", "publish_to")

    for topic, rows in expected(project).items():
        seen: set[tuple] = set()
        held: Rows = {}
        for _, _, (key, value), headers in broker.read(topic, 2):
            message = json.loads(value or b"", parse_float=str, parse_int=str)
            assert headers["version"].decode() == message["version"]
            assert headers["row_kind"].decode() == message["row_kind"]
            if (message["version"], key) in seen:
                continue
            seen.add((message["version"], key))
            held.pop(key or b"", None)
            if message["row_kind"] == "+U":
                held[key or b""] = row_of(message, value or b"", "row")
        assert sorted(held.values()) == rows


def test_a_cluster_that_is_down_and_topics_of_another_kind_are_named(
    make: Callable[..., ChildProject], broker: KafkaBroker
) -> None:
    project = make()
    source = Source(project, SEED)
    source.change(4)
    broker.create("total")  # its messages go after some days
    failed = project.run("build", expect_ok=False).log
    assert "Published as version 1" in failed
    problem = (
        "Target stream: topic total differs from the model: its cleanup.policy is delete, not "
        "compact (publish to another topic, or delete it and publish again); version 1 is not "
        "published there."
    )
    assert problem in " ".join(failed.split())
    broker.delete("total")
    project.inner.env["PUBLISH_STREAM_URL"] = "127.0.0.1:1"
    down = project.run("run-operation", "publish_to", expect_ok=False).log
    assert "Target stream: Kafka at 127.0.0.1:1 " in down
    project.inner.env["PUBLISH_STREAM_URL"] = broker.servers
    project.run("run-operation", "publish_to")
    assert Stream(broker, project).rows() == expected(project)


def test_a_topic_whose_number_of_partitions_was_raised_is_refused(
    make: Callable[..., ChildProject], broker: KafkaBroker
) -> None:
    """A key's next message would come to another partition than its earlier messages."""
    project = make()
    source = Source(project, SEED)
    source.change(4)
    project.run("build")
    broker.add_partitions("total", 3)
    source.change(4)
    failed = project.run("build", expect_ok=False).log
    assert (
        "Target stream: topic total differs from the model: it had 2 partitions when it was "
        "published, has 3: of a key's messages in two of them the newest is unknown (publish to "
        "another topic, or delete it and publish again)"
    ) in " ".join(failed.split())
    broker.delete("total")
    project.run("run-operation", "publish_to")
    assert Stream(broker, project).rows() == expected(project)
