"""Kafka topics as a source of raw messages, in bounded reads.

A run asks the broker once which offsets it has, reads of them what the table doesn't hold, and
ends. Offsets are kept by the table itself, never by a consumer group. What a range was asked for
is held to its end, though compaction and the markers of transactions leave offsets without a
message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.secrets import environment, redacted

from python_udfs.ingestion.landing.files import LIVE, offsets_key
from python_udfs.ingestion.landing.offsets import Interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIONS = "KAFKA_OPTIONS"
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
    """What the broker says of one topic.

    Attributes:
        topic_id: another one for each topic that ever had the name; "" before Kafka 2.8.
        offsets: partition -> (first offset that is kept, offset behind the last one).
    """

    topic_id: str
    offsets: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class OffsetRange:
    """Offsets `first` to `last` of a topic's partition, both included."""

    topic: str
    partition: int
    first: int
    last: int

    @property
    def key(self) -> str:
        """What the offsets that a table holds are kept by."""
        return offsets_key(LIVE, self.topic, self.partition)


def kafka_source(settings: dict[str, Any]) -> KafkaSource | None:
    """The source that a model's meta `kafka` (servers, topics, accept_gap) names; None without
    servers.

    The clients' options come from the environment alone: dbt writes a model's meta into its
    manifest, where a password must not stand.

    Raises:
        ValueError: no topics, or KAFKA_OPTIONS is no JSON object of plain values.
    """
    servers, topics = (str(settings.get(one) or "").strip() for one in ("servers", "topics"))
    if not servers:
        return None
    if not topics.strip("~, "):
        raise ValueError(
            f"KAFKA_SERVERS names {servers}, but KAFKA_TOPICS names no topic. Set it to names, "
            "comma separated, or to ~ and a regular expression: ~maxwell.*"
        )
    try:
        options = json.loads(environment(OPTIONS) or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict) or any(
        not isinstance(value, str | int | float) for value in options.values()
    ):  # without its text: it may hold a password
        raise ValueError(
            f'{OPTIONS} must be a JSON object of texts and numbers: {{"security.protocol": "SSL"}}'
        )
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
    return KafkaSource(servers, topics, settings.get("accept_gap") is True, texts)


