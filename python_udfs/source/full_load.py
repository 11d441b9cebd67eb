"""A full load: the rows that a MySQL table has now, landed.

They land as the messages that Maxwell's own bootstrap writes, so that one path reads both:

    <landing>/topics/full_load.<db>.<table>.<UTC time>/partition=<n>/<topic>+<n>+0.jsonl.gz

Partition 0 holds bootstrap-start and bootstrap-complete, each further one a range of the key as
bootstrap-insert. The topic appears when it is whole, and each load is a topic of its own.

The log goes on at `binlog_before` of bootstrap-start (file:position, noted before the
first row was read). Without a lock each range is read as it is at some time between that and
`binlog_after` of bootstrap-complete: a row that the log changes in between may be read before or
after that change. Under a lock the writers of the table wait until it is read: all rows are of
the one position.
"""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from python_udfs.ingestion.landing.files import FULL_LOAD
from python_udfs.ingestion.landing.object_stores import delete_folder, is_uri, store_of
from python_udfs.servers.errors import ServerError, server_error
from python_udfs.servers.mysql import COMMIT_SECONDS, DRIVER, SESSION, MysqlServer, literal, quoted

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame, SparkSession

    from python_udfs.ingestion.landing.object_stores import ObjectStore

INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
DATES = ("date", "datetime", "timestamp")
TEXTS = (
    *("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
    *("enum", "set", "time"),
)
NUMBERS = (*INTEGERS, "decimal", "float", "double", "year", "bit")
BARE = (*NUMBERS, "json")  # without quotes in a message
COMPACT: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}


@dataclass(frozen=True)
class SourceTable:
    """A table of the server.

    Attributes:
        columns: name -> type without its length, e.g. decimal; in the table's order.
        key: the first column of the primary key where it is an integer, else None.
    """

    database: str
    name: str
    columns: dict[str, str]
    key: str | None

    def __str__(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.name)}"


def table_of(server: MysqlServer, database: str, name: str) -> SourceTable:
    where = f"table_schema = {literal(database)} and table_name = {literal(name)}"
    rows = server.query(
        "select column_name, data_type from information_schema.columns "
        f"where {where} order by ordinal_position"
    )
    if not rows:
        raise ServerError(f"The server has no table {database}.{name} that the user may read.")
    columns = {str(column): str(kind).lower() for column, kind in rows}
    unknown = [
        f"{column} ({kind})"
        for column, kind in columns.items()
        if kind not in (*BINARY, *DATES, *TEXTS, *BARE)
    ]
    if unknown:
        raise ServerError(f"{database}.{name} has columns that can't be read: {unknown}")
    keys = server.query(
        "select column_name from information_schema.key_column_usage "
        f"where {where} and constraint_name = 'PRIMARY' and ordinal_position = 1"
    )
    key = str(keys[0][0]) if keys and columns[str(keys[0][0])] in INTEGERS else None
    return SourceTable(database, name, columns, key)


def bounds(server: MysqlServer, table: SourceTable) -> tuple[int, int] | None:
    """Least and greatest key; None of an empty table, or one without an integer key."""
    if table.key is None:
        return None
    key = quoted(table.key)
    [(low, high)] = server.query(f"select min({key}), max({key}) from {table}")
    return None if low is None or high is None else (int(low), int(high))


