"""What ods_binlog holds of a table: topics, key, columns and their types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dbt.adapters.sparksession.sql import literal

from tools.declaring.types import (
    ColumnType,
    ColumnValues,
    decimals_in,
    of_maxwell,
    of_values,
    parsed_type,
    widest,
)

ROW_OPS = "('insert', 'update', 'delete', 'snapshot')"
DATE = r"^\d{4}-\d\d-\d\d$"
MOMENT = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?$"
# format -> arrays of the row images of a message, as texts of JSON
IMAGES = {
    "maxwell": "array(get_json_object(payload, '$.data'), get_json_object(payload, '$.old'))",
    "events": "array(payload)",
    "canal": ("from_json(get_json_object(payload, '$.data'), 'array<string>')"),
    "debezium": (
        "array(get_json_object(payload, '$.after'), get_json_object(payload, '$.before'), "
        "get_json_object(payload, '$.payload.after'), get_json_object(payload, '$.payload.before'))"
    ),
}
# all values of all images, by column: what they are, not what they say
VALUES = """
with images as (
    select position, explode({images}) as image
    from (
        select payload, coalesce(binlog_position, message_offset) as position
        from {binlog}
        where {of_table} and op in {row_ops}
    )
),
cells as (
    select entry.key as name, entry.value as value, entry.pos as place
    from images, lateral variant_explode(try_parse_json(image)) as entry
    where entry.key is not null
),
typed as (
    select
        name,
        place,
        split(schema_of_variant(value), '[(<]')[0] as kind,
        cast(value as string) as text
    from cells
)
select
    name,
    min(place) as place,
    collect_set(kind) as kinds,
    max(case when kind in ('BIGINT', 'DECIMAL', 'DOUBLE')
        then length(split(ltrim('-', text), '[.]')[0]) end) as whole,
    max(case when kind in ('BIGINT', 'DECIMAL', 'DOUBLE')
        then length(coalesce(get(split(text, '[.]'), 1), '')) end) as scale,
    bool_or(kind in ('BIGINT', 'DECIMAL', 'DOUBLE') and text like '-%') as is_negative,
    bool_and(kind <> 'STRING' or text rlike {date}) as all_dates,
    bool_and(kind <> 'STRING' or text rlike {moment}) as all_moments,
    max(case when kind = 'STRING' then length(regexp_extract(text, {moment}, 1)) end) as fraction
from typed
group by name
order by place, name
"""
JSON_KINDS = {
    "BIGINT": "integer",
    "DECIMAL": "decimal",
    "DOUBLE": "decimal",
    "FLOAT": "decimal",
    "STRING": "text",
    "BOOLEAN": "boolean",
    "OBJECT": "object",
    "ARRAY": "array",
}


@dataclass(frozen=True)
class TableInLog:
    """A table as the log has it.

    Attributes:
        database, table: names as the log has them.
        log_format: of its messages.
        topics: that they came by, sorted.
        messages: their number.
        primary_key: its columns; empty where the log has no key, None where it doesn't say.
        columns: name -> type, in the table's order.
    """

    database: str
    table: str
    log_format: str
    topics: tuple[str, ...]
    messages: int
    primary_key: tuple[str, ...] | None
    columns: Mapping[str, ColumnType]


class UnknownTableError(Exception):
    """The log can't say what is asked, in a sentence."""


def table_in_log(session: Any, binlog: str, database: str, table: str) -> TableInLog:
    """Read what the log has of a table; one pass over its messages.

    Args:
        session: of Spark.
        binlog: name of ods_binlog, with its schema.

    Raises:
        UnknownTableError: the log has no message of it, or of a format without columns.
    """
    of_table = f"database_name = {literal(database)} and table_name = {literal(table)}"
    found = session.sql(
        f"select format, sort_array(collect_set(topic)) as topics, count(*) as messages "
        f"from {binlog} where {of_table} and op in {ROW_OPS} and reject_reason is null "
        "group by format order by messages desc, format"
    ).collect()
    if not found:
        raise UnknownTableError(_unknown(session, binlog, database, table))
    log_format = found[0]["format"]
    if log_format not in IMAGES:
        raise UnknownTableError(
            f"Messages of {log_format} have no types: declare {database}.{table} by hand, see "
            "docs/how-to/mongodb.md."
        )
    by_values = dict(_by_values(session, binlog, of_table, log_format))
    defined, key = _defined(session, binlog, of_table, log_format)
    columns = defined | {
        name: of_values(values)
        for name, values in by_values.items()
        if name.lower() not in {known.lower() for known in defined}
    }
    return TableInLog(
        database=database,
        table=table,
        log_format=log_format,
        topics=tuple(found[0]["topics"]),
        messages=found[0]["messages"],
        primary_key=key,
        columns={name: _with_scale(kind, by_values.get(name)) for name, kind in columns.items()},
    )


