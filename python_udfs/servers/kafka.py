"""Kafka's broker: which offsets its topics have, and bounded reads of them.

Offsets are never kept by a consumer group.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.secrets import redacted

from python_udfs.servers.java import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIONS = "KAFKA_OPTIONS"  # environment variable with the clients' options, as JSON
TIMEOUT_MS = 30_000  # how long the broker may take to answer
MESSAGES_A_TASK = 100_000  # at some 500 bytes each as much as a task reads of files
COMMITTED = "read_committed"
SECRET = re.compile(r"jaas|password|secret|token|keystore\.key|certificate", re.IGNORECASE)


@dataclass(frozen=True)
class KafkaSource:
    """Where messages come from.

    Attributes:
        servers: host:port, comma separated.
        topics: names, comma separated; or ~ and a regular expression that whole names fit.
        accept_gap: go on behind messages that the broker no longer has.
        options: settings of Kafka's clients, name -> text; they may hold secrets.
    """

    servers: str
    topics: str
    accept_gap: bool = False
    options: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def client_options(self) -> dict[str, str]:
        """Of all clients. What a transaction took back isn't read."""
        timeout = self.options.get("default.api.timeout.ms")
        return {
            "isolation.level": COMMITTED,
            # a client refuses one call that may take longer than all that it makes
            **({"request.timeout.ms": timeout} if timeout else {}),
            **self.options,
            "bootstrap.servers": self.servers,
        }


@dataclass(frozen=True)
class BrokerTopic:
    """The broker's description of a topic.

    Attributes:
        topic_id: another id for each topic that ever had the name; "" before Kafka 2.8.
        offsets: partition -> (first offset that is kept, offset behind the last message).
        cleanup: its cleanup.policy; None where it wasn't asked for or the broker doesn't show it.
    """

    topic_id: str
    offsets: dict[int, tuple[int, int]]
    cleanup: str | None = None


@dataclass(frozen=True)
class OffsetRange:
    """Offsets `first` to `last` of a topic's partition, both included."""

    topic: str
    partition: int
    first: int
    last: int


def broker_topics(
    session: SparkSession, source: KafkaSource, with_cleanup: bool = False
) -> dict[str, BrokerTopic]:
    """Topic -> what the broker has of it now, of all topics of the source.

    Args:
        with_cleanup: whether their cleanup.policy is asked too.

    Raises:
        ConnectionError: the broker doesn't answer, or refuses.
        ValueError: a named topic doesn't exist, or none fits the pattern.
        RuntimeError: the session can't ask: it runs elsewhere or has no Kafka jars.
    """
    if not hasattr(session, "_jsparkSession"):
        raise RuntimeError(
            "Kafka is read by a Spark inside this process, and this session is a remote one. "
            "Unset SPARK_REMOTE, or land the messages as files and unset KAFKA_SERVERS."
        )
    jvm = jvm_of(session)
    kafka = jvm.org.apache.kafka
    if not callable(getattr(kafka.clients.admin.Admin, "create", None)):
        raise RuntimeError(
            "Spark was started without Kafka's jars. Set KAFKA_SERVERS before dbt starts, and see "
            "`extra_jars` in profiles.yml (KAFKA_JARS)."
        )
    options = source.client_options
    timeout = int(options.setdefault("default.api.timeout.ms", str(TIMEOUT_MS)))
    options.setdefault("request.timeout.ms", str(timeout))
    config = jvm.java.util.HashMap()
    for name, value in options.items():
        config[name] = value
    level = "READ_COMMITTED" if options["isolation.level"] == COMMITTED else "READ_UNCOMMITTED"
    admin = None
    try:
        admin = kafka.clients.admin.Admin.create(config)

        def answer(future: Any) -> Any:
            return future.get(timeout, jvm.java.util.concurrent.TimeUnit.MILLISECONDS)

        names = _fitting(source, set(answer(admin.listTopics().names())))
        java_names = jvm.java.util.ArrayList()
        java_names.extend(names)
        described = answer(admin.describeTopics(java_names).allTopicNames())
        places = {
            (name, partition.partition()): kafka.common.TopicPartition(name, partition.partition())
            for name in names
            for partition in described[name].partitions()
        }
        isolation = getattr(kafka.common.IsolationLevel, level)
        ends = []
        for spec in (
            kafka.clients.admin.OffsetSpec.earliest,
            kafka.clients.admin.OffsetSpec.latest,
        ):
            asked = jvm.java.util.HashMap()
            for place in places.values():
                asked[place] = spec()
            listing = admin.listOffsets(asked, kafka.clients.admin.ListOffsetsOptions(isolation))
            found = answer(listing.all())
            ends.append({key: found[place].offset() for key, place in places.items()})
        policies = _cleanup_policies(jvm, admin, names, answer) if with_cleanup else {}
    except Exception as exc:
        if not hasattr(exc, "java_exception"):
            raise
        raise ConnectionError(
            f"Kafka at {source.servers} did not answer with its offsets within "
            f"{timeout / 1000:g} s: {reason_of(exc.java_exception, options)}. "
            f"Check KAFKA_SERVERS, and in {OPTIONS} what the broker asks "
            "for (security.protocol, sasl.*, ssl.*)."
        ) from None
    finally:
        if admin is not None:
            admin.close(jvm.java.time.Duration.ZERO)
    zero = kafka.common.Uuid.ZERO_UUID.toString()
    topics = {}
    for name in names:
        topic_id = described[name].topicId().toString()
        offsets = {key[1]: (ends[0][key], ends[1][key]) for key in places if key[0] == name}
        cleanup = policies.get(name)
        topics[name] = BrokerTopic("" if topic_id == zero else topic_id, offsets, cleanup)
    return topics


