"""A store that speaks MySQL's protocol: MySQL, MariaDB, TiDB.

    PUBLISH_<NAME>_URL         jdbc:mysql://host:port/database
    PUBLISH_<NAME>_USER, PUBLISH_<NAME>_PASSWORD   who may create, drop, select, insert, update and
                               delete there

Spark writes a part's rows into a staging table that nobody reads. Then one transaction takes the
rows of all parts into their tables and writes down the version that each of them holds
(published_version): a reader's statement sees all tables as of one version, whenever the
publication is killed. A RENAME would swap whole tables, but commits by itself, so the version
could not be written with it.

A table's primary key is row_key, a hash of the key's values: null equals null, and texts are
compared by their bytes whatever their collation. The key's own columns have an index, by_key.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dbt.adapters.sparksession.publications import ROW_KEY, SIGN, Held, Part, PublishError, Taken

from python_udfs.mysql import DRIVER, Server, ServerError, literal, quoted, told
from python_udfs.publish import setting

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

VERSION_TABLE = "published_version"
STAGING = "staging__"
LOCK_SECONDS = 60  # that a publication waits for another one to end, or for one that was killed
WRITERS = 4  # connections that fill a staging table
INDEXED_TEXT = 64  # characters
SPARK_TYPES = {
    "boolean": "tinyint",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "double",
    "double": "double",
    "string": "longtext",
    "binary": "longblob",
    "date": "date",
    "timestamp": "datetime(6)",
    "timestamp_ntz": "datetime(6)",
}
# of the types that an exposure may name
TYPE = re.compile(
    r"(?:(?:tiny|small|medium|big)?int(?: unsigned)?|decimal\(\d+,\d+\)|double|date"
    r"|datetime(?:\([0-6]\))?|(?:var)?char\(\d+\)|(?:tiny|medium|long)?text"
    r"|(?:var)?binary\(\d+\)|(?:tiny|medium|long)?blob|json)"
)
SESSION = "sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',time_zone='+00:00'"
CREATE_VERSIONS = f"""
create table if not exists {VERSION_TABLE} (
    table_name varchar(64) not null primary key,
    version bigint not null,
    mark varchar(64) not null,
    published_at datetime(6) not null
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin
"""


def mysql_type(kind: str) -> str | None:
    """The type that holds all values of one of Spark's; None: MySQL has none.

    >>> mysql_type("decimal(38,4)")
    'decimal(38,4)'
    """
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    if decimal:
        return kind if int(decimal[2]) <= 30 else None
    if kind.startswith(("array", "struct", "map")):
        return "longtext"
    if kind.startswith(("varchar", "char")):
        return "longtext"
    return SPARK_TYPES.get(kind)


def column_types(kinds: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Column -> MySQL's type.

    Args:
        kinds: column -> Spark's type.
        given: column -> MySQL's type, where an exposure says it.

    Raises:
        PublishError: columns without one.
    """
    problems = [f"types names {one}, which the rows lack" for one in given if one not in kinds]
    problems += [
        f"{kind!r} of column {one} is no type that is known here"
        for one, kind in given.items()
        if TYPE.fullmatch(str(kind).lower()) is None
    ]
    types = {one: str(given.get(one) or mysql_type(kind)) for one, kind in kinds.items()}
    problems += [
        f"MySQL has no type for column {one} ({kinds[one]})"
        for one, kind in types.items()
        if kind == "None"
    ]
    if problems:
        raise PublishError("; ".join(problems))
    return {one: kind.lower() for one, kind in types.items()}


def plain_type(kind: str) -> str:
    """A type as all servers write it.

    >>> plain_type("bigint(20) unsigned")
    'bigint unsigned'
    """
    kind = re.sub(r"^((?:tiny|small|medium|big)?int)\(\d+\)", r"\1", kind.lower())
    # MariaDB has no type json of its own
    return {"json": "longtext"}.get(kind, kind)


def differences(types: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What a table's columns have otherwise than they should.

    Args:
        types, found: column -> MySQL's type, as it should be and as it is.
    """
    wanted = {ROW_KEY: "binary(32)"} | dict(types)
    lines = [f"column {one} is missing" for one in wanted if one not in found]
    lines += [f"column {one} is not the model's" for one in found if one not in wanted]
    return lines + [
        f"column {one} is {found[one]}, not {kind}"
        for one, kind in wanted.items()
        if one in found and plain_type(found[one]) != plain_type(kind)
    ]


def create_table(name: str, types: Mapping[str, str], key: Sequence[str], extra: str = "") -> str:
    """DDL of a table, with an index by the key's columns unless it has `extra` ones of its own."""
    columns = "".join(f",\n    {quoted(one)} {kind} null" for one, kind in types.items())
    index = ""
    if not extra:
        indexed = ", ".join(
            quoted(one) + (f"({_prefix(types[one])})" if _prefix(types[one]) else "")
            for one in key[:8]
        )
        index = f",\n    key by_key ({indexed})"
    return (
        f"create table {quoted(name)} (\n    {ROW_KEY} binary(32) not null{extra}{columns},\n"
        f"    primary key ({ROW_KEY}){index}\n"
        ") engine=InnoDB row_format=dynamic default charset=utf8mb4 collate=utf8mb4_bin"
    )


def _prefix(kind: str) -> int:
    """Characters or bytes of a column that an index takes; 0: all of it."""
    if kind.endswith(("text", "blob", "json")):
        return INDEXED_TEXT
    length = re.fullmatch(r"(?:var)?(?:char|binary)\((\d+)\)", kind)
    return INDEXED_TEXT if length and int(length[1]) > INDEXED_TEXT else 0


def written(name: str, kind: str) -> Column:
    """A column as the driver is given it: times as texts, so that no zone has a say; what MySQL
    has no type for as JSON."""
    from pyspark.sql import functions as F

    column = F.col(quoted(name))
    if kind.startswith(("timestamp", "date")):
        return column.cast("string").alias(name)
    if kind.startswith(("array", "struct", "map")):
        options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
        return F.to_json(column, options).alias(name)
    if kind == "boolean":
        return column.cast("tinyint").alias(name)
    return column.alias(name)


def open_store(session: SparkSession, target: str) -> MysqlStore:
    url = setting(target, "URL")
    if not re.fullmatch(r"jdbc:mysql://[^/?]+/[^/?]+(\?.*)?", url):
        raise PublishError(
            f"PUBLISH_{target.upper()}_URL must look like jdbc:mysql://host:port/database"
        )
    options = {
        "url": url,
        "user": setting(target, "USER"),
        "password": setting(target, "PASSWORD", ""),
        "connectTimeout": "10000",
        # values that don't fit are refused; a text's bytes arrive as they are
        "sessionVariables": SESSION,
        "characterEncoding": "UTF-8",
        "rewriteBatchedStatements": "true",
    }
    return MysqlStore(session, options)


class MysqlStore:
    """One database of a server, with a connection that nobody else publishes beside.

    Raises:
        PublishError: the server can't be reached or refuses.
    """

    together = True

    def __init__(self, session: SparkSession, options: dict[str, str]) -> None:
        self._session, self._options = session, options
        try:
            self._server = Server(session, options)
            (locked,) = self._query(
                f"select get_lock(concat('publish.', left(sha1(database()), 40)), {LOCK_SECONDS})"
            )[0]
        except TypeError:
            raise PublishError(
                "the jar of its JDBC driver isn't there, MYSQL_JARS names it"
            ) from None
        except ServerError as exc:
            raise PublishError(_sentence(exc)) from None
        if locked != "1":
            raise PublishError("another publication to it is going on")
        self._held: dict[str, Held] = {}

    def close(self) -> None:
        self._server.close()

    def held(self, tables: Sequence[str]) -> dict[str, Held]:
        """Table -> what it holds, of those that have been published to."""
        if not self._columns(VERSION_TABLE):
            return {}
        # a table that somebody dropped has to be published as a whole
        there = {one for one in tables if self._columns(one)}
        names = ", ".join(literal(one) for one in there) or "''"
        rows = self._query(
            f"select table_name, version, mark from {VERSION_TABLE} where table_name in ({names})"
        )
        self._held = {table: Held(int(version), mark) for table, version, mark in rows}
        return self._held

    def take(self, parts: Sequence[Part]) -> list[Taken]:
        """Let all parts' tables hold their versions, in one transaction."""
        if not self._columns(VERSION_TABLE):
            self._execute(CREATE_VERSIONS)
        for (old,) in self._query(
            "select table_name from information_schema.tables where table_schema = database() "
            f"and left(table_name, {len(STAGING)}) = '{STAGING}'"
        ):
            self._execute(f"drop table {quoted(str(old))}")
        staged: dict[str, str] = {}
        try:
            for part in parts:
                if part.rows is not None:
                    staged[part.publication.table] = self._stage(part)
        except PublishError:
            self._drop(staged.values())
            raise
        # a drop commits: behind a transaction that failed it would make half of it last
        taken = self._commit(parts, staged)
        self._drop(staged.values())
        return taken

    def _stage(self, part: Part) -> str:
        """Write a part's rows into a table of their own; its name."""
        publication = part.publication
        types = column_types(part.kinds, publication.types)
        self._make_or_check(publication.table, types, publication.key)
        name = f"{STAGING}{secrets.token_hex(8)}"
        self._execute(create_table(name, types, (), f",\n    {SIGN} tinyint not null"))
        columns = [written(one, kind) for one, kind in part.kinds.items()]
        frame = part.rows.select(ROW_KEY, SIGN, *columns)
        options = self._options | {"driver": DRIVER, "dbtable": quoted(name)}
        options |= {"numPartitions": str(WRITERS), "batchsize": "5000"}
        try:
            frame.write.format("jdbc").mode("append").options(**options).save()
        except Exception as exc:
            self._drop([name])
            raise PublishError(_write_problem(exc, part)) from None
        return name

    def _make_or_check(self, table: str, types: Mapping[str, str], key: Sequence[str]) -> None:
        """Make a table, or see that it is as it would be made.

        Raises:
            PublishError: it is another one.
        """
        found = self._columns(table)
        if not found:
            # else one that somebody dropped would count as what it held, were this to stop here
            self._execute(f"delete from {VERSION_TABLE} where table_name = {literal(table)}")
            self._execute(create_table(table, types, key))
            return
        problems = differences(types, found)
        (engine,) = self._query(
            "select coalesce(engine, table_type) from information_schema.tables "
            f"where table_schema = database() and table_name = {literal(table)}"
        )[0]
        if str(engine).lower() != "innodb":
            problems.append(f"it is {engine}, which has no transactions")
        keys = self._query(
            "select index_name, group_concat(column_name order by seq_in_index) "
            "from information_schema.statistics where table_schema = database() "
            f"and table_name = {literal(table)} and non_unique = 0 group by index_name"
        )
        if ("PRIMARY", ROW_KEY) not in keys and ROW_KEY in found:
            problems.append(f"its primary key is not {ROW_KEY}")
        problems += [f"it has a unique key {one}" for one, _ in keys if one != "PRIMARY"]
        if problems:
            raise PublishError(
                f"table {table} differs from the model: {', '.join(problems)}"
                " (alter it, or drop it and publish again)"
            )

    def _commit(self, parts: Sequence[Part], staged: Mapping[str, str]) -> list[Taken]:
        self._execute("start transaction")
        names = ", ".join(literal(one.publication.table) for one in parts)
        rows = self._query(
            f"select table_name, version, mark from {VERSION_TABLE} "
            f"where table_name in ({names}) for update"
        )
        now = {table: Held(int(version), mark) for table, version, mark in rows}
        if any(
            part.publication.table in self._held
            and now.get(part.publication.table) != self._held[part.publication.table]
            for part in parts
        ):
            raise PublishError(f"{VERSION_TABLE} was changed by somebody else meanwhile")
        taken = [self._apply(part, staged.get(part.publication.table)) for part in parts]
        for part in parts:
            self._execute(
                f"replace into {VERSION_TABLE} (table_name, version, mark, published_at) values "
                f"({literal(part.publication.table)}, {part.version}, {literal(part.mark)}, "
                "utc_timestamp(6))"
            )
        self._execute("commit")
        return taken

    def _apply(self, part: Part, staging: str | None) -> Taken:
        if staging is None:
            return Taken(part, 0, 0)
        table, staged = quoted(part.publication.table), quoted(staging)
        columns = [quoted(one) for one in part.kinds]
        names = ", ".join([ROW_KEY, *columns])
        join, gone = (
            ("left", "staged.row_key is null")
            if part.whole
            else (
                "inner",
                f"staged.{SIGN} = -1",
            )
        )
        removed = self._change(
            f"delete held from {table} as held {join} join {staged} as staged "
            f"on staged.{ROW_KEY} = held.{ROW_KEY} where {gone}"
        )
        news = ", ".join(f"{one} = values({one})" for one in columns)
        self._change(
            f"insert into {table} ({names}) select {names} from {staged} where {SIGN} = 1 "
            f"on duplicate key update {news}"
        )
        (count,) = self._query(f"select count(*) from {staged} where {SIGN} = 1")[0]
        return Taken(part, int(count or 0), removed)

    def _columns(self, table: str) -> dict[str, str]:
        """Column -> type of a table; none where there is no table."""
        rows = self._query(
            "select column_name, column_type from information_schema.columns "
            f"where table_schema = database() and table_name = {literal(table)} "
            "order by ordinal_position"
        )
        return {str(name): str(kind) for name, kind in rows}

    def _drop(self, staging: Iterable[str]) -> None:
        """Drop staging tables; where that fails the next publication does it."""
        for name in staging:
            with suppress(ServerError):
                self._server.execute(f"drop table if exists {quoted(name)}")

    def _execute(self, sql: str) -> None:
        try:
            self._server.execute(sql)
        except ServerError as exc:
            raise PublishError(_sentence(exc)) from None

    def _change(self, sql: str) -> int:
        try:
            return self._server.change(sql)
        except ServerError as exc:
            raise PublishError(_sentence(exc)) from None

    def _query(self, sql: str) -> list[tuple[str | None, ...]]:
        try:
            return self._server.query(sql)
        except ServerError as exc:
            raise PublishError(_sentence(exc)) from None


def _sentence(exc: ServerError) -> str:
    text = " ".join(str(exc).split())
    return text[:1].lower() + text[1:]


def _write_problem(exc: Exception, part: Part) -> str:
    """Why the rows of a part could not be written, without a row's values but what the server
    itself says."""
    said = str(told(exc, "")).removeprefix(": ").split("\n")[0]
    duplicate = re.match(r"Duplicate entry .* for key", said)
    if duplicate:
        return part.key_is_none()
    return f"rows of table {part.publication.table} were refused: {said}"
