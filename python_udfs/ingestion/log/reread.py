"""Messages that ods_binlog refused, read again once the code or settings that read them changed.

They are read from the table. It keeps only the beginning of a line that was too long; such a line
is read from its file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.session import checkpointed

from python_udfs.ingestion.declared.made_by import code_of_reading
from python_udfs.ingestion.declared.topic_formats import topics_by_format
from python_udfs.ingestion.formats.envelope import COORDINATES
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LONG_LINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Place = tuple[str, str, int]
LONGEST_PROPERTY = "landing.longest_line"  # bytes of a line that is taken whole
READ_BY_PROPERTY = "landing.read_by"  # formats of topics, a hash of the code that reads messages


def lines_to_read_again(dbt: Any, session: SparkSession, longest: int) -> dict[Place, list[int]]:
    """Batch, topic and partition -> offsets of lines that were too long, and may not be any more.

    The table is read only if the length differs from that of its last commit.

    Args:
        dbt: the model's handle.
        longest: bytes of a line that is taken whole.
    """
    from pyspark.sql import functions as F

    before = dbt.snapshot_property(LONGEST_PROPERTY)
    dbt.set_snapshot_property(LONGEST_PROPERTY, str(longest))
    if not dbt.is_incremental or before == str(longest):
        return {}
    table = session.table(str(dbt.this))
    reason = F.regexp_extract("reject_reason", rf"^{re.escape(LONG_LINE)} (\d+) bytes", 1)
    lines = table.where(F.col("reject_reason").startswith(LONG_LINE))
    lines = lines.groupBy(*COORDINATES).agg(F.max(reason.try_cast("bigint")).alias("longest"))
    lines = lines.where(F.col("longest") < longest)
    places = checkpointed(lines)
    read = table.where("reject_reason is null").join(F.broadcast(places), COORDINATES, "left_semi")
    found: dict[Place, list[int]] = {}
    for *place, offset in (
        places.join(read.select(*COORDINATES), COORDINATES, "left_anti")
        .select(*COORDINATES)
        .collect()
    ):
        found.setdefault(tuple(place), []).append(offset)
    return found


def messages_read_again(
    dbt: Any, session: SparkSession, formats: Mapping[str, str]
) -> DataFrame | None:
    """The messages that the table refused and that can be read now, as further rows of it.

    A refused row stays as it is: whoever counts messages leaves out a refused one that has a good
    row at its coordinates (macro messages_once). What is left of a cut file isn't read again.

    Args:
        dbt: the model's handle.
        formats: topic, as a shell pattern -> format; the first that fits counts.

    Returns:
        Rows of ods_binlog without load_id; None where there is none, or topics are read as by the
        table's last commit.
    """
    from pyspark.sql import functions as F

    now = json.dumps([code_of_reading(), list(formats.items())], separators=(",", ":"))
    before = dbt.snapshot_property(READ_BY_PROPERTY)
    dbt.set_snapshot_property(READ_BY_PROPERTY, now)
    if not dbt.is_incremental or before == now:
        return None
    table = session.table(str(dbt.this))
    refused = checkpointed(table.where("reject_reason is not null and cut_reason is null"))
    if refused.isEmpty():
        return None
    places = F.broadcast(refused.select(*COORDINATES).distinct())
    read = table.where("reject_reason is null").join(places, COORDINATES, "left_semi")
    refused = refused.join(read.select(*COORDINATES), COORDINATES, "left_anti")
    refused = checkpointed(refused.dropDuplicates(COORDINATES))
    raw = refused.select(
        *COORDINATES,
        F.col("message_offset").alias("run_offset"),
        F.col("message_key").cast("binary").alias("message_key"),
        F.coalesce("payload_bytes", F.col("payload").cast("binary")).alias("payload"),
        "cut_reason",
    )
    topics = [row.topic for row in refused.select("topic").distinct().collect()]
    parts = [
        with_envelope(raw.where(F.col("topic").isin(some)), kind)
        for kind, some in topics_by_format(topics, formats).items()
    ]
    if not parts:
        return None
    rows = reduce(lambda left, right: left.unionByName(right), parts)
    # a checkpoint: without it Spark pushes the condition into the envelope's expressions
    rows = checkpointed(checkpointed(rows).where(F.col("reject_reason").isNull()))
    count = rows.count()
    if not count:
        return None
    from dbt.adapters.events.logging import AdapterLogger

    AdapterLogger("Log").info(
        f"{count} messages that were refused before are read now, as the format of their topics "
        "or the reading of it has changed."
    )
    return rows
