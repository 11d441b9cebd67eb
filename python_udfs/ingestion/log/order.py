"""Whether the changes of a log came in its order, or a log that nobody declared began in between.

A producer sends a partition's messages in the order of the binlog. It steps back when it sends
some again; those are no later than what came before them. A message that stands lower in the log
than one before it, and is later than all before it, can't be of the same log: the server began its
binlog again (RESET MASTER), or another server's log goes on here, see log_resets. From there on the
table's changes are refused until the project declares it: by their positions they would count as
older than what they change.

What is known of a partition stands in the model's own commits: the highest place, the latest time
and the last offset that came by it. So a run looks at its own messages, never at the history. The
messages' coordinates are grouped by places first, which is part of the scan that every run makes;
only of partitions whose groups don't follow each other the single messages are looked at.

Where messages name the server that made the change, one of another server than the message before
it, at a lower place and later than all before, is a sign by itself, however few messages are known
and however often they go to and fro. What a server took over from another one names that server,
but stands at places that grow; sent again, it is no later.

Other orders are no sign of anything:
- A partition in which messages keep stepping back to new places, or go to and fro between files
  far apart, carries the logs of several servers, or messages that somebody mixed. It is known by
  that, and not judged where the messages don't name their servers.
- Positions that are places in a topic order what was sent. The lsn of PostgreSQL orders the
  changes of a row, not those of a log. Neither is judged.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.debezium import has_lsn
from python_udfs.ingestion.formats.envelope import ROW_OPS, TABLE_OPS
from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.log.doubt import Doubt, doubt_of
from python_udfs.ingestion.tables.log_resets import FILES_OF_A_LOG

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from python_udfs.ingestion.tables.source import TableSource

ORDER_PROPERTY = "ods.log_order"  # what is known of the log's partitions, and what is in doubt
# The time of a row is when its statement began, its place is that of its transaction's commit. So a
# place can be higher and its time earlier, by as long as a transaction is open. With few messages
# known, only what is further apart is a sign.
LONGEST_TRANSACTION = 6 * 3600 * 1_000_000
FEW_MESSAGES = 8
# Messages for each that steps back to a place that is new, in a partition that is in order
STEADY_MESSAGES = 6
UUID = r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
# Widths of the groups of positions: even widths at a file's beginning, growing widths behind it
EVEN_UNTIL, EVEN_WIDTH, GROUPS_A_DOUBLING = 16_384, 128, 8
PARTITION = ["batch_id", "topic", "partition_number"]
Place = tuple[int, int]
Key = tuple[int, str, str, int]  # number of the log, batch, topic, partition


@dataclass(frozen=True)
class Known:
    """What is known of one partition of a log.

    Attributes:
        file_number, position: the highest place of a change.
        time: of the latest change, epoch microseconds.
        offset: of the last message.
        messages, steps_back: how many places came, and how many of them below the place before.
    """

    file_number: int
    position: int
    time: int
    offset: int
    messages: int
    steps_back: int

    @property
    def place(self) -> Place:
        return self.file_number, self.position

    @property
    def is_in_order(self) -> bool:
        return self.steps_back <= max(1, self.messages // STEADY_MESSAGES)

    def with_more(self, other: Known) -> Known:
        place = max(self.place, other.place)
        return Known(
            *place,
            max(self.time, other.time),
            max(self.offset, other.offset),
            self.messages + other.messages,
            self.steps_back + other.steps_back,
        )


class LogOrder:
    """What a model knows of the order of its table's log.

    Attributes:
        is_watched: whether the format's positions are those of a binlog.
        declared: the resets that the model's last commit knew, None without a commit.
        doubt: see Doubt; None where all is in order.
    """

    def __init__(self, dbt: Any, source: TableSource) -> None:
        self.source = source
        module = FORMATS[source.format]
        self.is_watched = hasattr(module, "SERVER_PATHS")
        noted = json.loads(dbt.snapshot_property(ORDER_PROPERTY, "null")) or {}
        self.declared: Any = noted.get("resets", [] if dbt.is_incremental else None)
        self.doubt: Doubt | None = None
        if noted.get("doubt") and not self.is_redeclared:
            doubt = noted["doubt"]
            self.doubt = Doubt(
                **doubt | {"offsets": [tuple(offset) for offset in doubt["offsets"]]}
            )
        self._known: dict[Key, Known] = {
            (log, batch, topic, partition): Known(*numbers)
            for (log, batch, topic, partition, *numbers) in noted.get("partitions", [])
        }

    @property
    def is_redeclared(self) -> bool:
        """Whether the project declares other resets than the model's last commit knew."""
        return self.declared is not None and self.declared != resets_as_json(self.source)

    def doubts(self, coordinates: tuple[Any, ...], time: int, file_number: int) -> bool:
        """Whether a message is of a log that isn't declared, see Doubt."""
        return self.doubt is not None and self.doubt.holds(coordinates, time, file_number)

    def note(self, dbt: Any) -> None:
        """Let the model's commit say what is known by now."""
        if not self.is_watched:
            return
        noted = {
            "resets": resets_as_json(self.source),
            "doubt": asdict(self.doubt) if self.doubt else None,
            "partitions": [[*key, *astuple(known)] for key, known in sorted(self._known.items())],
        }
        dbt.set_snapshot_property(ORDER_PROPERTY, json.dumps(noted, separators=(",", ":")))

    def is_change(self) -> Column:
        """Condition on messages of ods_binlog: they say how far the table's log had come.

        Those of all tables of its database: one table alone may be quiet.
        """
        return (
            (F.col("database_name") == self.source.database)
            & F.col("op").isin(*ROW_OPS, *TABLE_OPS)
            & (F.col("binlog_file_number") >= 0)
            & ~has_lsn()
        )

    def groups(self) -> list[Column]:
        """What a scan of messages groups by, for `summary` and `look`."""
        position = F.col("binlog_position")
        group = F.when(position < EVEN_UNTIL, F.floor(position / EVEN_WIDTH)).otherwise(
            F.floor(F.log2(position) * GROUPS_A_DOUBLING) + EVEN_UNTIL
        )
        return [
            *map(F.col, PARTITION),
            F.col("binlog_file_number").alias("file_number"),
            group.alias("position_group"),
            self.is_change().alias("is_change"),
        ]

    def summary(self) -> list[Column]:
        """What a scan of messages finds of each group."""
        offset, position = F.col("message_offset"), F.col("binlog_position")
        time = F.unix_micros("event_time")
        return [
            F.count(F.lit(1)).alias("messages"),
            F.min(offset).alias("first_offset"),
            F.max(offset).alias("last_offset"),
            F.min(position).alias("lowest"),
            F.max(position).alias("highest"),
            F.max_by(position, offset).alias("last_position"),
            F.min(time).alias("first_time"),
            F.max(time).alias("last_time"),
        ]

    def look(
        self, groups: Iterable[Row], messages: DataFrame, held: DataFrame | None = None
    ) -> None:
        """Judge the messages of a run.

        Args:
            groups: what the scan found.
            messages: the run's, of the table's format and topics.
            held: all of the log, the run's among them, or None for the run's alone. Only the last
                known message of a partition whose messages don't follow each other is looked up.
        """
        if not self.is_watched or self.doubt:
            return
        arrived: dict[Key, list[Row]] = {}
        for group in groups:
            if group.is_change:
                key = (group.file_number // FILES_OF_A_LOG, *(group[name] for name in PARTITION))
                arrived.setdefault(key, []).append(group)
        for parts in arrived.values():
            parts.sort(key=lambda part: (part.file_number, part.position_group))
        summed = {key: _summed(parts) for key, parts in arrived.items()}
        before = {key: self._before(key, arrived[key], summed) for key in arrived}
        jumbled = {
            key: before[key]
            for key, parts in arrived.items()
            if not _follow_each_other(parts, before[key], is_known=key in self._known)
        }
        found = self._looked_at(messages, held, jumbled) if jumbled else {}
        for key, part in found.items():
            # a partition that carries several logs is not in order from now on
            back = part.messages if _goes_to_and_fro(part) else part.steps_back
            summed[key] = replace(summed[key], messages=part.messages, steps_back=back)
        together = {
            key: self._known[key].with_more(new) if key in self._known else new
            for key, new in summed.items()
        }
        signs = [
            (key, part.sign)
            for key, part in found.items()
            if part.sign is not None
            and (part.sign.by_server or (together[key].is_in_order and self._are_in_order(key)))
        ]
        if signs:
            mixed = {key for key, part in together.items() if not part.is_in_order}
            self.doubt = doubt_of(signs, mixed)
            # what belongs to the log that isn't declared is no knowledge of this one
            together = {
                key: part
                for key, part in together.items()
                if key[0] > self.doubt.log or summed[key].time <= self.doubt.time
            }
        self._known |= together

    def _are_in_order(self, key: Key) -> bool:
        """Whether the partitions that a new partition is compared with are in order."""
        return key in self._known or all(
            part.is_in_order for other, part in self._known.items() if other[:2] == key[:2]
        )

    def _before(self, key: Key, parts: list[Row], summed: Mapping[Key, Known]) -> Known | None:
        """What came before a partition's messages: by the same, or where it is new, by those that
        ended before it began."""
        if key in self._known:
            return self._known[key]
        begin = min(part.first_time for part in parts)
        others = [
            part
            for known in (self._known, summed)
            for other, part in known.items()
            if other != key and other[:2] == key[:2] and part.time < begin
        ]
        if not others:
            return None
        highest = max(others, key=lambda other: other.place)
        return replace(highest, time=max(other.time for other in others), offset=-1, messages=0)

    def _server(self) -> Column:
        """The server that a message names, as `log_resets` would; null where it names none."""
        paths = FORMATS[self.source.format].SERVER_PATHS
        number, uuid = (
            F.substring_index(
                F.coalesce(*(F.get_json_object("payload", path) for path in paths[name])), ":", 1
            )
            for name in ("server_id", "server_uuid")
        )
        return F.coalesce(
            # Debezium's snapshots are of server 0
            F.when(number != "0", F.concat(F.lit("server_id: "), number)),
            F.when(uuid.rlike(UUID), F.concat(F.lit("server_uuid: "), F.lower(uuid))),
        )

    def _looked_at(
        self,
        messages: DataFrame,
        held: DataFrame | None,
        partitions: Mapping[Key, Known | None],
    ) -> dict[Key, Row]:
        """The single messages of some partitions.

        Args:
            partitions: what came before their messages.

        Returns:
            messages and steps_back, as in Known; sign: the first message that can't be of the
            log, null where all can; signs: stretches of messages that have such; returns: how
            often a place two files on and higher than all came behind one that was not.
        """
        schema = (
            "log long, batch_id string, topic string, partition_number int, known_file long, "
            "known_position long, known_time long, known_offset long, known_messages long"
        )
        known_parts = list(partitions.values())
        known_places = [
            (*key, *(astuple(partition)[:5] if partition else (None,) * 5))
            for key, partition in partitions.items()
        ]
        names = ["log", *PARTITION]
        known = messages.sparkSession.createDataFrame(known_places, schema)
        rows = messages.where(self.is_change()).select(
            F.expr(f"binlog_file_number div {FILES_OF_A_LOG}").alias("log"),
            *PARTITION,
            "message_offset",
            F.struct("binlog_file_number", "binlog_position").alias("place"),
            F.unix_micros("event_time").alias("time"),
            self._server().alias("server"),
        )
        rows = rows.join(F.broadcast(known), names)
        rows = rows.withColumn("known_server", F.lit(None).cast("string"))
        if held is not None and any(part is not None and part.offset >= 0 for part in known_parts):
            last = [F.col(name) == F.col(f"last_{name}") for name in PARTITION]
            last.append(F.col("message_offset") == F.col("known_offset"))
            asked = known.select(
                *(F.col(name).alias(f"last_{name}") for name in names), "known_offset"
            )
            servers = held.join(F.broadcast(asked), last).select(
                *(F.col(f"last_{name}").alias(name) for name in names),
                self._server().alias("known_server"),
            )
            rows = rows.drop("known_server").join(F.broadcast(servers.distinct()), names, "left")
        by_offset = Window.partitionBy(*names).orderBy("message_offset")
        earlier = by_offset.rowsBetween(Window.unboundedPreceding, -1)
        behind = F.coalesce(F.col("message_offset") > F.col("known_offset"), F.lit(False))
        highest = F.when(
            behind,
            F.struct(
                F.col("known_file").alias("binlog_file_number"),
                F.col("known_position").alias("binlog_position"),
            ),
        )
        of_place = Window.partitionBy(*names, "place").orderBy("message_offset")
        rows = rows.select(
            *names,
            "message_offset",
            "place",
            "time",
            "known_messages",
            F.greatest(F.max("place").over(earlier), highest).alias("highest"),
            F.greatest(F.max("time").over(earlier), F.when(behind, F.col("known_time"))).alias(
                "latest"
            ),
            F.coalesce(F.lag("place").over(by_offset), highest).alias("previous"),
            (F.row_number().over(of_place) == 1).alias("is_new"),
            "server",
            F.coalesce(
                F.last("server", ignorenulls=True).over(earlier),
                F.when(behind, F.col("known_server")),
            ).alias("server_before"),
        )
        back = F.coalesce(F.col("place") < F.col("previous"), F.lit(False))
        # a producer that sends a part of the new log again steps back too, but not from the highest
        # place, and not to a place that nothing had before
        begins = back & (F.col("is_new") | (F.col("previous") == F.col("highest")))
        rows = rows.withColumn("steps_back", back).withColumns(
            {
                "number": F.sum(F.col("is_new").cast("int")).over(by_offset),
                "begin": F.max(F.when(begins, F.col("message_offset"))).over(by_offset),
            }
        )
        ahead = F.col("time") - F.col("latest")
        few = F.col("number") - 1 + F.coalesce("known_messages", F.lit(0)) < FEW_MESSAGES
        files_apart = F.col("highest")["binlog_file_number"] - F.col("place")["binlog_file_number"]
        # one file may end within a transaction, not two
        far = (files_apart > 1) | (ahead > LONGEST_TRANSACTION)
        by_server = F.coalesce(F.col("server") != F.col("server_before"), F.lit(False))
        rows = rows.withColumn("by_server", by_server)
        is_sign = (F.col("place") < F.col("highest")) & (ahead > 0) & (~few | far | by_server)
        jump = F.col("place")["binlog_file_number"] - F.col("previous")["binlog_file_number"]
        is_return = (
            (F.col("previous") < F.col("highest"))
            & (F.col("place") > F.col("highest"))
            & (jump > 1)
        )
        sign = F.struct(
            *("message_offset", "begin", "place", "time", "highest", "latest"),
            *("by_server", "server", "server_before"),
        )
        found = rows.groupBy(*names).agg(
            F.count_if("is_new").alias("messages"),
            F.count_if(F.col("steps_back") & F.col("is_new")).alias("steps_back"),
            F.min_by(F.when(is_sign, sign), F.when(is_sign, F.col("message_offset"))).alias("sign"),
            F.count_distinct(F.when(is_sign, F.coalesce("begin", F.lit(-1)))).alias("signs"),
            F.count_if(is_return).alias("returns"),
        )
        return {tuple(row[name] for name in names): row for row in found.collect()}


def resets_as_json(source: TableSource) -> list[Any]:
    return json.loads(json.dumps([astuple(log_reset) for log_reset in source.log_resets]))


def _summed(parts: list[Row]) -> Known:
    last = parts[-1]
    return Known(
        last.file_number,
        last.highest,
        max(part.last_time for part in parts),
        max(part.last_offset for part in parts),
        sum(part.messages for part in parts),
        0,
    )


def _follow_each_other(parts: list[Row], before: Known | None, is_known: bool) -> bool:
    """Whether places grow with offsets, as far as it is known from groups of places.

    Args:
        parts: one partition's groups, in the order of their places.
        before: what came before them.
        is_known: whether that came by the same partition.
    """
    if before is not None:
        if (parts[0].file_number, parts[0].lowest) < before.place:
            return False
        if is_known and min(part.first_offset for part in parts) <= before.offset:
            return False
    return all(part.last_position == part.highest for part in parts) and all(
        before.last_offset < two.first_offset for before, two in itertools.pairwise(parts)
    )


def _goes_to_and_fro(found: Row) -> bool:
    """Whether the log that was left went on again and again: of a log that ended none does."""
    return found.returns > 2 and 2 * found.returns >= found.signs
