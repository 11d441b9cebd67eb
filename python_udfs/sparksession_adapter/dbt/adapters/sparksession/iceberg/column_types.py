"""Iceberg's types as Spark names them in `describe table`, see Iceberg's table spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
}
NAME = re.compile(r"[A-Za-z_]\w*+", re.ASCII)
DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def spark_type(kind: str | Mapping[str, Any]) -> str:
    """A type of Iceberg's metadata as Spark's.

    >>> spark_type("decimal(20, 0)"), spark_type({"type": "list", "element": "long"})
    ('decimal(20,0)', 'array<bigint>')

    Raises:
        LookupError: a type that isn't known here.
    """
    if isinstance(kind, str):
        found = DECIMAL.fullmatch(kind)
        return f"decimal({found[1]},{found[2]})" if found else PLAIN[kind]
    if kind["type"] == "list":
        return f"array<{spark_type(kind['element'])}>"
    if kind["type"] == "map":
        return f"map<{spark_type(kind['key'])},{spark_type(kind['value'])}>"
    if kind["type"] == "struct":
        fields = kind["fields"]
        if not all(NAME.fullmatch(field["name"]) for field in fields):
            raise LookupError("a field's name that Spark may quote")
        inner = (f"{field['name']}:{spark_type(field['type'])}" for field in fields)
        return f"struct<{','.join(inner)}>"
    raise LookupError(kind["type"])


def columns_of(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and Spark type of each column of a table, or of a view's current version.

    Raises:
        LookupError: a type that isn't known here, or metadata without columns.
    """
    number = metadata.get("current-schema-id")
    for version in metadata.get("versions", []):
        if version["version-id"] == metadata["current-version-id"]:
            number = version["schema-id"]
    for schema in metadata.get("schemas", []):
        if schema["schema-id"] == number:
            return [(field["name"], spark_type(field["type"])) for field in schema["fields"]]
    raise LookupError(f"schema {number}")
