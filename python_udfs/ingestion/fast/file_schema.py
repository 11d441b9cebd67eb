"""Iceberg's columns as Arrow's, with the ids by which Iceberg finds them in a Parquet file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

IcebergType: TypeAlias = "str | Mapping[str, object]"
FIELD_ID = b"PARQUET:field_id"  # where Arrow keeps a column's id
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)", re.ASCII)
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def arrow_schema(text: str) -> pa.Schema:
    """A table's columns.

    Args:
        text: JSON of a schema in Iceberg's table spec.

    Raises:
        ValueError: Arrow has no such type.
    """
    return pa.schema(_fields(json.loads(text)))


def _fields(struct: Mapping[str, object]) -> list[pa.Field]:
    fields = struct["fields"]
    assert isinstance(fields, list)
    return [
        _field(field["name"], field["type"], field["id"], not field["required"]) for field in fields
    ]


def _field(name: str, kind: IcebergType, number: object, nullable: bool) -> pa.Field:
    return pa.field(name, _type(kind), nullable, metadata={FIELD_ID: str(number)})


def _type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if kind not in _PLAIN:
            raise ValueError(f"no column of Arrow holds Iceberg's type {kind}")
        return _PLAIN[kind]
    if kind["type"] == "struct":
        return pa.struct(_fields(kind))
    if kind["type"] == "list":
        element = kind["element"], kind["element-id"], not kind["element-required"]
        return pa.list_(_field("element", *element))  # type: ignore[arg-type]
    value = kind["value"], kind["value-id"], not kind["value-required"]
    return pa.map_(
        _field("key", kind["key"], kind["key-id"], nullable=False),  # type: ignore[arg-type]
        _field("value", *value),  # type: ignore[arg-type]
    )
