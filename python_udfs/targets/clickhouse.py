"""ClickHouse as a target: a server, or its embedded build (chdb) on a folder.

    PUBLISH_<NAME>_URL         http[s]://host:port/database, or chdb:/folder/database
    PUBLISH_<NAME>_USER, PUBLISH_<NAME>_PASSWORD   of a server; who may create, drop, alter, select
                               and insert there
    PUBLISH_<NAME>_FOLDER      a folder that this process and Spark's tasks write; by default
                               Spark's local one

A published table is a view over `<table>__rows`, a ReplacingMergeTree by published_as (a number
that grows with each publication) and is_deleted, read with FINAL. Spark writes a part's rows as
parquet, the store takes them into a staging table that nobody reads, makes them one part, and one
`attach partition` (of all rows: `replace partition`) lets readers see them, all at once. ClickHouse
has no transaction across tables: each table is of one version, several may be of two for a moment.

The table `published_version` records what each table holds, and what was begun. A publication that
was killed is finished by the next publication; rows that it had attached give way to the same rows.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from dbt.adapters.sparksession.versions.targets import (
    ROW_KEY,
    SIGN,
    PublishError,
    StoreState,
    TableUpdate,
    UpdateResult,
)

from python_udfs.servers import clickhouse
from python_udfs.servers.clickhouse import words_of
from python_udfs.servers.errors import ServerError
from python_udfs.targets import RECORDS_TABLE, is_tls_wanted, setting
from python_udfs.targets.columns import column_differences
from python_udfs.targets.row_counts import check_rows, counted, rows_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_SUFFIX, STAGING = "__rows", "staging__"
NUMBER, IS_DELETED = "published_as", "is_deleted"
HELD_ENGINE = f"ReplacingMergeTree({NUMBER}, {IS_DELETED})"
SPARK_TYPES = {
    "boolean": "Bool",
    "tinyint": "Int8",
    "smallint": "Int16",
    "int": "Int32",
    "bigint": "Int64",
    "float": "Float64",
    "double": "Float64",
    "string": "String",
    "binary": "String",
    "date": "Date32",
    "timestamp": "DateTime64(6, 'UTC')",
    "timestamp_ntz": "DateTime64(6, 'UTC')",
}
TYPE = re.compile(
    r"U?Int(?:8|16|32|64|128|256)|Decimal\(\d+, ?\d+\)|String|LowCardinality\(String\)|Float64"
)
ELSEWHERE = "set PUBLISH_<NAME>_FOLDER to one that this process and all of Spark's tasks share"
LOST = (
    "do the address and the tables lead to one server? Publish again, it begins with this version"
)
FIRST, END = "1900-01-01", "2299-01-01"  # days that ClickHouse's types hold
CREATE_VERSIONS = (
    f"create table if not exists {RECORDS_TABLE} "
    "(table_name String, recorded_as UInt64, record String) "
    "engine = ReplacingMergeTree(recorded_as) order by table_name"
)


class Client(Protocol):
    """Takes statements of one database."""

    def query(self, sql: str) -> list[list[Any]]: ...

    def insert(self, sql: str, structure: str, file: Path) -> None: ...

    def close(self) -> None: ...


@contextmanager
def _publish_errors() -> Iterator[None]:
    """What the server refuses is why it isn't published to."""
    try:
        yield
    except ServerError as exc:
        raise PublishError(str(exc)) from None


class Remote:
    """A server, by HTTP."""

    def __init__(self, url: str, database: str, user: str, password: str) -> None:
        with _publish_errors():
            self._server = clickhouse.ClickhouseServer(url, database, user, password)

    def query(self, sql: str) -> list[list[Any]]:
        with _publish_errors():
            return self._server.query(sql)

    def insert(self, sql: str, structure: str, file: Path) -> None:
        statement = sql.format(rows=f"input({literal(structure)})")
        with _publish_errors():
            self._server.insert(statement, "Parquet", file)

    def close(self) -> None:
        self._server.close()


class Embedded:
    """chdb on a folder; one process at a time may have it."""

    def __init__(self, folder: str, database: str) -> None:
        try:
            from chdb.session import Session
        except ImportError:
            raise PublishError(
                "its URL names chdb, which isn't installed (pip install chdb)"
            ) from None
        try:
            self._session = Session(folder)
            self._session.query(f"create database if not exists {quoted(database)} engine=Atomic")
            self._session.query(f"use {quoted(database)}")
        except Exception as exc:
            raise PublishError(f"{folder} can't be opened: {words_of(str(exc))}") from None

    def query(self, sql: str) -> list[list[Any]]:
        try:
            text = str(self._session.query(sql, "JSONCompact"))
        except Exception as exc:
            raise PublishError(f"it refused: {words_of(str(exc))}") from None
        return json.loads(text)["data"] if text.strip() else []

    def insert(self, sql: str, structure: str, file: Path) -> None:
        rows = f"file({literal(str(file))}, 'Parquet', {literal(structure)})"
        self.query(sql.format(rows=rows))

    def close(self) -> None:
        self._session.close()


def quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column_types(kinds: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Column -> ClickHouse's type.

    Raises:
        PublishError: columns without a type.
    """
    problems = [
        f"types names {column}, which the rows lack" for column in given if column not in kinds
    ]
    found = {}
    for column, kind in kinds.items():
        own = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
        usual = f"Decimal({own[1]}, {own[2]})" if own else SPARK_TYPES.get(kind)
        if kind.startswith(("array", "struct", "map", "varchar", "char")):
            usual = "String"
        wrong = _problem(str(given[column]), kind, usual) if column in given else None
        if wrong:
            problems.append(f"{given[column]!r} of column {column} {wrong}")
        elif column not in given and usual is None:
            problems.append(f"ClickHouse has no type for column {column} ({kind})")
        wanted = str(given.get(column) or usual)
        nullable = "LowCardinality(Nullable(String))" if "Low" in wanted else f"Nullable({wanted})"
        found[column] = nullable
    if problems:
        raise PublishError("; ".join(problems))
    return found


def _problem(wanted: str, kind: str, usual: str | None) -> str | None:
    """What is wrong with a type that an exposure names for one of Spark's; ClickHouse would cut
    places off without a word, or take a null for what it can't read."""
    if not TYPE.fullmatch(wanted):
        return "is an unknown type"
    places = re.fullmatch(r"decimal\(\d+,(\d+)\)", kind)
    is_number = places is not None or kind in ("tinyint", "smallint", "int", "bigint")
    own = int(places[1]) if places else 0
    decimal = re.fullmatch(r"Decimal\(\d+, ?(\d+)\)", wanted)
    if decimal and is_number:
        return f"would cut places off a {kind}" if int(decimal[1]) < own else None
    fits = wanted == usual or wanted == "String"
    fits |= wanted == "LowCardinality(String)" and usual == "String" and kind != "binary"
    fits |= "Int" in wanted and (kind == "boolean" or (is_number and own == 0))
    return None if fits else f"is no type that holds any {kind}"


def _exact(value: str, kind: str) -> str:
    """SQL of a value on its way into a column: a whole number that doesn't fit is an error, else it
    would become another number.

    Args:
        kind: of the column.
    """
    return f"accurateCast({value}, {literal(kind)})" if "Int" in kind else value


def written(name: str, kind: str) -> tuple[str, str, str]:
    """A column on its way: SQL of Spark, type in the file, SQL of ClickHouse.

    Times are numbers there, so that no zone and no format has a say.
    """
    column = quoted(name)
    if kind.startswith(("timestamp", "date")):
        number, back = f"unix_date({column})", f"toDate32({column})"
        if kind == "timestamp":
            number = f"unix_micros({column})"
        elif kind == "timestamp_ntz":
            number = f"unix_micros(to_utc_timestamp({column}, 'UTC'))"
        if kind != "date":
            back = f"fromUnixTimestamp64Micro({column}, 'UTC')"
        problem = f"'{name} is outside {FIRST} to {END}, the days of ClickHouse'"
        inside = f"{column} is null or ({column} >= '{FIRST}' and {column} < '{END}')"
        sql = f"if({inside}, {number}, raise_error({problem}))"
        return sql, "Nullable(Int32)" if kind == "date" else "Nullable(Int64)", back
    if kind.startswith(("array", "struct", "map")):
        times = "yyyy-MM-dd HH:mm:ss.SSSSSS"
        options = f"map('ignoreNullFields', 'false', 'timestampFormat', '{times}')"
        return f"to_json({column}, {options})", "Nullable(String)", column
    if kind == "float":
        return f"cast({column} as double)", "Nullable(Float64)", column
    (kind_here,) = column_types({name: kind}, {}).values()
    return column, kind_here, column


def _no_url(target: str) -> str:
    return (
        f"PUBLISH_{target.upper()}_URL must look like http://host:8123/database or "
        "chdb:/folder/database (an absolute path)"
    )


def open_store(session: SparkSession, target: str, warehouse: str) -> ClickhouseStore:
    try:
        url = urlsplit(setting(target, "URL"))
        _ = url.port  # it is read when it is asked for
    except ValueError:
        raise PublishError(_no_url(target)) from None
    if url.username or url.password or url.query:
        raise PublishError(
            f"PUBLISH_{target.upper()}_URL holds a user, a password or options, which are not "
            f"read from it: set PUBLISH_{target.upper()}_USER and _PASSWORD (or _PASSWORD_FILE)"
        )
    if is_tls_wanted(target) and url.scheme == "http":
        raise PublishError(
            f"PUBLISH_{target.upper()}_TLS asks for TLS, its URL begins with http: use https"
        )
    path, _, database = url.path.rstrip("/").rpartition("/")
    client: Client
    if url.scheme == "chdb" and path.startswith("/") and database:
        client = Embedded(path, database)
    elif url.scheme in ("http", "https") and url.hostname and database and not path:
        user, password = setting(target, "USER", "default"), setting(target, "PASSWORD", "")
        client = Remote(f"{url.scheme}://{url.netloc}", database, user, password)
    else:
        raise PublishError(_no_url(target))
    place = Path(setting(target, "FOLDER", session.conf.get("spark.local.dir", "target")))
    folder = place.absolute() / f"publish_{secrets.token_hex(8)}"
    return ClickhouseStore(client, folder, warehouse)


class ClickhouseStore:
    """A database of ClickHouse.

    Args:
        folder: for the files of a publication.
        warehouse: id of the warehouse that publishes; names of its staging tables hold it.

    Raises:
        PublishError: it can't be reached or refuses.
    """

    together = False

    def __init__(self, client: Client, folder: Path, warehouse: str) -> None:
        self._client, self._folder = client, folder
        self._staging = f"{STAGING}{warehouse}_"
        self._records: dict[str, dict[str, Any]] = {}
        self._number = 0
        self._client.query("select 1")

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._client.close()

    def held(self, tables: Sequence[str]) -> dict[str, StoreState]:
        """Table -> what it holds, of those that have been published to."""
        if not self._columns(RECORDS_TABLE):
            return {}
        # numbers above 2^53 come as texts
        (self._number,) = (
            int(number)
            for number in self._client.query(f"select max(recorded_as) from {RECORDS_TABLE}")[0]
        )
        rows = self._client.query(f"select table_name, record from {RECORDS_TABLE} final")
        self._records = {
            table: json.loads(record)
            for table, record in rows
            if table in tables and self._columns(table + ROWS_SUFFIX)
        }
        return {
            table: StoreState(
                record.get("version", 0),
                record.get("mark", ""),
                record.get("begun_version", 0),
                record.get("begun_mark", ""),
            )
            for table, record in self._records.items()
        }

    def take(self, parts: Sequence[TableUpdate]) -> list[UpdateResult]:
        """Let each part's table hold its version."""
        return [self._take(part) for part in parts]

    def _take(self, part: TableUpdate) -> UpdateResult:
        table = part.publication.table
        if part.publication.mode:
            raise PublishError(f"mode of table {table} is for topics alone")
        self._client.query(CREATE_VERSIONS)
        record = self._records.get(table, {})
        done = {"version": part.version, "mark": part.mark}
        if part.rows is None:
            self._record_version(table, record | done)
            return UpdateResult(part, 0, 0)
        types = column_types(part.kinds, part.publication.types)
        self._make_or_check(table, types)
        self._record_version(
            table, record | {"begun_version": part.version, "begun_mark": part.mark}
        )
        staging, sent = self._stage(part, types)
        number = self._number  # that the staged rows are published as
        rows, held = quoted(staging), quoted(table + ROWS_SUFFIX)
        written_rows, removed = self._counts(part, rows)
        staged = written_rows + removed
        check_rows(table, sent, staged, "the staging table")
        if part.whole:
            before = self._client.query(
                f"select count() from {held} final where {ROW_KEY} not in "
                f"(select {ROW_KEY} from {rows})"
            )
            removed = int(before[0][0])
            how = (
                f"replace partition tuple() from {rows}"
                if written_rows
                else "drop partition tuple()"
            )
            self._client.query(f"alter table {held} {how}")
        elif written_rows or removed:
            self._client.query(f"optimize table {rows} final")
            self._client.query(f"alter table {held} attach partition tuple() from {rows}")
        ((loaded,),) = self._client.query(f"select count() from {held} where {NUMBER} = {number}")
        check_rows(table, staged, int(loaded), "its table", LOST)
        self._client.query(f"drop table {rows} sync")
        self._record_version(table, self._records[table] | done)
        return UpdateResult(part, written_rows, removed)

    def _counts(self, part: TableUpdate, staging: str) -> tuple[int, int]:
        """Rows to write and rows to take away; each key has to be there once."""
        (counts,) = self._client.query(
            f"select countIf({IS_DELETED} = 0), countIf({IS_DELETED} = 1), "
            f"count() - uniqExact({ROW_KEY}) from {staging}"
        )
        there, gone, twice = map(int, counts)
        if twice:
            raise PublishError(part.duplicate_key_message())
        return there, gone

    def _make_or_check(self, table: str, types: Mapping[str, str]) -> None:
        """Make a table and its view, or see that they are as they would be made.

        Raises:
            PublishError: they are others.
        """
        name = table + ROWS_SUFFIX
        found = self._columns(name)
        if self._columns(table) and not (found and self._is_view(table)):
            raise PublishError(f"{table} is there, and was not made by publishing")
        if not found:
            self._record_version(table, {})  # the record of a table that somebody dropped
            self._client.query(_create(name, types, HELD_ENGINE))
        else:
            problems = column_differences(_columns(types), found, _plain)
            unknown = table not in self._records
            if unknown and self._client.query(f"select 1 from {quoted(name)} limit 1"):
                problems.append(f"it has rows, and {RECORDS_TABLE} doesn't know it")
            if problems:
                raise PublishError(
                    f"table {name} differs from the model: {', '.join(problems)}"
                    " (alter it, or drop it and publish again)"
                )
        columns = ", ".join(map(quoted, types))
        self._client.query(
            f"create or replace view {quoted(table)} as select {columns} from {quoted(name)} final"
        )

    def _stage(self, part: TableUpdate, types: Mapping[str, str]) -> tuple[str, int]:
        """Write a part's rows into a table of their own; its name, and how many rows Spark sent."""
        for (old,) in self._client.query(
            "select name from system.tables where database = currentDatabase() "
            f"and startsWith(name, {literal(self._staging)})"
        ):
            self._client.query(f"drop table {quoted(old)} sync")
        name = self._staging + secrets.token_hex(8)
        # one that keeps equal keys, so that they are found
        self._client.query(_create(name, types, "MergeTree"))
        self._number += 1
        ways = {column: written(column, kind) for column, kind in part.kinds.items()}
        folder = self._folder / name
        spark = [f"{sql} as {quoted(way)}" for way, (sql, _, _) in ways.items()]
        frame, sent = counted(part.rows.selectExpr(ROW_KEY, SIGN, *spark))
        try:
            frame.write.parquet(folder.as_uri())
        except Exception as exc:
            raise PublishError(
                f"rows of {part.publication.table} were refused: {_cause(exc)}"
            ) from None
        structure = f"{ROW_KEY} String, {SIGN} Int32" + "".join(
            f", {quoted(way)} {kind}" for way, (_, kind, _) in ways.items()
        )
        names = ", ".join(quoted(way) for way in [ROW_KEY, *ways, NUMBER, IS_DELETED])
        values = "".join(
            f", {_exact(back, types[column])}" for column, (_, _, back) in ways.items()
        )
        sql = (
            f"insert into {quoted(name)} ({names}) select {ROW_KEY}{values}, {self._number}, "
            f"{SIGN} = -1 from "
        ).replace("{", "{{").replace("}", "}}") + "{rows}"
        files = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
        # on a cluster tasks write a folder of their own machine, which isn't this machine's
        check_rows(part.publication.table, sent(), rows_in(files), f"{self._folder}", ELSEWHERE)
        for file in files:
            self._client.insert(sql, structure, file)
        shutil.rmtree(folder)
        return name, sent()

    def _record_version(self, table: str, record: dict[str, Any]) -> None:
        """Write down what a table holds."""
        self._number += 1
        self._client.query(
            f"insert into {RECORDS_TABLE} (table_name, recorded_as, record) "
            f"select {literal(table)}, {self._number}, {literal(json.dumps(record))}"
        )
        self._records[table] = record

    def _is_view(self, table: str) -> bool:
        """Whether it is the view that publishing makes of a table's rows."""
        rows = self._client.query(
            "select engine, create_table_query from system.tables "
            f"where database = currentDatabase() and name = {literal(table)}"
        )
        return any(engine == "View" and f"{table}{ROWS_SUFFIX}" in sql for engine, sql in rows)

    def _columns(self, table: str) -> dict[str, str]:
        """Column -> type of a table; none where there is no table."""
        rows = self._client.query(
            "select name, type from system.columns where database = currentDatabase() "
            f"and table = {literal(table)} order by position"
        )
        return dict(rows)


def _columns(types: Mapping[str, str]) -> dict[str, str]:
    return {ROW_KEY: "FixedString(32)", **types, NUMBER: "UInt64", IS_DELETED: "UInt8"}


def _create(name: str, types: Mapping[str, str], engine: str) -> str:
    columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in _columns(types).items())
    return f"create table {quoted(name)} ({columns}) engine = {engine} order by {ROW_KEY}"


def _plain(kind: str) -> str:
    return kind.replace(" ", "")


def _cause(exc: Exception) -> str:
    """The innermost cause of an error of Spark."""
    java = getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return str(java.getMessage() if java is not None else exc).split("\n")[0]
