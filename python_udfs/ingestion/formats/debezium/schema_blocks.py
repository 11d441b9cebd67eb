"""The schema beside a message (`schemas.enable`), compared with how its values are read.

A value doesn't show its scale or unit, but the schema does: after an ALTER the older messages have
others than the declaration. Nor does a text show whether it is one, or the base64 of a decimal or
of bytes. Such messages are read by their own schema, or refused where it gives what can't become a
value of the declared type.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.debezium.values import (
    DAYS,
    OF_SCALE,
    can_become,
    digits_of_second,
    name_and_length,
    precision_and_scale,
    unit_of_second,
)
from python_udfs.ingestion.formats.envelope import ROW_OPS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

Field = dict[str, object]  # the schema of a column, or of a part of the message

MOST_BLOCKS = 1000  # of a run: a table has another schema after each ALTER alone
_BEGIN, _PAYLOAD = '{"schema":', ',"payload":'  # as Kafka Connect writes them
_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_DECIMAL, _OF_ANY_SCALE = f"{_CONNECT}Decimal", "io.debezium.data.VariableScaleDecimal"
# what a field's schema calls its values -> what they count
_COUNTED = {
    **{f"{owner}Date": DAYS for owner in (_CONNECT, _DEBEZIUM)},
    **{
        f"{owner}{name}": "milliseconds"
        for owner in (_CONNECT, _DEBEZIUM)
        for name in ("Time", "Timestamp")
    },
    **{f"{_DEBEZIUM}Micro{name}": "microseconds" for name in ("Time", "Timestamp")},
    **{f"{_DEBEZIUM}Nano{name}": "nanoseconds" for name in ("Time", "Timestamp")},
}
_UNITS = frozenset(_COUNTED.values())
_TEXT, _BYTES, _HEX = "text", "bytes", "hex"
_SCALE_BESIDE = f"{OF_SCALE}beside its digits"


def by_own_schemas(
    messages: DataFrame, source: TableSource, samples: Iterable[tuple[str, str | None]]
) -> tuple[TableSource, Column | None]:
    """The declaration with the scales and units of the messages' own schemas, and why a message's
    values would be read as others all the same; null for other messages, None for none.

    Cost: the messages are read whole, where the samples have schemas and a column's type has a
    scale or a unit. Where the samples have none, none is looked for.

    Args:
        messages: of the table.
        samples: format and payload of some.

    Returns:
        A declaration, and a column of ods_binlog's rows.

    Raises:
        ValueError: the messages have more than MOST_BLOCKS schemas.
    """
    from pyspark.sql import functions as F

    has_schemas = any(_has_schema(text) for name, text in samples if name == source.format)
    if not has_schemas or not any(_read_as(kind, source) for kind in source.columns.values()):
        return source, None
    rows = F.col("op").isin(*ROW_OPS, "snapshot") & (F.col("format") == source.format)
    block = F.when(rows, _schema_block())
    blocks = messages.select(block.alias("block")).where("block is not null").distinct()
    found = [row.block for row in blocks.limit(MOST_BLOCKS + 1).collect()]
    if len(found) > MOST_BLOCKS:
        raise ValueError(
            f"the messages of {source.database}.{source.table} in this run have more than "
            f"{MOST_BLOCKS} schemas, of which an ALTER makes one: land them in smaller parts"
        )
    reason: Column | None = None
    written: dict[str, dict[str, str]] = {}
    for text in sorted(found):
        own, problem = encodings_of(text, source)
        if problem is not None:
            is_this = F.sha2(block, 256) == F.sha2(F.lit(text), 256)
            reason = (F if reason is None else reason).when(is_this, F.lit(problem))
        elif own:
            written[hashlib.sha256(text.encode()).hexdigest()] = own
    return replace(source, written=written), reason


def hash_of_schema() -> Column:
    """Of a message's schema, as `written` of a declaration has it; null where there is none."""
    from pyspark.sql import functions as F

    return F.sha2(_schema_block(), 256)


def _has_schema(text: str | None) -> bool:
    # PostgreSQL's messages name a schema within `source`, too
    message = _json(text)
    return isinstance(message, dict) and isinstance(message.get("schema"), dict)


