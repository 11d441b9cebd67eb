"""PostgreSQL as a target.

    PUBLISH_<NAME>_URL         jdbc:postgresql://host:port/database, perhaps with
                               ?currentSchema=schema
    PUBLISH_<NAME>_USER, PUBLISH_<NAME>_PASSWORD   who may create tables in the schema, and
                               select, insert, update and delete in them

How a version gets in: see transactional.py. The tables are those of one schema, the first of the
user's search path. Staging tables are unlogged: a server that crashes empties them, and its end
ends the publication. A pool in between must give the publication one session to itself, since the
lock that keeps others out is the session's.

Each value is held as it is, or the publication is refused. Nested values are of type json, which
keeps their text; jsonb would put keys in an order of its own and has no place for a NUL.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dbt.adapters.sparksession.sql import quoted as spark_quoted
from dbt.adapters.sparksession.versions.targets import (
    ROW_KEY,
    SIGN,
    PublishError,
    TableUpdate,
)

from python_udfs.servers import jdbc
from python_udfs.servers.errors import ServerError
from python_udfs.targets import RECORDS_TABLE, transactional
from python_udfs.targets.columns import column_differences
from python_udfs.targets.transactional import (
    LOCK_SECONDS,
    STAGING,
    TransactionalStore,
    as_json,
    is_nested,
    login,
    misfit,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

NAME_BYTES = 63
LOCK = int.from_bytes(b"publ", "big")  # the first half of an advisory lock's number
FIRST, END = "-4712-01-01", "+294247-01-01"  # days that PostgreSQL's and Spark's types hold
DAYS = "4713 BC to 294246, the years of PostgreSQL"
SPARK_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "double precision",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
# Spark's types -> those that an exposure may name for them, beside numeric for numbers: each value
# is held or refused (json: its text; jsonb and uuid have but one way to write a value)
FITTING = {
    r"tinyint|smallint|int|bigint|decimal\(\d+,0\)": r"smallint|integer|bigint",
    r"string|(?:var)?char\(\d+\)": r"text|varchar\(\d+\)|json|jsonb|uuid",
    r"(?:array|struct|map).*": r"json|jsonb|text",
    r"timestamp|timestamp_ntz": r"timestamptz|timestamp",
}
# as the server writes them, and as exposures may -> as they are written here
OTHER_NAMES = {
    r"int2": "smallint",
    r"int|int4": "integer",
    r"int8": "bigint",
    r"bool": "boolean",
    r"float8": "double precision",
    r"timestamp with time zone": "timestamptz",
    r"timestamp without time zone": "timestamp",
    r"character varying\((\d+)\)": r"varchar(\1)",
    r"(?:numeric|decimal)\((\d+), ?(\d+)\)": r"numeric(\1,\2)",
    r"(?:numeric|decimal)\((\d+)\)": r"numeric(\1,0)",
}
INDEXED_TEXT = 64  # characters of a column in a btree, whose entries have to be small


class PostgresServer(jdbc.JdbcServer):
    """One connection, which reads and writes times in UTC."""

    driver = "org.postgresql.Driver"
    jars = "POSTGRES_JARS"
    example = "jdbc:postgresql://host:port/database"
    # a table that is locked for long is reported, not waited for
    begin = ("set time zone 'UTC'", f"set lock_timeout = '{LOCK_SECONDS}s'")


def postgres_type(kind: str) -> str | None:
    """The type of PostgreSQL that holds all values of a type of Spark, or None without one.

    >>> postgres_type("decimal(38,4)")
    'numeric(38,4)'
    """
    if is_nested(kind):
        return "json"
    if kind.startswith(("varchar", "char")):
        return "text"
    return SPARK_TYPES.get(kind) or (plain_type(kind) if kind.startswith("decimal") else None)


def plain_type(kind: str) -> str:
    """A type by the name that it has here.

    >>> plain_type("character varying(30)")
    'varchar(30)'
    """
    for pattern, name in OTHER_NAMES.items():
        match = re.fullmatch(pattern, kind.lower())
        if match:
            return match.expand(name)
    return kind.lower()


def column_types(kinds: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Column -> PostgreSQL's type; see transactional.column_types."""
    types = {column: plain_type(str(kind)) for column, kind in given.items()}
    return transactional.column_types("PostgreSQL", kinds, types, postgres_type, _problem)


