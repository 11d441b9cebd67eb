"""The files of a typed model: its entry in YAML and its three lines of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from python_udfs.ingestion.tables.types import source_type
from tools.declaring.log import TableInLog

MODEL = """from python_udfs.ingestion.table_changes import table_changes


def model(dbt, session):
    dbt.config(materialized="incremental")
    return table_changes(dbt, session, binlog=dbt.ref("ods_binlog"))
"""
# what every typed model has behind its table's columns: name, type, doc block
EVERY_MODEL = (
    ("raw_values", "map<string,string>", "raw_values"),
    ("before", "", "typed_before"),
    ("op_type", "string", "typed_op_type"),
    ("unique_key", "string", "unique_key"),
    ("cut_date", "date", "cut_date"),
    ("event_time", "timestamp", "event_time"),
    ("binlog_file", "string", "binlog_file"),
    ("binlog_file_number", "bigint", "binlog_file_number"),
    ("binlog_position", "bigint", "binlog_position"),
    ("row_number", "bigint", "row_number"),
    ("xid", "bigint", "xid"),
    ("schema_version", "int", "typed_schema_version"),
    ("batch_id", "string", "batch_id"),
    ("metadata_table", "string", "typed_metadata_table"),
    ("metadata_changes", "array<string>", "typed_metadata_changes"),
    ("metadata_op_type", "string", "typed_metadata_op_type"),
    ("metadata_commit_ts", "timestamp", "typed_metadata_commit_ts"),
    ("topic", "string", "topic"),
    ("partition_number", "int", "partition_number"),
    ("message_offset", "bigint", "message_offset"),
    ("load_id", "string", "load_id"),
    ("reject_reason", "string", "reject_reason"),
    ("reject_payload", "string", "typed_reject_payload"),
)
# tests of those columns that have any
TESTS = {
    "unique_key": ["unique", "not_null"],
    "cut_date": [{"not_null": {"config": {"where": "reject_reason is null"}}}],
}
# a text of the log that becomes YAML, where dbt would take braces for Jinja
PLAIN_NAME = re.compile(r"[\w$ ./:-]++")


class UnusableNameError(Exception):
    """A name of the log that no file can have, in a sentence."""


def model_name(folder: str, table: str) -> str:
    """Name of the model of a table.

    Raises:
        UnusableNameError: none can be made of the table's name.

    >>> model_name("shop", "Order-Info")
    'ods_shop__order_info'
    """
    word = re.sub(r"[^a-z0-9]+", "_", table.lower()).strip("_")
    if not word:
        raise UnusableNameError(f"No model can be named after the table {table!r}: do it by hand.")
    return f"ods_{folder}__{word}"


def spark_types(found: TableInLog) -> dict[str, str]:
    """Column -> Spark type of all columns of the model."""
    own = {name: source_type(kind.declared()).spark for name, kind in found.columns.items()}
    fields = [f"{name}:{kind}" for name, kind in own.items()] + ["raw_values:map<string,string>"]
    rest = {name: kind or f"struct<{','.join(fields)}>" for name, kind, _ in EVERY_MODEL}
    return own | rest


def entry(found: TableInLog, name: str, like: Mapping[str, Any]) -> str:
    """The model's entry in the list of models of a YAML file.

    Args:
        name: of the model.
        like: topic, format and log_resets as other tables of the database have them, as they
            stand in their file; empty where there is none.

    Raises:
        UnusableNameError: a name can't stand in YAML of dbt.
    """
    for text in (found.database, found.table, *found.topics, *found.columns):
        if not PLAIN_NAME.fullmatch(text):
            raise UnusableNameError(
                f"{text!r} of {found.database}.{found.table} is no name that dbt's YAML can have: "
                "declare the table by hand, a column by another name with an alias."
            )
    return "\n".join(_lines(found, name, like)) + "\n"


def _lines(found: TableInLog, name: str, like: Mapping[str, Any]) -> Iterator[str]:
    yield f"  - name: {name}"
    yield (
        f"    description: One row per change of {found.database}.{found.table}, as "
        "ods_shop__order_info for its table."
    )
    yield "    config:"
    yield "      partition_by: cut_date"
    yield "      meta:"
    yield "        source:"
    yield f"          database: {_scalar(found.database)}"
    yield f"          table: {_scalar(found.table)}"
    given = like or {"topic": list(found.topics), "format": found.log_format}
    for key, value in given.items():
        yield f"          {key}: {_flow(value)}"
    if found.primary_key is None:
        yield "          # the log doesn't name the key: put its columns here"
    yield f"          primary_key: {_flow(list(found.primary_key or ()))}"
    moments = [
        column for column, kind in found.columns.items() if kind.kind in ("datetime", "timestamp")
    ]
    if moments:
        yield "          # if a column dates the changes; else their time in the log does"
        yield f"          # cut_column: {' or '.join(moments)}"
    yield "          columns:"
    for column, kind in found.columns.items():
        note = f"  # {kind.note}" if kind.note else ""
        yield f"            {_scalar(column)}: {kind.declared()}{note}"
    yield "    columns:"
    docs = {column: doc for column, _, doc in EVERY_MODEL}
    for column, kind_of_spark in spark_types(found).items():
        yield f"      - name: {_scalar(column)}"
        yield f"        data_type: {kind_of_spark}"
        doc = docs.get(column)
        described = f"\"{{{{ doc('{doc}') }}}}\"" if doc else f"{column} of the table."
        yield f"        description: {described}"
        if column in TESTS:
            yield "        data_tests:"
            for line in yaml.safe_dump(TESTS[column], default_flow_style=False).splitlines():
                yield f"          {line}"


def _scalar(text: str) -> str:
    return yaml.safe_dump(text, default_flow_style=True).removesuffix("\n...\n").strip()


def _flow(value: Any) -> str:
    """A value on one line. Jinja stands in double quotes, as dbt wants it."""
    if isinstance(value, str) and "{{" in value:
        return f'"{value}"'
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()