def _unknown(session: Any, binlog: str, database: str, table: str) -> str:
    rows = session.sql(
        f"select distinct concat_ws('.', database_name, table_name) as name from {binlog} "
        f"where op in {ROW_OPS} and table_name is not null order by name limit 50"
    ).collect()
    return (
        f"The log has no change of {database}.{table}. It has changes of "
        f"{', '.join(row['name'] for row in rows) or 'no table'}."
    )


def _by_values(
    session: Any, binlog: str, of_table: str, log_format: str
) -> Iterator[tuple[str, ColumnValues]]:
    asked = VALUES.format(
        images=IMAGES[log_format],
        binlog=binlog,
        of_table=of_table,
        row_ops=ROW_OPS,
        date=literal(DATE),
        moment=literal(MOMENT),
    )
    for row in session.sql(asked).collect():
        kinds = {JSON_KINDS.get(kind, "text") for kind in row["kinds"] if kind != "VOID"}
        moments = {
            name
            for name, is_all in (("date", row["all_dates"]), ("datetime", row["all_moments"]))
            if is_all and kinds == {"text"}
        }
        yield (
            row["name"],
            ColumnValues(
                kinds=frozenset(kinds),
                whole=row["whole"] or 0,
                scale=row["scale"] or 0,
                is_negative=bool(row["is_negative"]),
                moments=frozenset(moments),
                moment_scale=max((row["fraction"] or 0) - 1, 0),
            ),
        )


def _defined(
    session: Any, binlog: str, of_table: str, log_format: str
) -> tuple[dict[str, ColumnType], tuple[str, ...] | None]:
    """Types by name, and the key, as messages define them; of several definitions the widest."""
    if log_format == "maxwell":
        rows = session.sql(
            "select get_json_object(payload, '$.def') as definition, "
            "get_json_object(payload, '$.sql') as statement, "
            "get_json_object(payload, '$.def.table') as defined_table "
            f"from {binlog} where {of_table} and op not in {ROW_OPS} and reject_reason is null "
            "order by event_time, binlog_file_number, binlog_position, message_offset"
        ).collect()
        definitions = [json.loads(row["definition"]) for row in rows if row["definition"]]
        return of_definitions(definitions, [row["statement"] or "" for row in rows])
    if log_format == "canal":
        rows = session.sql(
            "select distinct get_json_object(payload, '$.mysqlType') as types, "
            "get_json_object(payload, '$.pkNames') as names "
            f"from {binlog} where {of_table} and op in {ROW_OPS} and reject_reason is null"
        ).collect()
        types = [json.loads(row["types"]) for row in rows if row["types"]]
        keys = {row["names"] for row in rows if row["names"]}
        key = tuple(json.loads(min(keys))) if len(keys) == 1 else None
        return _merged([{k: parsed_type(v) for k, v in each.items()} for each in types]), key
    return {}, None


def of_definitions(
    definitions: Iterable[Mapping[str, Any]], statements: Iterable[str]
) -> tuple[dict[str, ColumnType], tuple[str, ...] | None]:
    """Types and key of a table that DDL messages of Maxwell define, oldest first.

    Args:
        definitions: `def` of the messages.
        statements: `sql` of the messages, which alone has the digits of decimals.
    """
    tables = list(definitions)
    merged = _merged(
        [{str(column["name"]): of_maxwell(column) for column in each["columns"]} for each in tables]
    )
    decimals = decimals_in(statements)
    for name, kind in merged.items():
        if kind.kind == "decimal" and kind.whole < 0:
            merged[name] = decimals.get(
                name.lower(), replace(kind, note="the log doesn't say how many digits it has")
            )
    key = tables[-1].get("primary-key") if tables else None
    return merged, None if key is None else tuple(key)


def _merged(tables: Iterable[Mapping[str, ColumnType]]) -> dict[str, ColumnType]:
    """Name -> widest type; the newest table's order, then columns that it lacks."""
    found: dict[str, ColumnType] = {}
    newest: list[str] = []
    for columns in tables:
        newest = list(columns)
        for name, kind in columns.items():
            found[name] = widest([found[name], kind]) if name in found else kind
    return {name: found[name] for name in dict.fromkeys([*newest, *found])}


def _with_scale(kind: ColumnType, values: ColumnValues | None) -> ColumnType:
    """A decimal with at least the digits that its values have."""
    if kind.kind != "decimal" or values is None:
        return kind
    scale = max(kind.scale, values.scale)
    return replace(
        kind, scale=scale, whole=kind.whole if kind.whole < 0 else max(kind.whole, values.whole)
    )