def ranges(key: str, bounds: tuple[int, int] | None, count: int) -> list[str]:
    """At most `count` conditions, of which each key fits exactly one.

    The first has no lower and the last no upper end: keys that come meanwhile fit one too.

    >>> ranges("id", (1, 300), 3)
    ['`id` < 101', '`id` >= 101 and `id` < 201', '`id` >= 201']
    >>> ranges("id", None, 3)
    ['true']
    """
    if bounds is None:
        return ["true"]
    low, high = bounds
    size = high - low + 1
    cuts = sorted({low + size * number // count for number in range(1, count)} - {low})
    name = quoted(key)
    starts = [None, *(f"{name} >= {cut}" for cut in cuts)]
    ends = [*(f"{name} < {cut}" for cut in cuts), None]
    parts = zip(starts, ends, strict=True)
    return [" and ".join(filter(None, part)) or "true" for part in parts]


def select(table: SourceTable, condition: str) -> str:
    """A select of the rows, each value as the text that MySQL itself writes (bytes: as bytes)."""
    parts = [
        f"{_value(quoted(column), kind)} as {quoted(column)}"
        for column, kind in table.columns.items()
    ]
    return f"select {', '.join(parts)} from {table} where {condition}"


def _value(name: str, kind: str) -> str:
    if kind in BINARY:
        return name
    if kind in ("float", "double"):  # a float by itself is written with six digits
        return f"cast({name} + 0e0 as char)"
    if kind in NUMBERS:  # a sum has no leading zeros, and is no bits
        return f"cast({name} + 0 as char)"
    text = f"cast({name} as char)"
    return f"if({text} like '0000-00-00%', null, {text})" if kind in DATES else text


def read_at() -> Column:
    """When a row is read, s since the epoch.

    A change that a row may hold is no younger: what came long after the newest row of a load is
    taken not to be in it. current_timestamp() is when all rows began to be read.
    """
    from pyspark.sql import functions as F

    return F.expr("cast(reflect('java.lang.System', 'currentTimeMillis') as bigint) div 1000")


def messages(rows: DataFrame, table: SourceTable, seconds: int | Column) -> DataFrame:
    """One bootstrap-insert message a row of `select`, in the column `value`.

    The text is put together from the texts of its values: a number type would not keep every
    digit of every value.

    Args:
        seconds: the time of the messages, s since the epoch, or of each message.
    """
    from pyspark.sql import functions as F

    def value(name: str, kind: str) -> Column:
        column = F.col(quoted(name))
        if kind in BINARY:
            coded = F.translate(F.base64(column), "\r\n", "")  # Spark cuts it into lines
            text = F.concat(F.lit('"'), coded, F.lit('"'))
        elif kind == "float":
            text = column.cast("double").cast("float").cast("string")
        elif kind == "set":  # a list, as in the log
            text = F.to_json(F.filter(F.split(column, ","), lambda part: part != ""))
        elif kind in BARE:
            text = column
        else:
            text = F.to_json(F.array(column))
            text = F.substr(text, F.lit(2), F.length(text) - 2)
        return F.when(column.isNull(), F.lit("null")).otherwise(text)

    head = json.dumps(head_of(table, "bootstrap-insert", 0), **COMPACT).removesuffix("0}")
    at = F.lit(seconds) if isinstance(seconds, int) else seconds
    parts = [F.lit(head), at.cast("string")]
    before = ',"data":{'
    for name, kind in table.columns.items():
        parts += [F.lit(f"{before}{json.dumps(name, ensure_ascii=False)}:"), value(name, kind)]
        before = ","
    return rows.select(F.concat(*parts, F.lit("}}")).alias("value"))


def head_of(table: SourceTable, kind: str, seconds: int) -> dict[str, Any]:
    return {"database": table.database, "table": table.name, "type": kind, "ts": seconds}


class Landing(Protocol):
    """Where the topic of a load is written: it appears when it is whole."""

    def write_rows(self, texts: DataFrame) -> None:
        """Write the messages of rows, each part of them as a partition from 1 on."""

    def finish(self, lines: str) -> str:
        """Write partition 0; where the topic lies then."""

    def discard(self) -> None:
        """Delete what was written of a load that failed."""


class LandingFolder:
    """A topic in a folder: it is written under a hidden name, and renamed."""

    def __init__(self, landing: str, topic: str) -> None:
        self._place, self._topic = Path(landing) / "topics" / topic, topic
        self._hidden = self._place.with_name(f"_{topic}")  # names that begin so are passed over

    def write_rows(self, texts: DataFrame) -> None:
        self._hidden.mkdir(parents=True)
        texts.write.option("compression", "gzip").text(str(self._hidden / "_rows"))

    def finish(self, lines: str) -> str:
        for number, file in enumerate(sorted((self._hidden / "_rows").glob("part-*.gz")), 1):
            file.rename(self._partition(number))
        shutil.rmtree(self._hidden / "_rows")
        self._partition(0).write_bytes(gzip.compress(lines.encode()))
        self._hidden.rename(self._place)
        return str(self._place)

    def _partition(self, number: int) -> Path:
        folder = self._hidden / f"partition={number}"
        folder.mkdir()
        return folder / f"{self._topic}+{number}+0.jsonl.gz"

    def discard(self) -> None:
        shutil.rmtree(self._hidden, ignore_errors=True)


class LandingStore:
    """A topic in an object store, which can't rename a folder: readers take a full load once its
    partition 0 is there, which is written last. What a task wrote that failed or was late stays
    under a hidden name, and is deleted."""

    def __init__(self, landing: str, topic: str) -> None:
        self._store, self._topic = store_of(landing), topic
        self._place, self._hidden = f"{landing}/topics/{topic}", f"{landing}/topics/_{topic}"
        self._written: list[str] = []

    def write_rows(self, texts: DataFrame) -> None:
        write = rows_writer(self._store, self._hidden)
        self._written = [row.place for row in texts.mapInArrow(write, "place string").collect()]

    def finish(self, lines: str) -> str:
        for number, place in enumerate(sorted(self._written), 1):
            self._store.copy(place, self._partition(number))
        self._store.write(self._partition(0), gzip.compress(lines.encode()))
        delete_folder(self._store, self._hidden)
        return self._place

    def _partition(self, number: int) -> str:
        return f"{self._place}/partition={number}/{self._topic}+{number}+0.jsonl.gz"

    def discard(self) -> None:
        for folder in (self._place, self._hidden):
            with suppress(OSError):
                delete_folder(self._store, folder)


def rows_writer(
    store: ObjectStore, folder: str
) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    """What a task does: it writes its messages as one gzip object, and gives the object's URI;
    nothing where it has no message."""

    def write(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import secrets

        import pyarrow as pa
        import pyarrow.compute as pc

        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return
        place = f"{folder}/{secrets.token_hex(8)}.jsonl.gz"
        with store.created(place) as stream:
            for batch in chain([first], filled):
                texts = pa.ListArray.from_arrays(
                    pa.array([0, batch.num_rows], pa.int32()), batch.column(0).cast(pa.binary())
                )
                stream.write(pc.binary_join(texts, b"\n")[0].as_buffer())
                stream.write(b"\n")
        yield pa.RecordBatch.from_arrays([pa.array([place])], names=["place"])

    return write


def load(
    session: SparkSession,
    options: dict[str, str],
    landing: str,
    name: str,
    range_count: int,
    lock: bool,
) -> tuple[str, int]:
    """Land a table; where its topic lies, and the number of its rows.

    Args:
        options: of JDBC: url, user, password.
        landing: the landing folder, which is made where there is none; or a URI of an object store.
        name: database.table.
        range_count: how many ranges of the key are read.
        lock: whether writers of the table wait meanwhile.

    Raises:
        ServerError: there is no such table, or the server refuses.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    database, _, table_name = name.partition(".")
    if not database or not table_name or "/" in name:  # its name becomes a folder's
        raise ServerError(f"TABLE must be database.table, got {name!r}")
    began = datetime.now(UTC)
    topic = f"{FULL_LOAD}{name}.{began:%Y%m%dT%H%M%S%fZ}"
    landed: Landing = (LandingStore if is_uri(landing) else LandingFolder)(landing, topic)
    server = MysqlServer(session, options)
    try:
        table = table_of(server, database, table_name)
        if lock:
            server.execute(f"lock tables {table} read")
        before = server.position()
        if not lock:
            time.sleep(COMMIT_SECONDS)
        conditions = ranges(table.key or "", bounds(server, table), range_count)
        rows = _read(session, options, [select(table, condition) for condition in conditions])
        counted = Observation()
        texts = messages(rows, table, read_at())
        texts = texts.observe(counted, F.count(F.lit(1)).alias("rows"))
        try:
            landed.write_rows(texts)
        except Exception as exc:
            raise server_error(exc, "The rows could not be read or written") from None
        row_count = int(counted.get["rows"])
        after = server.position()
        if lock:
            server.execute("unlock tables")
        ends = [
            head_of(table, "bootstrap-start", int(began.timestamp()))
            | {"data": {}, "binlog_before": before},
            head_of(table, "bootstrap-complete", int(time.time()))
            | {"data": {}, "binlog_before": before, "binlog_after": after, "rows": row_count},
        ]
        place = landed.finish("".join(json.dumps(message, **COMPACT) + "\n" for message in ends))
    except BaseException:
        landed.discard()
        raise
    finally:
        server.close()
    return place, row_count


def _read(session: SparkSession, options: dict[str, str], queries: Sequence[str]) -> DataFrame:
    """The rows of all queries; each is a task of its own, over a connection of its own."""
    together = None
    for query in queries:
        reader = session.read.format("jdbc").options(**options).option("driver", DRIVER)
        # rows come as they are read, the driver keeps none
        reader = reader.option("fetchsize", str(-(2**31)))
        rows = reader.option("sessionInitStatement", SESSION).option("query", query).load()
        together = rows if together is None else together.unionByName(rows)
    assert together is not None
    return together
