"""Where a log began that nobody declared, see order."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import ROW_OPS, TABLE_OPS
from python_udfs.ingestion.tables.log_resets import FILES_OF_A_LOG

if TYPE_CHECKING:
    from pyspark.sql import Column, Row

    from python_udfs.ingestion.log.order import Key

UNDECLARED = "a change of a log that nobody declared: "  # how the reasons of this module begin


@dataclass(frozen=True)
class Doubt:
    """Where a log began that nobody declared.

    Attributes:
        log: number of the log that its messages are taken for; those of later logs are declared.
        time: of the latest change before it, epoch microseconds.
        offsets: batch, topic, partition and offset of its first message.
        reason: for the rows that are refused.
    """

    log: int
    time: int
    offsets: list[tuple[str, str, int, int]]
    reason: str

    @property
    def condition(self) -> Column:
        """Condition on rows of ods_binlog."""
        found = F.unix_micros("event_time") > self.time
        for batch, topic, partition, offset in self.offsets:
            here = (
                (F.col("batch_id") == batch)
                & (F.col("topic") == topic)
                & (F.col("partition_number") == partition)
            )
            found = found | (here & (F.col("message_offset") >= offset))
        found = found & (F.col("binlog_file_number") < (self.log + 1) * FILES_OF_A_LOG)
        return F.coalesce(found, F.lit(False)) & F.col("op").isin(*ROW_OPS, *TABLE_OPS)

    def holds(self, coordinates: tuple[Any, ...], time: int, file_number: int) -> bool:
        """The same of one message: its batch, topic, partition and offset, its time and file."""
        return file_number // FILES_OF_A_LOG <= self.log and (
            time > self.time
            or any(
                (batch, topic, partition) == coordinates[:3] and coordinates[3] >= offset
                for batch, topic, partition, offset in self.offsets
            )
        )


def doubt_of(signs: list[tuple[Key, Row]], mixed: Collection[Key]) -> Doubt:
    """What the signs of a log that nobody declared come to.

    Args:
        mixed: partitions that carry several logs at once.
    """
    # of the first log that has any; those behind it are judged again once this log is declared
    log = min(key[0] for key, _ in signs)
    signs = [sign for sign in signs if sign[0][0] == log]
    key, first = min(signs, key=lambda sign: (sign[1].latest, sign[0]))
    offsets = [
        (*partition, sign.message_offset if sign.begin is None else sign.begin)
        for (_, *partition), sign in signs
    ]
    begins = [offset for offset in offsets if offset[0] == key[1]]
    listed: dict[str, dict[int, int]] = {}
    for _, topic, partition, offset in begins:
        listed.setdefault(topic, {})[partition] = offset
    place, highest = (
        (place["binlog_file_number"] % FILES_OF_A_LOG, place["binlog_position"])
        for place in (first.place, first.highest)
    )
    servers = again = ""
    example = f'from: "{_text(first.latest + 1)}", offsets: {json.dumps(listed)}'
    if first.by_server:
        servers = f", {first.server} behind {first.server_before},"
        if key in mixed:
            # whichever is declared, a message of it has been taken before the first sign
            again, example = " and run the table with --full-refresh", first.server
    reason = (
        f"{UNDECLARED}file {place[0]}, position {place[1]} ({_text(first.time)}) came behind file "
        f"{highest[0]}, position {highest[1]}{servers} and is later than all that came before it "
        f"({_text(first.latest)}), so the server began its binlog again (RESET MASTER) or another "
        f"server took over; declare it in `log_resets` of the table's source{again}, for example "
        f"[{{{example}}}]"
    )
    return Doubt(log, first.latest, offsets, reason)


def _text(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
