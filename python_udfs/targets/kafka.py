"""A Kafka cluster as a target: a topic for each published table.

    PUBLISH_<NAME>_URL         host:port of brokers, comma separated
    PUBLISH_<NAME>_OPTIONS     a JSON object of client settings (security.protocol, ..)
    PUBLISH_<NAME>_PARTITIONS  of topics that are made; by default as many as the brokers say

A message has the key's columns as JSON in its key, and in its headers `version` (the version that
it is of) and `row_kind` (+U: the row as it is now, -D: it is gone). The mode of the exposure
decides
what its value is:

    upsert (default)  the row as JSON; null, a tombstone, where it is gone. The topic is compacted
    append            {"version", "row_kind", "key", "row"} as JSON, also of a row that is gone. The
                      topic keeps all messages

Spark's tasks have a producer each, so no transaction of Kafka spans a version. Instead the topic
`published_version`, compacted, with the topic's name as key, records which version each topic
holds, and up to which offset (`ends`) of each partition: who reads up to there has exactly that
version. What a publication that was killed had written lies there once more, or in part; it is
known by (version, key). The next publication finishes that version first, so nothing of it stays
behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.versions.targets import (
    SIGN,
    PublishError,
    StoreState,
    TableUpdate,
    UpdateResult,
)

from python_udfs.servers.java import jvm_of
from python_udfs.servers.kafka import (
    TIMEOUT_MS,
    KafkaSource,
    OffsetRange,
    broker_topics,
    read_ranges,
    reason_of,
)
from python_udfs.targets import is_tls_wanted, setting
from python_udfs.targets.row_counts import check_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION_TOPIC = "published_version"
# Spark keeps a producer for each set of settings. One that knows a topic from before the topic was
# deleted and created again waits for partitions that aren't there any more. So each publication has
# its own set: Kafka ignores this setting.
PRODUCERS_OF = "binlog.warehouse.publication"
UPSERT, APPEND = "upsert", "append"
# how a topic of each mode is made
CONFIGS = {
    UPSERT: {"cleanup.policy": "compact", "min.compaction.lag.ms": str(24 * 3600 * 1000)},
    APPEND: {"cleanup.policy": "delete", "retention.ms": "-1"},
}
TIMES = "yyyy-MM-dd HH:mm:ss.SSSSSS"  # UTC
JSON_OPTIONS = (
    f"map('ignoreNullFields', 'false', 'timestampFormat', '{TIMES}', "
    f"'timestampNTZFormat', '{TIMES}')"
)


def columns_as_json(columns: Sequence[str]) -> str:
    """SQL of columns as one JSON object, nulls included, numbers with all their digits."""
    return f"to_json(struct({', '.join(map(quoted, columns))}), {JSON_OPTIONS})"


def message_sql(columns: Sequence[str], key: Sequence[str], version: int, mode: str) -> list[str]:
    """SQL of a message's columns, of rows of the columns and sign."""
    kind = f"if({SIGN} = 1, '+U', '-D')"
    row, keyed = columns_as_json(columns), columns_as_json(key)
    value = f"if({SIGN} = 1, {row}, null)"
    if mode == APPEND:
        value = (
            f"""concat('{{"version":{version},"row_kind":"', {kind}, '","key":', {keyed}, """
            f"""',"row":', if({SIGN} = 1, {row}, 'null'), '}}')"""
        )
    header = "named_struct('key', '{}', 'value', cast({} as binary))"
    headers = [header.format("version", f"'{version}'"), header.format("row_kind", kind)]
    return [
        f"cast({keyed} as binary) as key",
        f"cast({value} as binary) as value",
        f"array({', '.join(headers)}) as headers",
        SIGN,
    ]


def open_store(session: SparkSession, target: str, warehouse: str) -> KafkaStore:
    given = setting(target, "OPTIONS", "{}")
    try:
        options = json.loads(given)
    except ValueError:
        options = None
    if not isinstance(options, dict):  # without its text: it may hold a password
        raise PublishError(f"PUBLISH_{target.upper()}_OPTIONS must be a JSON object")
    options = {name: str(value) for name, value in options.items()}
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    checked = options.get("ssl.endpoint.identification.algorithm", "https")
    if is_tls_wanted(target) and (protocol not in ("SSL", "SASL_SSL") or not checked):
        raise PublishError(
            f"PUBLISH_{target.upper()}_TLS asks for TLS, PUBLISH_{target.upper()}_OPTIONS for "
            f"security.protocol {protocol}: set it to SSL or SASL_SSL, and leave "
            "ssl.endpoint.identification.algorithm as it is"
        )
    partitions = setting(target, "PARTITIONS", "0")
    if not partitions.isdecimal():
        raise PublishError(f"PUBLISH_{target.upper()}_PARTITIONS must be a number")
    return KafkaStore(session, setting(target, "URL"), options, int(partitions), warehouse)


