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
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from python_udfs.servers.errors import ServerError, server_error
from python_udfs.servers.mysql import COMMIT_SECONDS, DRIVER, SESSION, MysqlServer, literal, quoted

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

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


def messages(rows: DataFrame, table: SourceTable, seconds: int) -> DataFrame:
    """One bootstrap-insert message a row of `select`, in the column `value`.

    The text is put together from the texts of its values: a number type would not keep every
    digit of every value.

    Args:
        seconds: the time of the messages, s since the epoch.
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

    head = json.dumps(head_of(table, "bootstrap-insert", seconds), **COMPACT)
    parts: list[Column] = []
    before = f'{head[:-1]},"data":{{'
    for name, kind in table.columns.items():
        parts += [F.lit(f"{before}{json.dumps(name, ensure_ascii=False)}:"), value(name, kind)]
        before = ","
    return rows.select(F.concat(*parts, F.lit("}}")).alias("value"))


def head_of(table: SourceTable, kind: str, seconds: int) -> dict[str, Any]:
    return {"database": table.database, "table": table.name, "type": kind, "ts": seconds}


def load(
    session: SparkSession,
    options: dict[str, str],
    landing: Path,
    name: str,
    range_count: int,
    lock: bool,
) -> tuple[Path, int]:
    """Land a table; the folder of its topic and the number of its rows.

    Args:
        options: of JDBC: url, user, password.
        landing: the landing folder; it is made where there is none.
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
    topic = f"full_load.{name}.{began:%Y%m%dT%H%M%S%fZ}"
    topics = landing / "topics"
    hidden = topics / f"_{topic}"  # names that begin so are passed over
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
        texts = messages(rows, table, int(began.timestamp()))
        texts = texts.observe(counted, F.count(F.lit(1)).alias("rows"))
        hidden.mkdir(parents=True)
        try:
            texts.write.option("compression", "gzip").text(str(hidden / "_rows"))
        except Exception as exc:
            raise server_error(exc, "The rows could not be read or written") from None
        row_count = int(counted.get["rows"])
        after = server.position()
        if lock:
            server.execute("unlock tables")
        _place_rows(hidden, topic)
        ends = [
            head_of(table, "bootstrap-start", int(began.timestamp()))
            | {"data": {}, "binlog_before": before},
            head_of(table, "bootstrap-complete", int(time.time()))
            | {"data": {}, "binlog_before": before, "binlog_after": after, "rows": row_count},
        ]
        lines = "".join(json.dumps(message, **COMPACT) + "\n" for message in ends)
        _partition(hidden, topic, 0).write_bytes(gzip.compress(lines.encode()))
        hidden.rename(topics / topic)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    finally:
        server.close()
    return topics / topic, row_count


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


def _place_rows(hidden: Path, topic: str) -> None:
    """Give the files that Spark wrote the names of landed files, each its own partition."""
    for number, file in enumerate(sorted((hidden / "_rows").glob("part-*.gz")), 1):
        file.rename(_partition(hidden, topic, number))
    shutil.rmtree(hidden / "_rows")


def _partition(folder: Path, topic: str, number: int) -> Path:
    place = folder / f"partition={number}"
    place.mkdir()
    return place / f"{topic}+{number}+0.jsonl.gz"