def broker_topics(session: SparkSession, source: KafkaSource) -> dict[str, BrokerTopic]:
    """Topic -> what the broker has of it now, of all topics of the source.

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
    jvm = session._jvm
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
            (name, one.partition()): kafka.common.TopicPartition(name, one.partition())
            for name in names
            for one in described[name].partitions()
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
    except Exception as exc:
        if not hasattr(exc, "java_exception"):
            raise
        raise ConnectionError(
            f"Kafka at {source.servers} did not tell its offsets within {timeout / 1000:g} s: "
            f"{reason_of(exc.java_exception, options)}. Check KAFKA_SERVERS, and in {OPTIONS} "
            "what the broker asks for (security.protocol, sasl.*, ssl.*)."
        ) from None
    finally:
        if admin is not None:
            admin.close(jvm.java.time.Duration.ZERO)
    zero = kafka.common.Uuid.ZERO_UUID.toString()
    topics = {}
    for name in names:
        topic_id = described[name].topicId().toString()
        offsets = {key[1]: (ends[0][key], ends[1][key]) for key in places if key[0] == name}
        topics[name] = BrokerTopic("" if topic_id == zero else topic_id, offsets)
    return topics


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
    names = {one.strip() for one in source.topics.split(",") if one.strip()}
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


def ranges_to_read(
    topics: dict[str, BrokerTopic],
    held: dict[str, list[Interval]],
    known_ids: dict[str, str],
    accept_gap: bool = False,
    begun: dict[str, int] | None = None,
) -> list[OffsetRange]:
    """What the broker has and the table doesn't hold, by topic, partition and offset.

    Args:
        topics: as of `broker_topics`.
        held: offsets_key -> merged intervals of the offsets that the table holds.
        known_ids: topic -> topic_id as it was when the topic was last read.
        accept_gap: messages that are gone from the broker, or a topic made anew, are no error.
        begun: of `beginnings`, as it was then.

    Raises:
        ValueError: messages behind the held ones, or the first ones of a new partition, are gone
            from the broker, or a topic isn't the one that was read before. All such partitions in
            one message.
    """
    ranges, anew, gone = [], [], []
    for topic, broker in sorted(topics.items()):
        known = known_ids.get(topic)
        if known and broker.topic_id and known != broker.topic_id and not accept_gap:
            anew.append(f"{topic} (id {broker.topic_id}, was {known})")
            continue
        numbers = {int(key.rpartition("/")[2]) for key in held if key.rpartition("/")[0] == topic}
        old = numbers or any(key.rpartition("/")[0] == topic for key in begun or ())
        for partition in sorted(numbers | broker.offsets.keys()):
            earliest, latest = broker.offsets.get(partition, (0, 0))
            intervals = held.get(offsets_key(LIVE, topic, partition), [])
            # a topic begins where it is first read, a partition that comes later at 0
            begin = (begun or {}).get(offsets_key(LIVE, topic, partition), 0 if old else earliest)
            following = intervals[-1][1] + 1 if intervals else begin
            if latest < following:
                anew.append(
                    f"{topic} partition {partition} (ends before offset {latest}, "
                    f"held to {following - 1})"
                )
            elif earliest > following and not accept_gap:
                gone.append(f"{topic} partition {partition}: {following} to {earliest - 1}")
            ranges += [
                OffsetRange(topic, partition, first, last)
                for first, last in _unheld(intervals, earliest, latest)
            ]
    if anew:
        raise ValueError(
            "These Kafka topics are not the ones that were read before, they were made anew: "
            f"{', '.join(anew)}. Their offsets would be taken for those of messages that the "
            "table holds: send the new messages by a topic of another name. Where a topic has "
            "another id but the same messages, run once with --vars 'kafka_accept_gap: true'."
        )
    if gone:
        raise ValueError(
            "Kafka no longer has these offsets, which were never read (its retention was shorter "
            f"than the time between two runs): {'; '.join(gone)}. Deliver them as landed files in "
            "a run with KAFKA_SERVERS empty, or go on without them: run once with "
            "--vars 'kafka_accept_gap: true'."
        )
    return ranges


def beginnings(
    topics: dict[str, BrokerTopic], begun: dict[str, int], accept_gap: bool = False
) -> dict[str, int]:
    """offsets_key -> the offset that reading of a partition began at, of all partitions.

    Args:
        begun: what this returned in the run before.
    """
    found = {
        offsets_key(LIVE, topic, partition): earliest
        for topic, broker in topics.items()
        for partition, (earliest, _) in broker.offsets.items()
    }
    return begun | found if accept_gap else found | begun


def first_gaps(
    topics: dict[str, BrokerTopic], held: dict[str, list[Interval]], begun: dict[str, int]
) -> str | None:
    """What is to be said of topics that are read for the first time, and whose first messages have
    gone by then; None where there are none.

    Args:
        topics, held, begun: as of `ranges_to_read`.
    """
    known = {key.rpartition("/")[0] for key in [*held, *begun]}
    gone = [
        f"{topic} partition {partition}: 0 to {earliest - 1}"
        for topic, broker in sorted(topics.items())
        for partition, (earliest, _) in sorted(broker.offsets.items())
        if topic not in known and earliest > 0
    ]
    if not gone:
        return None
    return (
        "Read for the first time, and Kafka no longer has these offsets: "
        f"{'; '.join(gone)}. Where tables are older than that, bring a full load of each "
        "(make full-load), or deliver the messages as landed files."
    )


def _unheld(intervals: list[Interval], first: int, end: int) -> Iterable[Interval]:
    """The closed intervals of [first, end) that merged intervals leave out."""
    for begin, last in [*intervals, (end, end)]:
        if first < min(begin, end):
            yield first, min(begin, end) - 1
        first = max(first, last + 1)


def read_topics(session: SparkSession, source: KafkaSource, ranges: list[OffsetRange]) -> DataFrame:
    """One row a message of `ranges`, in the columns of landing.spark.RAW_SCHEMA.

    run_offset is the first offset of the range. The read fails where messages of a range are
    gone from the broker by then.

    Args:
        ranges: at least one.
    """
    by_partition: dict[str, list[OffsetRange]] = {}
    for one in ranges:
        by_partition.setdefault(one.key, []).append(one)
    # Spark reads one range of a partition at a time; there are more only where files left holes
    frames = [
        _read(session, source, [one for one in some if one is not None])
        for some in zip_longest(*by_partition.values())
    ]
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together


def _read(session: SparkSession, source: KafkaSource, ranges: list[OffsetRange]) -> DataFrame:
    """`read_topics` of at most one range of a partition."""
    from pyspark.sql import functions as F

    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for one in ranges:
        partitions.setdefault(one.topic, []).append(one.partition)
        starts.setdefault(one.topic, {})[str(one.partition)] = one.first
        ends.setdefault(one.topic, {})[str(one.partition)] = one.last + 1
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
        [(one.topic, one.partition, one.first) for one in ranges],
        "topic string, partition int, run_offset bigint",
    )
    return messages.join(F.broadcast(runs), ["topic", "partition"]).select(
        F.lit(LIVE).alias("batch_id"),
        "topic",
        F.col("partition").alias("partition_number"),
        F.col("offset").alias("message_offset"),
        "run_offset",
        F.col("key").alias("message_key"),
        F.col("value").alias("payload"),
        F.lit(None).cast("string").alias("cut_reason"),
    )