def _cleanup_policies(
    jvm: Any, admin: Any, names: list[str], answer: Callable[[Any], Any]
) -> dict[str, str]:
    """Topic -> cleanup.policy, as "delete" or "compact,delete"; {} where the broker shows no
    settings, for which a user needs a right of its own (DescribeConfigs)."""
    config = jvm.org.apache.kafka.common.config
    kind = getattr(config, "ConfigResource$Type").TOPIC
    resources = {name: config.ConfigResource(kind, name) for name in names}
    asked = jvm.java.util.ArrayList()
    asked.extend(list(resources.values()))
    try:
        found = answer(admin.describeConfigs(asked).all())
        return {
            name: found[topic].get("cleanup.policy").value() for name, topic in resources.items()
        }
    except Exception as exc:
        if not hasattr(exc, "java_exception"):
            raise
        return {}


def _fitting(source: KafkaSource, there: set[str]) -> list[str]:
    """The source's topics among those that are there, sorted."""
    some = ", ".join(sorted(there)[:20]) or "none"
    if source.topics.startswith("~"):
        pattern = source.topics[1:].strip()
        try:
            fitting = sorted(name for name in there if re.fullmatch(pattern, name))
        except re.error as exc:
            raise ValueError(
                f"KAFKA_TOPICS: {pattern} is no regular expression ({exc}). Example: ~maxwell.*"
            ) from None
        if not fitting:
            raise ValueError(
                f"No topic of {source.servers} fits KAFKA_TOPICS {source.topics}; it has: {some}."
            )
        return fitting
    names = {part.strip() for part in source.topics.split(",") if part.strip()}
    if names - there:
        raise ValueError(
            f"KAFKA_TOPICS names {', '.join(sorted(names - there))}, which {source.servers} "
            f"doesn't have; it has: {some}. (A pattern begins with ~.)"
        )
    return sorted(names)


def reason_of(error: Any, options: dict[str, str]) -> str:
    """The innermost cause of a Java error in its own words, without any part of a secret."""
    while error.getCause() is not None:
        error = error.getCause()
    text = error.getMessage() or "no answer"
    for name, value in options.items():
        parts = re.split(r"[\s=\"';]+", value) if SECRET.search(name) else []
        for part in sorted(filter(None, parts), key=len, reverse=True):
            text = text.replace(part, "***")
    return redacted(f"{error.getClass().getSimpleName()}: {text}".rstrip("."))


def read_ranges(session: SparkSession, source: KafkaSource, ranges: list[OffsetRange]) -> DataFrame:
    """One row a message of `ranges`, in Spark's columns of a Kafka message and run_offset.

    run_offset is the first offset of the range. The read fails if the broker has lost messages
    of a range by then.

    Args:
        ranges: at least one.
    """
    by_partition: dict[tuple[str, int], list[OffsetRange]] = {}
    for wanted in ranges:
        by_partition.setdefault((wanted.topic, wanted.partition), []).append(wanted)
    # Spark reads one range of a partition at a time; there are more only where files left holes
    frames = [
        _read(session, source, [wanted for wanted in some if wanted is not None])
        for some in zip_longest(*by_partition.values())
    ]
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together


def _read(session: SparkSession, source: KafkaSource, ranges: list[OffsetRange]) -> DataFrame:
    """`read_ranges` of at most one range of a partition."""
    from pyspark.sql import functions as F

    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for offsets in ranges:
        partitions.setdefault(offsets.topic, []).append(offsets.partition)
        starts.setdefault(offsets.topic, {})[str(offsets.partition)] = offsets.first
        ends.setdefault(offsets.topic, {})[str(offsets.partition)] = offsets.last + 1
    messages = (
        session.read.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in source.client_options.items()})
        .option("assign", json.dumps(partitions))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "true")
        .option("maxRecordsPerPartition", str(MESSAGES_A_TASK))
        .load()
    )
    runs = session.createDataFrame(
        [(offsets.topic, offsets.partition, offsets.first) for offsets in ranges],
        "topic string, partition int, run_offset bigint",
    )
    return messages.join(F.broadcast(runs), ["topic", "partition"])
