"""A store that speaks MySQL's protocol: MySQL, MariaDB, TiDB.

    PUBLISH_<NAME>_URL         jdbc:mysql://host:port/database
    PUBLISH_<NAME>_USER, PUBLISH_<NAME>_PASSWORD   who may create, drop, select, insert, update and
                               delete there

How a version gets in: see transactional.py. A RENAME would swap whole tables, but commits by
itself, so the version could not be written with it. Beside the primary key, row_key, a table has
an index by the key's own columns, by_key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dbt.adapters.sparksession.versions.targets import ROW_KEY, SIGN, TableUpdate

from python_udfs.servers.mysql import MysqlServer, literal, quoted
from python_udfs.targets import RECORDS_TABLE, transactional
from python_udfs.targets.columns import column_differences
from python_udfs.targets.transactional import (
    LOCK_SECONDS,
    TransactionalStore,
    as_json,
    is_nested,
    login,
    misfit,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

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
WHOLE = r"(?:tiny|small|medium|big)?int(?: unsigned)?"
TEXTS = r"(?:var)?char\(\d+\)|(?:tiny|medium|long)?text"
TIMES = r"datetime(?:\(6\))?"
# Spark's types -> those of TYPE that hold each of their values, or refuse it, beside decimals for
# numbers. The server rounds a number, and a time, that has more places than the column
FITTING = {
    r"boolean|tinyint|smallint|int|bigint|decimal\(\d+,0\)": WHOLE,
    r"float|double": r"double",
    r"string|(?:var)?char\(\d+\)": rf"{TEXTS}|json",
    r"(?:array|struct|map).*": r"(?:medium|long)?text|json",
    r"binary": r"(?:var)?binary\(\d+\)|(?:tiny|medium|long)?blob",
    r"date": rf"date|{TIMES}",
    r"timestamp|timestamp_ntz": r"datetime\(6\)",
}
TEXT_BYTES = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1}
SESSION = "sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',time_zone='+00:00'"
CREATE_VERSIONS = f"""
create table if not exists {RECORDS_TABLE} (
    table_name varchar(64) not null primary key,
    version bigint not null,
    mark varchar(64) not null,
    published_at datetime(6) not null
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin
"""


def mysql_type(kind: str) -> str | None:
    """The type of MySQL that holds all values of a type of Spark, or None without one.

    >>> mysql_type("decimal(38,4)")
    'decimal(38,4)'
    """
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    if decimal:
        return kind if int(decimal[2]) <= 30 else None
    if is_nested(kind) or kind.startswith(("varchar", "char")):
        return "longtext"
    return SPARK_TYPES.get(kind)


def column_types(kinds: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Column -> MySQL's type; see transactional.column_types."""

    return transactional.column_types("MySQL", kinds, given, mysql_type, _problem)


def _problem(wanted: str, kind: str) -> str | None:
    """What is wrong with a type that an exposure names for one of Spark's."""
    if not TYPE.fullmatch(wanted):
        return "is an unknown type"
    if not kind or wanted == mysql_type(kind):
        return None
    return misfit(wanted, kind, FITTING)


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
    return column_differences(wanted, found, plain_type)


def create_table(name: str, types: Mapping[str, str], key: Sequence[str], extra: str = "") -> str:
    """DDL of a table, with an index by the key's columns unless `extra` has one."""
    columns = "".join(f",\n    {quoted(column)} {kind} null" for column, kind in types.items())
    index = ""
    if not extra:
        indexed = ", ".join(
            quoted(column) + (f"({_prefix(types[column])})" if _prefix(types[column]) else "")
            for column in key[:8]
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


def written(name: str, kind: str, wanted: str) -> Column:
    """A column as the driver is given it: times as texts, so that no zone has a say; what MySQL
    has no type for as JSON.

    What the server would cut or fill up without a word is an error that names the column.

    Args:
        kind, wanted: the column's type in Spark and in the store.
    """
    from pyspark.sql import functions as F

    column = F.col(quoted(name))
    if kind.startswith(("timestamp", "date")):
        return column.cast("string").alias(name)
    if is_nested(kind):
        return as_json(column).alias(name)
    if kind == "boolean":
        return column.cast("tinyint").alias(name)
    if kind.startswith(("string", "varchar", "char", "binary")):
        return _fitting(column, name, wanted).alias(name)
    return column.alias(name)


def _fitting(column: Column, name: str, wanted: str) -> Column:
    """A text or bytes, where the store's column holds them as they are; else an error.

    Strict or not, the server cuts blanks off a text that is too long, forgets those at the end of a
    `char`, and fills a `binary` up.
    """
    from pyspark.sql import functions as F

    length = re.fullmatch(r"((?:var)?char|binary)\((\d+)\)", wanted)
    if length and length[1] == "binary":
        refused = F.octet_length(column) != int(length[2])
        expected = f"bytes that are not exactly {length[2]}"
    elif length:
        refused = F.length(column) > int(length[2])
        expected = f"a text that is longer than {length[2]} characters"
        if length[1] == "char":
            refused, expected = (
                refused | F.endswith(column, F.lit(" ")),
                f"{expected} or ends in a blank",
            )
    elif wanted in TEXT_BYTES:
        refused = F.octet_length(column) > TEXT_BYTES[wanted]
        expected = f"a text that is longer than {TEXT_BYTES[wanted]} bytes"
    else:
        return column
    return F.when(refused, F.raise_error(F.lit(f"column {name} has {expected}"))).otherwise(column)


def open_store(session: SparkSession, target: str, warehouse: str) -> MysqlStore:
    options = login(target, "mysql", ("sslMode", "VERIFY_IDENTITY")) | {
        "connectTimeout": "10000",
        # values that don't fit are refused; a text's bytes arrive as they are
        "sessionVariables": SESSION,
        "characterEncoding": "UTF-8",
        "rewriteBatchedStatements": "true",
    }
    return MysqlStore(session, options, warehouse)


class MysqlStore(TransactionalStore):
    make = MysqlServer

    def _lock(self) -> bool:
        rows = self._query(
            f"select get_lock(concat('publish.', left(sha1(database()), 40)), {LOCK_SECONDS})"
        )
        return rows == [("1",)]

    def _name(self, table: str) -> str:
        return quoted(table)

    def _literal(self, text: str) -> str:
        return literal(text)

    def _columns_of(self, table: str) -> str:
        return (
            "select column_name, column_type from information_schema.columns "
            f"where table_schema = database() and table_name = {literal(table)} "
            "order by ordinal_position"
        )

    def _staging_left(self) -> str:
        return (
            "select table_name from information_schema.tables where table_schema = database() "
            f"and left(table_name, {len(self._staging)}) = {literal(self._staging)}"
        )

    def _types(self, part: TableUpdate) -> dict[str, str]:
        return column_types(part.kinds, part.publication.types)

    def _create_versions(self) -> str:
        return CREATE_VERSIONS

    def _create(self, table: str, types: Mapping[str, str], key: Sequence[str]) -> list[str]:
        return [create_table(table, types, key)]

    def _create_staging(self, name: str, types: Mapping[str, str]) -> str:
        return create_table(name, types, (), f",\n    {SIGN} tinyint not null")

    def _differences(
        self, table: str, types: Mapping[str, str], found: Mapping[str, str]
    ) -> list[str]:
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
        return problems + [
            f"it has a unique key {index}" for index, _ in keys if index != "PRIMARY"
        ]

    def _written(self, part: TableUpdate, types: Mapping[str, str]) -> list[Column]:
        return [written(column, kind, types[column]) for column, kind in part.kinds.items()]

    def _refusal(self, message: str, part: TableUpdate) -> str:
        if re.match(r"Duplicate entry .* for key", message):
            return part.duplicate_key_message()
        raised = re.fullmatch(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)?", message)
        message = raised[1] if raised else message
        return f"rows of table {part.publication.table} were refused: {message}"

    def _remove(self, part: TableUpdate, staged: str) -> str:
        join, gone = ("inner", f"staged.{SIGN} = -1")
        if part.whole:
            join, gone = ("left", f"staged.{ROW_KEY} is null")
        return (
            f"delete held from {quoted(part.publication.table)} as held "
            f"{join} join {staged} as staged on staged.{ROW_KEY} = held.{ROW_KEY} where {gone}"
        )

    def _put(self, part: TableUpdate, staged: str) -> str:
        columns = [quoted(kind) for kind in part.kinds]
        names = ", ".join([ROW_KEY, *columns])
        news = ", ".join(f"{column} = values({column})" for column in columns)
        return (
            f"insert into {quoted(part.publication.table)} ({names}) "
            f"select {names} from {staged} where {SIGN} = 1 on duplicate key update {news}"
        )

    def _record_version(self, part: TableUpdate) -> str:
        return (
            f"replace into {RECORDS_TABLE} (table_name, version, mark, published_at) values "
            f"({literal(part.publication.table)}, {part.version}, {literal(part.mark)}, "
            "utc_timestamp(6))"
        )
