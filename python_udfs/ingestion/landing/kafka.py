"""Kafka topics as a source of raw messages, in bounded reads.

A run asks the broker once which offsets it has, reads those that the table doesn't hold, and ends.
The table itself keeps the offsets, never a consumer group. A range that was read counts as held to
its end, though compaction and the markers of transactions leave offsets without a message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.secrets import environment

from python_udfs.ingestion.landing.files import LIVE, offsets_key
from python_udfs.ingestion.landing.offsets import Interval
from python_udfs.servers.kafka import (
    OPTIONS,
    BrokerTopic,
    KafkaSource,
    OffsetRange,
    read_ranges,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def kafka_source(settings: dict[str, Any]) -> KafkaSource | None:
    """The source in a model's meta `kafka` (servers, topics, accept_gap), or None without servers.

    The clients' options come from the environment alone: dbt writes a model's meta into its
    manifest, where a password must not stand.

    Raises:
        ValueError: no topics, or KAFKA_OPTIONS is no JSON object of plain values.
    """
    servers, topics = (
        str(settings.get(setting) or "").strip() for setting in ("servers", "topics")
    )
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


def ranges_to_read(
    topics: dict[str, BrokerTopic],
    held: dict[str, list[Interval]],
    known_ids: dict[str, str],
    accept_gap: bool = False,
    begun: dict[str, int] | None = None,
) -> list[OffsetRange]:
    """The offsets that the broker has and the table doesn't hold, by topic and partition.

    Args:
        topics: as of `broker_topics`.
        held: offsets_key -> merged intervals of the offsets that the table holds.
        known_ids: topic -> topic_id as it was when the topic was last read.
        accept_gap: read on behind messages that the broker has lost, and in recreated topics.
        begun: result of `beginnings` in the run before.

    Raises:
        ValueError: the broker has lost messages behind the held messages, or the first messages of
            a new partition, or a topic was deleted and recreated. One message names all partitions.
    """
    ranges, recreated, gone = [], [], []
    for topic, broker in sorted(topics.items()):
        known = known_ids.get(topic)
        if known and broker.topic_id and known != broker.topic_id and not accept_gap:
            recreated.append(f"{topic} (id {broker.topic_id}, was {known})")
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
                recreated.append(
                    f"{topic} partition {partition} (ends before offset {latest}, "
                    f"held to {following - 1})"
                )
            elif earliest > following and not accept_gap:
                gone.append(f"{topic} partition {partition}: {following} to {earliest - 1}")
            ranges += [
                OffsetRange(topic, partition, first, last)
                for first, last in _unheld(intervals, earliest, latest)
            ]
    if recreated:
        raise ValueError(
            "These Kafka topics are not those that were read before, they were deleted and "
            "recreated: "
            f"{', '.join(recreated)}. Their offsets would be taken for those of messages that the "
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
    """offsets_key -> first offset that was ever read, of all partitions.

    Args:
        begun: result of the run before.
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
    """Warning for topics that are read for the first time and have lost their first messages.

    Args:
        topics, held, begun: as for `ranges_to_read`.

    Returns:
        None without such topics.
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
    """The closed intervals of [first, end) that are not in the merged intervals."""
    for begin, last in [*intervals, (end, end)]:
        if first < min(begin, end):
            yield first, min(begin, end) - 1
        first = max(first, last + 1)


def read_topics(session: SparkSession, source: KafkaSource, ranges: list[OffsetRange]) -> DataFrame:
    """`read_ranges` in the columns of landing.spark.RAW_SCHEMA."""
    from pyspark.sql import functions as F

    return read_ranges(session, source, ranges).select(
        F.lit(LIVE).alias("batch_id"),
        "topic",
        F.col("partition").alias("partition_number"),
        F.col("offset").alias("message_offset"),
        "run_offset",
        F.col("key").alias("message_key"),
        F.col("value").alias("payload"),
        F.lit(None).cast("string").alias("cut_reason"),
    )
