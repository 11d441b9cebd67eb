"""A server's binlog that begins again: what a project declares of it, and where changes stand then.

MySQL counts its binlog files up, so the number of a file and the position in it order the changes
of one log. RESET MASTER begins at number 1 again, and another server, which takes over or is
restored, has numbers of its own. `meta.source.log_resets` lists such beginnings, oldest first:

    log_resets:
      - from: "2026-03-02 04:00:00"             # UTC: changes of this time and later
        offsets: {maxwell: {0: 18230}}          # exact: topic -> partition -> first offset
      - server_uuid: 3e11fa47-71ca-11e1-9e33-c80aa9429562
      - {topic: "maxwell_b", server_id: 12}

A message belongs to the last entry of which all conditions hold, else to the log before them all.
In the live log's partitions that `offsets` names, the offset decides and `from` isn't asked.

In the rows of typed models the number of the entry comes before the number of the file: 20000000007
is file 7 of the second entry's log, and its `binlog_file` ends in @2. So what orders by
(binlog_file_number, binlog_position, row_number) needs no further column.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from python_udfs.ingestion.tables.topics import of_topics

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import Column, DataFrame

# MySQL's highest file number is 2^31 - 1
FILES_OF_A_LOG = 10**10
EXAMPLE = 'log_resets: [{from: "2026-03-02 04:00:00", offsets: {maxwell: {0: 18230}}}]'


@dataclass(frozen=True)
class LogReset:
    """One beginning of a log, as `log_resets` declares it. None and () are no condition.

    Attributes:
        begin: epoch microseconds of the first change.
        offsets: (topic, partition, first offset).
        topics: shell patterns.
        server_id, server_uuid: of the server that made the change.
    """

    begin: int | None
    offsets: tuple[tuple[str, int, int], ...]
    topics: tuple[str, ...]
    server_id: int | None
    server_uuid: str | None

    def holds(self, module: ModuleType, live: str) -> Column:
        """Condition on rows of ods_binlog: they are of this log, or of a later log.

        Args:
            module: of the format.
            live: the batch that `offsets` are of.
        """
        from pyspark.sql import functions as F

        found = F.lit(True)
        if self.begin is not None or self.offsets:
            begun = F.lit(False)
            if self.begin is not None:
                begun = F.unix_micros("event_time") >= self.begin
            for topic, partition, first in self.offsets:
                here = (
                    (F.col("batch_id") == live)
                    & (F.col("topic") == topic)
                    & (F.col("partition_number") == partition)
                )
                begun = F.when(here, F.col("message_offset") >= first).otherwise(begun)
            found = found & begun
        if self.topics:
            found = found & of_topics(self.topics)
        for name, value in (("server_id", self.server_id), ("server_uuid", self.server_uuid)):
            if value is not None:
                texts = [F.get_json_object("payload", path) for path in module.SERVER_PATHS[name]]
                server = F.substring_index(F.coalesce(*texts), ":", 1)
                found = found & (F.lower(server) == str(value).lower())
        return F.coalesce(found, F.lit(False))


def _time(value: Any) -> datetime | None:
    """A time in UTC, of YAML's date, time or text."""
    if value is None:
        return None
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) and value else value or []


class Entry(BaseModel):
    """An entry of `log_resets`, as YAML has it; null is as if the field wasn't there."""

    # YAML reads a topic or an id of digits alone as a number
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    begin: Annotated[
        datetime | None, BeforeValidator(_time), Field(alias="from", description="be a time in UTC")
    ] = None
    offsets: Annotated[
        dict[str, dict[int, int]],
        BeforeValidator(lambda value: value or {}),
        Field(description="map topics to partitions and their first offsets"),
    ] = {}
    topic: Annotated[
        tuple[str, ...],
        BeforeValidator(_list),
        Field(description="be a topic or a list of them, as shell patterns"),
    ] = ()
    server_id: Annotated[int | None, Field(description="be a whole number")] = None
    server_uuid: Annotated[str | None, Field(description="be a text")] = None

    def reset(self) -> LogReset:
        begin = None if self.begin is None else round(self.begin.timestamp() * 1_000_000)
        offsets = (
            (topic, partition, first)
            for topic, partitions in self.offsets.items()
            for partition, first in partitions.items()
        )
        return LogReset(begin, tuple(offsets), self.topic, self.server_id, self.server_uuid)


# field of an entry, by its name in YAML -> what it must be
WANTED = {field.alias or name: field.description for name, field in Entry.model_fields.items()}


def log_resets(declared: Any, module: ModuleType | None) -> tuple[list[LogReset], list[str]]:
    """The entries of `log_resets`, and what is wrong with them.

    Args:
        declared: from YAML.
        module: of the table's format, or None where that isn't known.
    """
    if not declared:
        return [], []
    if not isinstance(declared, list) or not all(isinstance(entry, dict) for entry in declared):
        return [], [f"`log_resets` must be a list of mappings, got {declared!r}. {EXAMPLE}"]
    if module is not None and not hasattr(module, "SERVER_PATHS"):
        return [], ["`log_resets` is for formats whose changes have positions in a binlog"]
    found, problems = [], []
    for number, entry in enumerate(declared, 1):
        unknown = [str(name) for name in entry if name not in WANTED]
        if unknown or not entry:
            problems.append(
                f"entry {number} of `log_resets` must have some of {', '.join(WANTED)}, got "
                f"{', '.join(unknown) or 'none'}. {EXAMPLE}"
            )
            continue
        try:
            found.append(Entry.model_validate(entry).reset())
        except ValidationError as error:
            wrong = dict.fromkeys(str(mistake["loc"][0]) for mistake in error.errors())
            texts = (f"`{name}` must {WANTED[name]}, got {entry[name]!r}" for name in wrong)
            problems.append(f"entry {number} of `log_resets`: {'; '.join(texts)}. {EXAMPLE}")
    return found, problems


def log_number(resets: tuple[LogReset, ...], module: ModuleType, live: str) -> Column:
    """Number of the log that a row of ods_binlog belongs to; 0: the log before all resets."""
    from pyspark.sql import functions as F

    number = F.lit(0).cast("long")
    for place, reset in enumerate(resets, 1):
        number = F.when(reset.holds(module, live), F.lit(place).cast("long")).otherwise(number)
    return number


def placed(
    messages: DataFrame, resets: tuple[LogReset, ...], module: ModuleType, live: str
) -> DataFrame:
    """Rows of ods_binlog with the number of their log in binlog_file_number and binlog_file."""
    from pyspark.sql import functions as F

    if not resets:
        return messages
    number = log_number(resets, module, live)
    name = F.concat(F.col("binlog_file"), F.lit("@"), number.cast("string"))
    return messages.withColumns(
        {
            "binlog_file_number": F.col("binlog_file_number") + number * FILES_OF_A_LOG,
            "binlog_file": F.when(number > 0, name).otherwise(F.col("binlog_file")),
        }
    )