def _problem(wanted: str, kind: str) -> str | None:
    """What is wrong with a type that an exposure names for one of Spark's."""
    if not kind or wanted == postgres_type(kind):
        return None
    return misfit(wanted, kind, FITTING)


def differences(types: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What a table's columns have otherwise than they should.

    Args:
        types, found: column -> PostgreSQL's type, as it should be and as it is.
    """
    return column_differences({ROW_KEY: "bytea"} | dict(types), found, plain_type)


def quoted(name: str) -> str:
    """A name as PostgreSQL's SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as PostgreSQL's SQL has it, whatever the session's settings."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def check_names(names: Sequence[str]) -> None:
    """
    Raises:
        PublishError: names of which the server would take the beginning without a word.
    """
    long = [name for name in names if len(name.encode()) > NAME_BYTES]
    if long:
        raise PublishError(
            f"PostgreSQL's names have at most {NAME_BYTES} bytes, these have more: "
            f"{', '.join(long)}"
        )


def index_by(key: Sequence[str], types: Mapping[str, str]) -> str | None:
    """Definition of an index by the columns of a key, or None where there can be none.

    A long text has no room in a btree. So texts without a short end are left out there; of a key
    that has nothing else the first column's hash is taken, which finds what equals it.

    >>> index_by(["day", "note"], {"day": "date", "note": "text"})
    '("day")'
    >>> index_by(["note"], {"note": "text"})
    'using hash ("note")'
    """

    def is_short(kind: str) -> bool:
        length = re.fullmatch(r"varchar\((\d+)\)", kind)
        if length:
            return int(length[1]) <= INDEXED_TEXT
        return kind not in ("text", "bytea", "json", "jsonb")

    short = [quoted(column) for column in key if is_short(types[column])]
    if short:
        return f"({', '.join(short[:8])})"
    hashed = [quoted(column) for column in key if types[column] not in ("json", "jsonb")]
    return f"using hash ({hashed[0]})" if hashed else None


def written(name: str, kind: str, wanted: str) -> Column:
    """A column as the driver is given it.

    Times are texts with an offset and an era, so that no zone has a say and no year is read as
    another; what PostgreSQL has no place for is an error that names the column.

    Args:
        kind, wanted: the column's type in Spark and in the store.
    """
    from pyspark.sql import functions as F

    column = F.col(spark_quoted(name))
    if kind in ("date", "timestamp", "timestamp_ntz"):
        first, end = (F.lit(day).cast("date").cast(kind) for day in (FIRST, END))
        if kind == "date":
            form = "yyyy-MM-dd G"
        else:
            # the offset of the session's zone, in which Spark writes a timestamp
            offset = "xxxxx" if kind == "timestamp" else "'+00:00'"
            form = f"yyyy-MM-dd HH:mm:ss.SSSSSS{offset if wanted == 'timestamptz' else ''} G"
        # Spark has a plus before years of five digits
        text = F.ltrim(F.date_format(column, form), F.lit("+"))
        refused = (column < first) | (column >= end)
        return F.when(refused, _error(f"column {name} has a time outside {DAYS}")).otherwise(text)
    if is_nested(kind):
        return as_json(column)
    if kind in ("tinyint", "float"):
        return column.cast("smallint" if kind == "tinyint" else "double")
    if kind.startswith(("string", "varchar", "char")):
        nul = "a text with the character NUL, which PostgreSQL has no place for"
        found = F.when(F.contains(column, F.lit("\0")), _error(f"column {name} has {nul}"))
        length = re.fullmatch(r"varchar\((\d+)\)", wanted)
        if length:  # the server would cut blanks off without a word
            longer = f"column {name} has a text that is longer than {length[1]} characters"
            found = found.when(F.length(column) > int(length[1]), _error(longer))
        return found.otherwise(column)
    return column


def _error(expected: str) -> Column:
    from pyspark.sql import functions as F

    return F.raise_error(F.lit(expected))


def open_store(session: SparkSession, target: str, warehouse: str) -> PostgresStore:
    options = login(target, "postgresql", ("sslmode", "verify-full")) | {
        "connectTimeout": "10",
        "tcpKeepAlive": "true",
        # a text goes into a column of any type, as its type reads it
        "stringtype": "unspecified",
        "reWriteBatchedInserts": "true",
        # else an error has the rows' values
        "logServerErrorDetail": "false",
    }
    return PostgresStore(session, options, warehouse)


class PostgresStore(TransactionalStore):
    make = PostgresServer

    def _lock(self) -> bool:
        found = self._query(
            "select nspname, cast(oid as integer) from pg_namespace "
            "where nspname = current_schema()"
        )
        if not found:
            raise PublishError("the schema that its URL names isn't there, or not for its user")
        self._schema, number = map(str, found[0])
        # a publication that was killed in a long statement holds its lock until the server looks
        # for it, which servers before 14 and some systems' don't
        with suppress(ServerError):
            self._server.execute("set client_connection_check_interval = '5s'")
        end = time.monotonic() + LOCK_SECONDS
        while self._query(f"select pg_try_advisory_lock({LOCK}, {number})") != [("t",)]:
            if time.monotonic() > end:
                return False
            time.sleep(0.5)
        return True

    def _name(self, table: str) -> str:
        return f"{quoted(self._schema)}.{quoted(table)}"

    def _literal(self, text: str) -> str:
        return literal(text)

    def _of(self, table: str) -> str:
        """SQL of a condition on pg_class and pg_namespace: the table."""
        return f"nspname = {literal(self._schema)} and relname = {literal(table)}"

    def _columns_of(self, table: str) -> str:
        return (
            "select attname, format_type(atttypid, atttypmod) from pg_attribute "
            "inner join pg_class on pg_class.oid = attrelid "
            "inner join pg_namespace on pg_namespace.oid = relnamespace "
            f"where {self._of(table)} and attnum > 0 and not attisdropped order by attnum"
        )

    def _staging_left(self) -> str:
        return (
            "select relname from pg_class "
            "inner join pg_namespace on pg_namespace.oid = relnamespace "
            f"where nspname = {literal(self._schema)} and relkind = 'r' and relpersistence = 'u' "
            f"and left(relname, {len(self._staging)}) = {literal(self._staging)}"
        )

    def _types(self, part: TableUpdate) -> dict[str, str]:
        check_names([part.publication.table, *part.kinds])
        return column_types(part.kinds, part.publication.types)

    def _create_versions(self) -> str:
        return (
            f"create table if not exists {self._name(RECORDS_TABLE)} (table_name text primary key, "
            "version bigint not null, mark text not null, published_at timestamptz not null)"
        )

    def _create(self, table: str, types: Mapping[str, str], key: Sequence[str]) -> list[str]:
        columns = "".join(f",\n    {quoted(column)} {kind}" for column, kind in types.items())
        index = index_by(key, types)
        made = f"create table {self._name(table)} (\n    {ROW_KEY} bytea primary key{columns}\n)"
        return [made, *([f"create index on {self._name(table)} {index}"] if index else [])]

    def _create_staging(self, name: str, types: Mapping[str, str]) -> str:
        columns = "".join(
            f",\n    {column} {kind}"
            for column, kind in zip(_numbered(types), types.values(), strict=True)
        )
        return (
            f"create unlogged table {self._name(name)} (\n    {ROW_KEY} bytea not null,\n"
            f"    {SIGN} smallint not null{columns}\n)"
        )

    def _differences(
        self, table: str, types: Mapping[str, str], found: Mapping[str, str]
    ) -> list[str]:
        this = "pg_class inner join pg_namespace on pg_namespace.oid = relnamespace"
        problems = differences(types, found)
        ((kind, persistence, hides),) = self._query(
            "select relkind, relpersistence, row_security_active(pg_class.oid) "
            f"from {this} where {self._of(table)}"
        )
        if kind != "r":
            kinds = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
            kinds |= {"p": "a partitioned table"}
            return [*problems, f"it is {kinds.get(str(kind), 'no table')}"]
        if persistence != "p":
            problems.append("it is unlogged, so a crash of the server would empty it")
        if hides == "t":
            problems.append("its row security hides rows")
        keys = self._query(
            "select own.relname, indisprimary, string_agg(attname, ',' order by attnum) "
            f"from {this} inner join pg_index on indrelid = pg_class.oid "
            "inner join pg_class as own on own.oid = indexrelid "
            "left join pg_attribute on attrelid = indrelid and attnum = any(indkey) "
            f"where nspname = {literal(self._schema)} and pg_class.relname = {literal(table)} "
            "and (indisunique or indisexclusion) group by own.relname, indisprimary"
        )
        if ("t", ROW_KEY) not in [index[1:] for index in keys] and ROW_KEY in found:
            problems.append(f"its primary key is not {ROW_KEY}")
        problems += [f"it has a unique key {index}" for index, primary, _ in keys if primary != "t"]
        # a trigger before a row, and a rule, may write something else than the row
        changing = self._query(
            f"select 'trigger ' || tgname from {this} inner join pg_trigger "
            f"on tgrelid = pg_class.oid where {self._of(table)} and not tgisinternal "
            "and tgenabled <> 'D' and tgtype & 3 = 3 "
            f"union all select 'rule ' || rulename from {this} inner join pg_rewrite "
            f"on ev_class = pg_class.oid where {self._of(table)} order by 1"
        )
        return problems + [f"its {trigger} may change rows" for (trigger,) in changing]

    def _written(self, part: TableUpdate, types: Mapping[str, str]) -> list[Column]:
        return [
            written(column, kind, types[column]).alias(number)
            for number, (column, kind) in zip(_numbered(types), part.kinds.items(), strict=True)
        ]

    def _seal(self, name: str) -> None:
        # quicker than a key that grows with the rows
        self._server.execute(f"alter table {self._name(name)} add primary key ({ROW_KEY})")

    def _refusal(self, message: str, part: TableUpdate) -> str:
        if f'"{STAGING}' in message and "_pkey" in message:  # in whatever language
            return part.duplicate_key_message()
        raised = re.fullmatch(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)?", message)
        reason = raised[1] if raised else message
        return f"rows of table {part.publication.table} were refused: {reason}"

    def _remove(self, part: TableUpdate, staged: str) -> str:
        table = self._name(part.publication.table)
        same = f"staged.{ROW_KEY} = held.{ROW_KEY}"
        if part.whole:
            there = f"select 1 from {staged} as staged where {same}"
            return f"delete from {table} as held where not exists ({there})"
        gone = f"{same} and staged.{SIGN} = -1"
        return f"delete from {table} as held using {staged} as staged where {gone}"

    def _put(self, part: TableUpdate, staged: str) -> str:
        own, numbers = [quoted(kind) for kind in part.kinds], _numbered(part.kinds)
        news = ", ".join(f"{column} = excluded.{column}" for column in own)
        return (
            f"insert into {self._name(part.publication.table)} as held "
            f"({', '.join([ROW_KEY, *own])}) "
            f"select {', '.join([ROW_KEY, *numbers])} from {staged} where {SIGN} = 1 "
            # a row that is the same byte for byte isn't rewritten
            f"on conflict ({ROW_KEY}) do update set {news} where (held.*) *<> (excluded.*)"
        )

    def _record_version(self, part: TableUpdate) -> str:
        news = ", ".join(
            f"{column} = excluded.{column}" for column in ("version", "mark", "published_at")
        )
        return (
            f"insert into {self._name(RECORDS_TABLE)} (table_name, version, mark, published_at) "
            f"values ({literal(part.publication.table)}, {part.version}, {literal(part.mark)}, "
            f"clock_timestamp()) on conflict (table_name) do update set {news}"
        )


def _numbered(columns: Mapping[str, str]) -> list[str]:
    """Names of a staging table's columns: Spark's writer doesn't quote any name that there is."""
    return [f"c{number}" for number, _ in enumerate(columns)]