class KafkaStore:
    """Topics of a cluster.

    Raises:
        PublishError: it can't be reached or refuses.
    """

    together = False

    def __init__(
        self,
        session: SparkSession,
        servers: str,
        options: dict[str, str],
        partitions: int,
        warehouse: str,
    ) -> None:
        self._session, self._servers, self._options = session, servers, options
        self._warehouse = warehouse
        self._partitions = partitions  # of new topics; 0: as many as the brokers say
        self._publication = uuid4().hex
        self._records: dict[str, dict[str, Any]] = {}
        self._admin: Any = None
        if not callable(getattr(self._kafka.clients.admin.Admin, "create", None)):
            raise PublishError("Spark was started without Kafka's jars, KAFKA_JARS names them")
        timeouts = {"default.api.timeout.ms": str(TIMEOUT_MS), "request.timeout.ms": "10000"}
        self._clients = timeouts | options | {"bootstrap.servers": servers}
        with _Reported(self):
            self._admin = self._kafka.clients.admin.Admin.create(self._java(self._clients))
            self._topics = set(self._answer(self._admin.listTopics().names()))

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close(jvm_of(self._session).java.time.Duration.ZERO)

    def held(self, tables: Sequence[str]) -> dict[str, StoreState]:
        """Topic -> what it holds, of those that have been published to."""
        if VERSION_TOPIC not in self._topics:
            return {}
        newest = self._newest(VERSION_TOPIC)
        if newest is None:
            return {}
        from pyspark.sql import functions as F

        rows = newest.where(F.col("message_key").cast("string").isin(list(tables)))
        with _Reported(self):
            found = rows.selectExpr("cast(message_key as string)", "cast(payload as string)")
            records = {key: json.loads(text) for key, text in found.collect() if text}
        known = {key: record for key, record in records.items() if key in self._topics}
        ids = self._topic_ids(known)
        self._records = {
            key: record for key, record in known.items() if self._is_of(record, key, ids[key])
        }
        return {
            topic: StoreState(
                record.get("version") or 0,
                record.get("mark") or "",
                record.get("begun_version") or 0,
                record.get("begun_mark") or "",
            )
            for topic, record in self._records.items()
        }

    def _is_of(self, record: Mapping[str, Any], topic: str, topic_id: str) -> bool:
        """Whether the record of a topic is of this topic, not of a topic of its name that was
        deleted. Records of before the ids were stored say how far the topic reached."""
        if "topic_id" in record:
            return record["topic_id"] == topic_id
        ends = self._ends(topic) if record.get("ends") else {}
        return all(
            ends.get(partition, 0) >= end for partition, end in (record.get("ends") or {}).items()
        )

    def _topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Topic -> the id that Kafka gave it when it was made."""
        names = jvm_of(self._session).java.util.ArrayList()
        for topic in topics:
            names.append(topic)
        with _Reported(self):
            found = self._answer(self._admin.describeTopics(names).allTopicNames())
            return {topic: found[topic].topicId().toString() for topic in topics}

    def take(self, parts: Sequence[TableUpdate]) -> list[UpdateResult]:
        """Write each part's messages, then that its topic holds the version."""
        return [self._take(part) for part in parts]

    def _take(self, part: TableUpdate) -> UpdateResult:
        topic, mode = part.publication.table, part.publication.mode or UPSERT
        record = self._records.get(topic, {})
        if part.rows is None:
            self._record_version(topic, record | {"version": part.version, "mark": part.mark})
            return UpdateResult(part, 0, 0)
        self._make_or_check(part, mode, record)
        rows = part.rows.selectExpr(
            *message_sql(list(part.kinds), part.publication.key, part.version, mode)
        )
        if part.whole:
            rows = self._missing(topic, mode, rows, part.version)
        begun = {"begun_version": part.version, "begun_mark": part.mark, "mode": mode}
        begun |= {"warehouse": self._warehouse, "topic_id": self._topic_ids([topic])[topic]}
        ends = self._ends(topic)
        begun |= {"columns": dict(part.kinds), "partitions": len(ends)}
        self._record_version(topic, record | begun)
        written, removed = self._write(topic, rows)
        # others' messages and marks of transactions count too: there may be more
        arrived = sum(self._ends(topic).values()) - sum(ends.values())
        check_rows(topic, written + removed, min(arrived, written + removed), "the topic")
        self._record_version(
            topic,
            self._records[topic]
            | {"version": part.version, "mark": part.mark}
            | {"ends": self._ends(topic)},
        )
        return UpdateResult(part, written, removed)

    def _make_or_check(self, part: TableUpdate, mode: str, record: Mapping[str, Any]) -> None:
        """Make a topic, or see that it is as it should be.

        Raises:
            PublishError: it is another topic.
        """
        topic = part.publication.table
        if mode not in CONFIGS:
            raise PublishError(f"mode of topic {topic} must be upsert or append, got {mode!r}")
        if topic not in self._topics:
            self._record_version(topic, {})  # the record of a topic that somebody deleted
            self._make(topic, CONFIGS[mode], self._partitions)
            return
        problems = []
        if not record and any(first < end for first, end in self._offsets(topic).values()):
            # of a version as a whole, their keys would get tombstones
            problems.append(f"it has messages, and {VERSION_TOPIC} doesn't know it")
        if record and record.get("mode") != mode:
            problems.append(f"it was published in mode {record.get('mode')}, not {mode}")
        had = record.get("partitions") or len(record.get("ends") or {})
        if mode == UPSERT and had and (has := len(self._ends(topic))) != had:
            problems.append(
                f"it had {had} partitions when it was published, has {has}: of a key's messages "
                "in two of them the newest is unknown"
            )
        was = record.get("columns") or {}
        problems += [f"column {column} is gone" for column in was if column not in part.kinds]
        problems += [
            f"column {column} was {kind}, is {part.kinds[column]}"
            for column, kind in was.items()
            if part.kinds.get(column, kind) != kind
        ]
        policy, retention = self._config(topic, "cleanup.policy", "retention.ms")
        if mode == UPSERT and policy != "compact":
            problems.append(f"its cleanup.policy is {policy}, not compact")
        if mode == APPEND and (policy != "delete" or retention != "-1"):
            problems.append(f"its messages don't stay ({policy}, retention.ms {retention})")
        if problems:
            raise PublishError(
                f"topic {topic} differs from the model: {', '.join(problems)}"
                " (publish to another topic, or delete it and publish again)"
            )

    def _missing(self, topic: str, mode: str, rows: DataFrame, version: int) -> DataFrame:
        """What a topic lacks of all rows, and tombstones for what it has besides."""
        from pyspark.sql import functions as F

        held = self._newest(topic)
        if held is None:
            return rows
        if mode == APPEND:
            raise PublishError(
                f"topic {topic} holds messages of another key, or of a version that the warehouse "
                "doesn't know any more, so what it lacks is unknown (publish to another topic, or "
                "delete it)"
            )
        held = held.where("payload is not null").select(
            F.col("message_key").alias("held_key"), F.col("payload").alias("held_value")
        )
        header = (
            "array(named_struct('key', 'version', 'value', cast('{}' as binary)), "
            "named_struct('key', 'row_kind', 'value', cast('-D' as binary)))"
        )
        joined = rows.join(held, F.col("key") == F.col("held_key"), "full_outer")
        return joined.where("not value <=> held_value").select(
            F.coalesce("key", "held_key").alias("key"),
            "value",
            F.coalesce("headers", F.expr(header.format(version))).alias("headers"),
            F.coalesce(SIGN, F.lit(-1)).alias(SIGN),
        )

    def _newest(self, topic: str) -> DataFrame | None:
        """message_key and payload of each key's newest message; None where there is no message."""
        from pyspark.sql import functions as F

        offsets = self._offsets(topic)
        ranges = [
            OffsetRange(topic, partition, first, end - 1)
            for partition, (first, end) in offsets.items()
            if first < end
        ]
        if not ranges:
            return None
        source = KafkaSource(self._servers, topic, options=self._options)
        messages = read_ranges(self._session, source, ranges)
        payload = F.max_by(F.struct("value"), "offset")["value"]
        by_key = messages.groupBy(F.col("key").alias("message_key"))
        return by_key.agg(payload.alias("payload"))

    def _write(self, topic: str, rows: DataFrame) -> tuple[int, int]:
        """Send messages; how many hold a row, and how many are tombstones."""
        from pyspark.sql import functions as F

        settings = {f"kafka.{name}": value for name, value in self._options.items()}
        settings |= {"kafka.bootstrap.servers": self._servers, "topic": topic, "kafka.acks": "all"}
        settings[f"kafka.{PRODUCERS_OF}"] = self._publication
        # Kafka's sink returns no counts
        kept = rows.persist()
        try:
            with _Reported(self):
                counts = kept.agg(
                    F.count(F.when(F.col(SIGN) == 1, 1)), F.count(F.when(F.col(SIGN) != 1, 1))
                )
                written, removed = counts.first() or (0, 0)
                messages = kept.select("key", "value", "headers")
                messages.write.format("kafka").options(**settings).save()
        finally:
            kept.unpersist()
        return written, removed

    def _record_version(self, topic: str, record: dict[str, Any]) -> None:
        """Write down what a topic holds."""
        if VERSION_TOPIC not in self._topics:
            self._make(VERSION_TOPIC, {"cleanup.policy": "compact"}, partitions=1)
        serializer = "org.apache.kafka.common.serialization.StringSerializer"
        config = self._clients | {"key.serializer": serializer, "value.serializer": serializer}
        config |= {"acks": "all", "delivery.timeout.ms": str(TIMEOUT_MS)}
        with _Reported(self):
            producer = self._kafka.clients.producer.KafkaProducer(self._java(config))
            try:
                message = self._kafka.clients.producer.ProducerRecord(
                    VERSION_TOPIC, topic, json.dumps(record)
                )
                self._answer(producer.send(message))
            finally:
                producer.close(jvm_of(self._session).java.time.Duration.ZERO)
        self._records[topic] = record

    def _ends(self, topic: str) -> dict[str, int]:
        return {str(partition): end for partition, (_, end) in self._offsets(topic).items()}

    def _offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        source = KafkaSource(self._servers, topic, options=self._options)
        try:
            return broker_topics(self._session, source)[topic].offsets
        except (ConnectionError, ValueError) as exc:
            raise PublishError(str(exc).split(". Check KAFKA_SERVERS")[0]) from None

    def _make(self, topic: str, config: Mapping[str, str], partitions: int) -> None:
        optional, jvm = jvm_of(self._session).java.util.Optional, jvm_of(self._session)
        count = optional.empty()
        if partitions:
            count = optional.of(jvm.java.lang.Integer.valueOf(partitions))
        new = self._kafka.clients.admin.NewTopic(topic, count, optional.empty())
        made = jvm.java.util.ArrayList()
        made.append(new.configs(self._java(config)))
        with _Reported(self):
            self._answer(self._admin.createTopics(made).all())
        self._topics.add(topic)

    def _config(self, topic: str, *names: str) -> list[str]:
        """Values of a topic's settings."""
        config = self._kafka.common.config
        kind = getattr(config, "ConfigResource$Type").TOPIC
        resource = config.ConfigResource(kind, topic)
        asked = jvm_of(self._session).java.util.ArrayList()
        asked.append(resource)
        with _Reported(self):
            found = self._answer(self._admin.describeConfigs(asked).all())[resource]
            return [found.get(name).value() for name in names]

    @property
    def _kafka(self) -> Any:
        return jvm_of(self._session).org.apache.kafka

    def _answer(self, future: Any) -> Any:
        seconds = jvm_of(self._session).java.util.concurrent.TimeUnit.MILLISECONDS
        return future.get(TIMEOUT_MS, seconds)

    def _java(self, values: Mapping[str, str]) -> Any:
        found = jvm_of(self._session).java.util.HashMap()
        for name, value in values.items():
            found[name] = value
        return found


class _Reported:
    """Within it an error of Kafka's becomes one of publishing, without any part of a secret."""

    def __init__(self, store: KafkaStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, exc: BaseException | None, trace: Any) -> None:
        java = getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
        if java is not None:
            reason = reason_of(java, self._store._options)
            raise PublishError(f"Kafka at {self._store._servers} refused: {reason}") from None