def _schema_block() -> Column:
    """The JSON text of a message's schema; null where it has none."""
    from pyspark.sql import functions as F

    payload = F.col("payload")
    # its texts have no bare quote, so that the name of the payload stands behind it alone
    begin = F.substring_index(payload, _PAYLOAD, 1)
    usual = F.substring(begin, len(_BEGIN) + 1, 2**31 - 1)
    other = F.get_json_object(payload, "$.schema")
    return F.when(payload.startswith(_BEGIN), usual).otherwise(other)


def encodings_of(block: str, source: TableSource) -> tuple[dict[str, str], str | None]:
    """How the columns of a message of this schema are written that are written otherwise than they
    are declared, see column_value; and why it would be misread all the same, which names all
    columns that would be, or None."""
    fields = _fields(block)
    own, problems = {}, []
    for name, kind in source.columns.items():
        expected = _read_as(kind, source)
        field = next((fields[known] for known in source.names(name) if known in fields), None)
        if expected is None or field is None:
            continue
        given = _encoding(field)
        if _is_read(given, expected):
            continue
        if can_become(given, kind):
            own[name] = given
        else:
            problems.append(f"{name} {_called(given)}, declared {kind.declared} ({expected})")
    if not problems:
        return own, None
    return {}, (
        f"by the message's schema its values would be misread: {'; '.join(problems)}. Declare the "
        "type and the options that the connector writes by; after such an ALTER let it write the "
        "table to another topic from a new snapshot on"
    )


def _fields(block: str) -> dict[str, Field]:
    """Column -> its schema, of the row behind the change, or else before it."""
    schema = _json(block)
    found: dict[str, Field] = {}
    for part in ("before", "after"):
        for image in _members(schema):
            if image.get("field") == part:
                found |= {str(field.get("field")): field for field in _members(image)}
    return found


def _json(text: str | None) -> object:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def _members(schema: object) -> list[Field]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return (
        [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    )


def _read_as(kind: SourceType, source: TableSource) -> str | None:
    """How a column's values are read, where the values don't show whether that is right."""
    name, length = name_and_length(kind)
    options = source.options
    if kind.kind == "decimal" and options["decimal.handling.mode"] == "precise":
        return f"{OF_SCALE}{precision_and_scale(kind)[1]}"
    if (
        kind.spark == "decimal(20,0)"
        and name != "bit"
        and options["bigint.unsigned.handling.mode"] == "precise"
    ):
        return f"{OF_SCALE}0"
    if kind.kind == "binary":
        return {"bytes": _BYTES, "hex": _HEX}.get(options["binary.handling.mode"])
    if kind.kind == "text" and name != "time":
        return _TEXT
    mode = options["time.precision.mode"]
    if mode == "isostring":
        return None
    if kind.kind == "date":
        return DAYS
    if kind.kind == "datetime" or name == "time":
        return unit_of_second(digits_of_second(name, length, mode))
    return None


def _encoding(field: Field) -> str:
    """What a column's values are by its schema: `scale 2`, a unit of time, or their type."""
    name, parameters = str(field.get("name")), field.get("parameters")
    if name == _DECIMAL:
        return f"{OF_SCALE}{parameters.get('scale') if isinstance(parameters, dict) else None}"
    if name == _OF_ANY_SCALE:
        return _SCALE_BESIDE
    return _COUNTED.get(name) or str(field.get("type"))


def _is_read(given: str, expected: str) -> bool:
    """Whether values that are `given` (see _encoding) are read right as `expected`."""
    if expected in _UNITS:
        # what is no count, such as a text, is refused as a value where it can't be read
        return given == expected or given not in _UNITS
    if expected == _TEXT:  # any other value is a text as it stands
        return given not in _UNITS and not given.startswith(OF_SCALE)
    if expected == _HEX:  # its digits may be base64, too
        return given != _BYTES
    return given in (expected, _SCALE_BESIDE)


def _called(given: str) -> str:
    if given in _UNITS:
        return f"counts {given}"
    return f"is a decimal of {given}" if given.startswith(OF_SCALE) else f"is a {given}"
