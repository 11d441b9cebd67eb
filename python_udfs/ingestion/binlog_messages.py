"""Rows of ods_binlog: the log as it came."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession import local_rows
from dbt.adapters.sparksession.evaluation import are_few, leave_uncompiled
from pyspark.sql import functions as F

from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.declared.topic_formats import formats_of_topics, topics_by_format
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import (
    LIVE,
    LONG_LINE,
    batches_of,
    files_to_read,
    late_files,
    list_files,
    listed_until,
    longest_line,
    new_since,
    offsets_key,
    open_ended,
)
from python_udfs.ingestion.landing.kafka import (
    beginnings,
    compacted_topics,
    first_gaps,
    first_offsets,
    kafka_source,
    lost_holes,
    ranges_to_read,
    read_topics,
)
from python_udfs.ingestion.landing.object_stores import is_uri, landing_place, store_of
from python_udfs.ingestion.landing.offsets import merge, without
from python_udfs.ingestion.landing.spark import held_offsets, read_messages
from python_udfs.ingestion.log.another_log import check_folder, check_held_places
from python_udfs.ingestion.log.arrived import note_arrived, with_tables_noted
from python_udfs.ingestion.log.by_workers import written_by_workers
from python_udfs.ingestion.log.reread import lines_to_read_again, messages_read_again
from python_udfs.servers.kafka import broker_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from python_udfs.ingestion.landing.files import LandedFile
    from python_udfs.ingestion.landing.offsets import Interval
    from python_udfs.servers.kafka import OffsetRange

# offsets that the table held before the commit, and those that the commit read from Kafka
HELD_PROPERTY = "landing.held"
TOPICS_PROPERTY = "landing.kafka_topics"  # topic -> id that Kafka knew it by
BEGUN_PROPERTY = "landing.kafka_begun"  # where reading of each of Kafka's partitions began
HOLES_PROPERTY = "landing.kafka_holes_named"  # Kafka's first offsets when lost holes were named
SIZES_PROPERTY = "landing.sizes"  # sizes of files whose end is known by reading only
LISTED_PROPERTY = "landing.listed"  # when the newest listed file came, ns
FEW_BYTES = 1 << 18  # of landed files: to compile a query takes longer than to read these
LATE_PROPERTY = "landing.late"  # which files of a store came shortly before it, as a hash


def binlog_messages(dbt: Any, session: SparkSession) -> DataFrame | None:
    """Rows of ods_binlog: the landed messages that the table doesn't hold yet.

    The table itself knows which offsets it holds: each commit records the offsets from before it
    (snapshot property `landing.held`), and the offsets that it added are read from its rows. So
    data and offsets commit together, and a run reads no more than the coordinates of the last run.
    Files carry the offsets of Kafka: a message is taken from a file or from the broker, not from
    both. Messages that were refused are read again once they can be read, see log.reread.

    Args:
        dbt: the model's handle, with config meta `landing` (a folder or a URI), `kafka` (see
            landing.kafka), `formats` (shell pattern of topics -> format, beside what the tables
            declare of their topics) and `max_line_mb` (the longest line that is taken whole).
            With Kafka `landing` may be empty.

    Returns:
        Rows of ods_binlog, or None where nothing new has landed.
    """
    kafka = kafka_source(dbt.meta["kafka"])
    landing = landing_place(dbt.project_root, dbt.meta["landing"])
    files_too = dbt.meta["landing"] or not kafka
    files = list_files(landing) if files_too else []
    store = store_of(landing) if is_uri(landing) else None
    now = time.time_ns() if store is None else None
    check_folder(dbt, landing if files_too else None)
    longest = longest_line(dbt.meta)
    held = _held(dbt, session)
    _report_absent_batches(dbt, batches_of([*held, *(file.key for file in files)]))
    topic_ids = json.loads(dbt.snapshot_property(TOPICS_PROPERTY, "{}"))
    ranges: list[OffsetRange] = []
    if kafka:
        topics = broker_topics(session, kafka, with_cleanup=True)
        begun = json.loads(dbt.snapshot_property(BEGUN_PROPERTY, "{}"))
        named = json.loads(dbt.snapshot_property(HOLES_PROPERTY, "{}"))
        ranges = ranges_to_read(topics, held, topic_ids, kafka.accept_gap, begun)
        for note in (
            first_gaps(topics, held, begun),
            lost_holes(topics, held, begun, named),
            compacted_topics(topics, [read.topic for read in ranges]),
        ):
            if note:
                from dbt.adapters.events.logging import AdapterLogger

                AdapterLogger("Kafka").warning(note)
        named |= first_offsets(topics)
        dbt.set_snapshot_property(HOLES_PROPERTY, json.dumps(named, separators=(",", ":")))
        begun = beginnings(topics, begun, kafka.accept_gap)
        dbt.set_snapshot_property(BEGUN_PROPERTY, json.dumps(begun, separators=(",", ":")))
        topic_ids |= {name: topic.topic_id for name, topic in topics.items()}
        # the ranges are held to their end: some offsets of Kafka have no message, so no row
        for read in ranges:
            key = offsets_key(LIVE, read.topic, read.partition)
            held[key] = merge([*held.get(key, []), (read.first, read.last)])
    seen_sizes = json.loads(dbt.snapshot_property(SIZES_PROPERTY, "{}"))
    listed = int(dbt.snapshot_property(LISTED_PROPERTY, "0"))
    if now is not None and now < listed:  # the clock was put back: what came since is not newer
        listed = 0
    seen_until = new_since(files, listed, dbt.snapshot_property(LATE_PROPERTY, ""))
    # these lines stay among the held lines: nothing comes of a file that is gone, or of a line that
    # is still too long
    released = lines_to_read_again(dbt, session, longest)
    of_key = {offsets_key(*place): offsets for place, offsets in released.items()}
    unread = held | {key: without(held.get(key, []), some) for key, some in of_key.items()}
    if dbt.is_incremental:
        # files that a sink wrote of Kafka's topics may write their messages in another way
        of_files = [file for file in files if file.topic not in topic_ids]
        new = files_to_read(of_files, held, seen_sizes, seen_until)
        check_held_places(session.table(str(dbt.this)), new, held, (longest, store))
    of_released = {file.name for file in files if file.key in of_key}
    as_seen = {name: seen_size for name, seen_size in seen_sizes.items() if name not in of_released}
    chosen = files_to_read(files, unread, as_seen, seen_until)
    formats = formats_of_topics(
        dbt.meta["formats"],
        [
            table_source(model, meta["source"])
            for model, meta in dbt.meta_of_readers().items()
            if "source" in meta
        ],
    )
    again = messages_read_again(dbt, session, formats)
    if not chosen and not ranges and again is None and dbt.is_incremental:
        return None
    dbt.set_snapshot_property(TOPICS_PROPERTY, json.dumps(topic_ids, separators=(",", ":")))
    dbt.set_snapshot_property(HELD_PROPERTY, json.dumps(held, separators=(",", ":")))
    sizes = open_ended(files, held)
    dbt.set_snapshot_property(SIZES_PROPERTY, json.dumps(sizes, separators=(",", ":")))
    if again is None:
        note_arrived(dbt, [*(file.topic for file in chosen), *(read.topic for read in ranges)])
    newest = listed_until(files, now)
    dbt.set_snapshot_property(LISTED_PROPERTY, str(newest))
    dbt.set_snapshot_property(LATE_PROPERTY, late_files(files, newest) if store else "")
    offsets = sum(read.last - read.first + 1 for read in ranges)
    is_small = sum(file.size for file in chosen) <= FEW_BYTES and again is None
    if is_small and are_few(offsets):
        leave_uncompiled(session)
    from_files = _by_format(chosen, formats)
    from_kafka = _by_format(ranges, formats)
    if not from_files and not from_kafka and again is None:
        from_files = {"maxwell": []}
    frames = [
        *(
            _not_too_long_still(
                with_envelope(read_messages(session, some, unread, longest, store), kind), released
            )
            for kind, some in from_files.items()
        ),
        *(
            with_envelope(read_topics(session, kafka, some), kind)
            for kind, some in from_kafka.items()
            if kafka is not None
        ),
        *([] if again is None else [again]),
    ]
    rows = reduce(lambda left, right: left.unionByName(right), frames).withColumn(
        "load_id", F.lit(dbt.run_id)
    )
    if not from_kafka and not released and again is None:
        left = written_by_workers(dbt, session, from_files, rows, (unread, longest, store))
        if left is not None:
            return left
    if dbt.is_incremental and is_small and offsets <= local_rows.MOST_ROWS:
        return with_tables_noted(dbt, rows)
    return rows


def _not_too_long_still(rows: DataFrame, released: Mapping[Any, list[int]]) -> DataFrame:
    """Rows of ods_binlog without lines that were read again and are still too long.

    Args:
        released: see lines_to_read_again.
    """
    is_long = F.coalesce(F.col("reject_reason").startswith(LONG_LINE), F.lit(False))
    for (batch, topic, partition), offsets in released.items():
        of_topic = (F.col("batch_id") == batch) & (F.col("topic") == topic)
        of_partition = of_topic & (F.col("partition_number") == partition)
        rows = rows.where(~(is_long & of_partition & F.col("message_offset").isin(offsets)))
    return rows


def _report_absent_batches(dbt: Any, there: set[str]) -> None:
    """Warn of batches that the var `batches` names and of which there is no message: else a name
    with a mistake would look like a correction that changed nothing."""
    named = dbt.project_var("batches", [LIVE])
    if not isinstance(named, list):  # the typed tables refuse it
        return
    absent = [str(batch) for batch in named if batch != LIVE and batch not in there]
    if absent:
        from dbt.adapters.events.logging import AdapterLogger

        others = ", ".join(sorted(there - {LIVE})) or "no batch"
        AdapterLogger("Log").warning(
            f"The var `batches` names {', '.join(absent)}, of which no message has landed (there "
            f"is {others}): land it under batches/<name>/topics/.., or name it as its folder is "
            "named."
        )


def _by_format(parts: Iterable[LandedFile | OffsetRange], formats: Any) -> dict[str, list[Any]]:
    """Format -> files, or ranges of offsets, of its topics."""
    parts = list(parts)
    topics = topics_by_format(dict.fromkeys(part.topic for part in parts), formats)
    return {kind: [part for part in parts if part.topic in some] for kind, some in topics.items()}


def _held(dbt: Any, session: SparkSession) -> dict[str, list[Interval]]:
    """offsets_key -> offsets that the table holds."""
    if not dbt.is_incremental:
        return {}
    before = dbt.snapshot_property(HELD_PROPERTY)
    if before is None:  # the table was made or repaired by other means: its rows count
        return held_offsets(session.table(str(dbt.this)))
    held = {key: [tuple(entry) for entry in value] for key, value in json.loads(before).items()}
    for key, intervals in held_offsets(dbt.own_rows_since(HELD_PROPERTY)).items():
        held[key] = merge([*held.get(key, []), *intervals])
    return held
