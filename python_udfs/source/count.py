"""Counts by the source database itself, with the binlog position at which they hold."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, ValidationError

from python_udfs.ingestion.formats import maxwell
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.tables.log_resets import FILES_OF_A_LOG, LogReset, log_resets, placed
from python_udfs.ingestion.tables.topics import of_topics
from python_udfs.servers.errors import ServerError
from python_udfs.servers.mysql import (
    COMMIT_SECONDS,
    MysqlServer,
    is_lock_wanted,
    quoted,
    settings,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# properties of the model's commits: binlog position of its counts, and of the last change of the
# table before it, as far as known; each as file number:position
POSITION_PROPERTY = "source.position"
CHANGE_PROPERTY = "source.last_change"

KEYS = ("database", "table", "topic", "dimensions", "measures")
ROUNDS = 5  # that a busy server is asked, until its binlog stands still
LOCK_SECONDS = 5  # that writers may have to wait for
PAGE, PAGES = 5_000, 10  # of binlog events that are looked through

Name = Annotated[StrictStr, Field(min_length=1)]
Place = tuple[int, int]  # number of the binlog file, position in it


@dataclass(frozen=True)
class CountedTable:
    """What is counted at the source.

    Attributes:
        dimensions: column -> Spark type.
        measures: name -> (MySQL's expression, Spark type).
        topic: shell patterns of the topics that the server's log comes by.
        log_resets: where its binlog restarted; the server that is asked writes the last log.
    """

    database: str
    table: str
    topic: list[str]
    dimensions: dict[str, str]
    measures: dict[str, tuple[str, str]]
    log_resets: tuple[LogReset, ...] = ()

    @property
    def name(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.table)}"

    @property
    def sql(self) -> str:
        """A select of the groups, every value as text; dimensions as their bytes in hex.

        Grouped by bytes: the table's collation may take different texts for one.
        """
        keys = ", ".join(
            f"cast(convert({quoted(name)} using utf8mb4) as binary) as {quoted(name)}"
            for name in self.dimensions
        )
        rows = ", ".join(f"{sql} as {quoted(name)}" for name, (sql, _) in self.measures.items())
        by = ", ".join(str(number + 1) for number in range(len(self.dimensions)))
        texts = [f"hex({quoted(name)})" for name in self.dimensions]
        texts += [f"cast({quoted(name)} as char)" for name in self.measures]
        return (
            f"select {', '.join(texts)} from "
            f"(select {keys}, {rows} from {self.name} group by {by}) as counted"
        )


class Measure(BaseModel):
    """A measure of `meta.source_count`: MySQL's expression and Spark's type of it."""

    model_config = ConfigDict(extra="forbid")

    sql: Name
    type: Name


class Declared(BaseModel):
    """`meta.source_count` of a model; a field's description completes `.. must`."""

    model_config = ConfigDict(extra="forbid")

    database: Annotated[Name, Field(description="be a name")]
    table: Annotated[Name, Field(description="be a name")]
    topic: Annotated[
        list[Name],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        Field(min_length=1, description="be a topic or a list of them, as shell patterns"),
    ]
    dimensions: Annotated[
        dict[Name, Name], Field(min_length=1, description="map columns to Spark's types")
    ]
    measures: Annotated[
        dict[Name, Measure],
        Field(min_length=1, description="map names to {sql: MySQL's expression, type: Spark's}"),
    ]
    log_resets: Any = None  # checked by its own rules


def counted_table(model: str, declared: Any) -> CountedTable:
    """The declaration `meta.source_count` of a model.

    Raises:
        ValueError: it lacks something, or has something else.
    """
    given = declared if isinstance(declared, dict) else {}
    problems = [] if given is declared else [f"it must be a mapping, got {declared!r}"]
    count: Declared | None = None
    try:
        count = Declared.model_validate(given)
    except ValidationError as error:
        wrong = dict.fromkeys(str(mistake["loc"][0]) for mistake in error.errors())
        known = Declared.model_fields
        lacking = [name for name in wrong if name not in given]
        if lacking and given is declared:
            problems.append(f"it lacks {', '.join(lacking)}")
        problems += [
            f"`{name}` must {known[name].description}, got {given[name]!r}"
            if name in known
            else f"`{name}` is not known (known: {', '.join(known)})"
            for name in wrong
            if name in given
        ]
    resets, more = log_resets(given.get("log_resets"), maxwell)
    problems += more
    if problems or count is None:
        raise ValueError(
            f"{model}: meta.source_count has problems: {'; '.join(problems)}. It must have the "
            f"keys {', '.join(KEYS)}. Example: see models/dqc/trade/_trade__models.yml"
        )
    return CountedTable(
        count.database,
        count.table,
        count.topic,
        count.dimensions,
        {name: (measure.sql, measure.type) for name, measure in count.measures.items()},
        tuple(resets),
    )


def source_count(dbt: Any, session: SparkSession, binlog: DataFrame) -> DataFrame:
    """Rows of a model that holds what the source counts, all of one place in its binlog.

    Args:
        dbt: with config meta `source_count`, see CountedTable.
        binlog: dbt.ref("ods_binlog"), which shows how far the log has come.

    Raises:
        ServerError: the server can't be reached, refuses, or is too busy.
    """
    from pyspark.sql import functions as F

    counted = counted_table(dbt.this.identifier, dbt.meta.get("source_count"))
    options = settings()
    server = MysqlServer(session, options)
    try:
        begin = _begin_under_lock if is_lock_wanted() else _begin_in_quiet
        position = begin(server, session, options, counted)
        rows = server.frame(counted.sql, [*counted.dimensions, *counted.measures])
        server.execute("commit")
        changed = last_change(server, counted, _newest(binlog, counted), position)
    finally:
        server.close()
    dbt.set_snapshot_property(POSITION_PROPERTY, _text(position, counted))
    dbt.set_snapshot_property(CHANGE_PROPERTY, _text(changed, counted))
    keys = {
        name: F.decode(F.unhex(name), "UTF-8").cast(kind)
        for name, kind in counted.dimensions.items()
    }
    sums = {name: F.col(name).cast(kind) for name, (_, kind) in counted.measures.items()}
    return rows.select(*(key.alias(name) for name, key in (keys | sums).items()))


SNAPSHOT = "start transaction with consistent snapshot"
LEVEL = "set session transaction isolation level repeatable read"


def _begin_in_quiet(
    server: MysqlServer, session: SparkSession, options: dict[str, str], counted: CountedTable
) -> str:
    """Begin to read as of a moment at which the binlog stood still; where it stood."""
    server.execute(LEVEL)
    for _ in range(ROUNDS):
        before = server.position()
        time.sleep(COMMIT_SECONDS)
        server.execute(SNAPSHOT)
        if server.position() == before:
            return before
        server.execute("rollback")
    raise ServerError(
        f"The binlog went on each of the {ROUNDS} times that it was watched for "
        f"{COMMIT_SECONDS} s, so no consistent binlog position was found. With MYSQL_LOCK=true the "
        "writers of the table wait for the moment that it takes (needs LOCK TABLES)."
    )


def _begin_under_lock(
    server: MysqlServer, session: SparkSession, options: dict[str, str], counted: CountedTable
) -> str:
    """Begin to read while writers of the table wait, a moment; where the binlog stood."""
    server.execute(LEVEL)
    locking = MysqlServer(session, options)  # a transaction that begins would end its own lock
    try:
        locking.execute(f"set session lock_wait_timeout = {LOCK_SECONDS}")
        locking.execute(f"lock tables {counted.name} read")
        position = locking.position()
        server.execute(SNAPSHOT)
    finally:
        locking.close()
    return position


def _newest(binlog: DataFrame, counted: CountedTable) -> tuple[str, int] | None:
    """Binlog file and position of the newest change that the log has; None where there is none.

    Of the last log, which the server writes.
    """
    from pyspark.sql import functions as F

    place = F.struct("binlog_file_number", "binlog_position")
    begin = len(counted.log_resets) * FILES_OF_A_LOG
    known = binlog.withColumn("file", F.col("binlog_file"))
    row = (
        placed(known, counted.log_resets, maxwell, LIVE)
        .where(of_topics(counted.topic) & F.col("binlog_position").isNotNull())
        .where(F.col("binlog_file_number") >= begin)
        .withColumn("binlog_file", F.col("file"))
        .agg(F.max_by(F.struct("binlog_file", "binlog_position"), place).alias("newest"))
        .first()
    )
    if row is None or row.newest is None:
        return None
    return row.newest.binlog_file, row.newest.binlog_position


def last_change(
    server: Any, counted: CountedTable, known: tuple[str, int] | None, position: str
) -> str:
    """The place of the last change of the table before `position`, as far as that is known.

    A log has no message of its end: without changes it isn't known to have come so far. So the
    events behind the newest known one are looked through. Where they can't be, or are too many,
    it is `position`: the log must have got beyond it then.

    Args:
        server: a MysqlServer, or what answers `query` as one.
        known: binlog file and position of the newest change that the log has.
        position: file:position.
    """
    end = _place(position)
    if known is None:
        return position
    if _place(":".join(map(str, known))) >= end:
        return position
    changed = ":".join(map(str, known))
    try:
        files = [str(row[0]) for row in server.query("show binary logs")]
        behind = [file for file in files if _place(f"{known[0]}:0")[0] <= _place(f"{file}:0")[0]]
        if not behind or behind[0] != known[0]:
            return position  # it has been purged
        pages = PAGES
        for file in behind:
            start = known[1] if file == known[0] else 4
            ours = file == known[0]  # the rows at `known` are of a table that isn't named there
            while pages:
                pages -= 1
                events = server.query(f"show binlog events in '{file}' from {start} limit {PAGE}")
                for _, at, kind, _, _, info in events:
                    place = f"{file}:{at}"
                    if _place(place) >= end:
                        return changed
                    if kind == "Table_map":
                        ours = f"({counted.database}.{counted.table})" in str(info)
                    elif str(kind).startswith(("Write_rows", "Update_rows", "Delete_rows")):
                        changed = place if ours else changed
                    elif kind == "Query" and counted.table.lower() in str(info).lower():
                        changed = place
                if len(events) < PAGE:
                    break
                start = int(events[-1][4])
            else:
                return position
    except ServerError:  # the user may not: REPLICATION SLAVE
        return position
    return changed


def _place(text: str) -> Place:
    file, _, position = text.rpartition(":")
    return int(file.rpartition(".")[2]), int(position)


def _text(place: str, counted: CountedTable) -> str:
    """file number:position of file:position, as typed models number the last log's files."""
    number, position = _place(place)
    return f"{len(counted.log_resets) * FILES_OF_A_LOG + number}:{position}"
