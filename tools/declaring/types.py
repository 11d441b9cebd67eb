"""MySQL types of columns, from what a log has of them: the widest of all, never too narrow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json")
BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
MOMENTS = ("date", "datetime", "timestamp")
DECIMALS = ("decimal", "numeric")
WIDEST_DECIMAL = 38
TYPE = re.compile(
    r"\s*+(\w++)(?:\s*+\(([^)]*+)\))?+((?:\s++(?:unsigned|zerofill))*+)", re.IGNORECASE
)
# a column of a statement and its decimal: `price` decimal(12,4)
DECIMAL_IN_SQL = re.compile(
    r"[`\s(,](\w++)`?+\s++(?:decimal|numeric)\s*+\(\s*+(\d{1,2})\s*+(?:,\s*+(\d{1,2})\s*+)?+\)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ColumnType:
    """What is known of a column's type.

    Attributes:
        kind: integer, decimal, float, double, text, binary, bit, time, year, or one of MOMENTS.
        bits, is_unsigned: of an integer.
        whole, scale: digits before and behind the point of a decimal; -1: not known. The scale of
            a moment is that of its seconds.
        length: characters of a text, -1: not known.
        note: what the log doesn't say, for whoever reads the declaration; else "".
    """

    kind: str
    bits: int = 0
    is_unsigned: bool = False
    whole: int = -1
    scale: int = -1
    length: int = -1
    note: str = ""

    def declared(self) -> str:
        """The type as a declaration writes it.

        >>> ColumnType("integer", bits=64, is_unsigned=True).declared()
        'bigint unsigned'
        """
        if self.kind == "integer":
            name = next(name for name, bits in INTEGERS.items() if bits >= self.bits)
            return f"{name} unsigned" if self.is_unsigned else name
        if self.kind == "decimal":
            scale = max(self.scale, 0)
            whole = WIDEST_DECIMAL - scale if self.whole < 0 else self.whole
            return f"decimal({min(whole + scale, WIDEST_DECIMAL)},{scale})"
        if self.kind in ("datetime", "timestamp") and self.scale > 0:
            return f"{self.kind}({self.scale})"
        if self.kind == "text":
            return f"varchar({self.length})" if self.length > 0 else "text"
        return {"binary": "blob"}.get(self.kind, self.kind)


def parsed_type(declared: str) -> ColumnType:
    """A type as MySQL's DDL or Canal writes it.

    >>> parsed_type("decimal(12,4)").declared(), parsed_type("INT UNSIGNED").declared()
    ('decimal(12,4)', 'int unsigned')
    """
    found = TYPE.match(declared)
    name = found[1].lower() if found else ""
    inner = (found[2] or "") if found else ""
    numbers = [int(part) for part in inner.split(",") if part.strip().isdigit()]
    if name in INTEGERS:
        is_unsigned = "unsigned" in (found[3].lower() if found else "")
        return ColumnType("integer", bits=INTEGERS[name], is_unsigned=is_unsigned)
    if name in DECIMALS:
        if not numbers:
            return ColumnType("decimal")
        scale = numbers[1] if len(numbers) > 1 else 0
        return ColumnType("decimal", whole=numbers[0] - scale, scale=scale)
    if name in MOMENTS:
        return ColumnType(name, scale=numbers[0] if numbers else 0)
    if name in BINARIES:
        return ColumnType("binary")
    if name in ("float", "double", "real", "bit", "time", "year"):
        return ColumnType("double" if name == "real" else name)
    is_short = name in ("char", "varchar") and numbers
    return ColumnType("text", length=numbers[0] if is_short else -1)


def of_maxwell(column: Mapping[str, Any]) -> ColumnType:
    """A column of the table that a DDL message of Maxwell defines. It has no precision of decimals
    and no length of texts."""
    name = str(column.get("type", "text"))
    if name in INTEGERS:
        return ColumnType(
            "integer", bits=INTEGERS[name], is_unsigned=not column.get("signed", True)
        )
    found = parsed_type(name)
    if name in MOMENTS:
        return replace(found, scale=int(column.get("column-length") or 0))
    return found


def decimals_in(statements: Iterable[str]) -> dict[str, ColumnType]:
    """Decimals that statements give to columns; of several the widest.

    >>> decimals_in(["alter table t modify `Price` decimal(12,4) not null"])["price"].declared()
    'decimal(12,4)'
    """
    found: dict[str, ColumnType] = {}
    for statement in statements:
        for name, digits, scale in DECIMAL_IN_SQL.findall(statement):
            kind = parsed_type(f"decimal({digits},{scale or 0})")
            found[name.lower()] = widest([kind, found.get(name.lower(), kind)])
    return found


@dataclass(frozen=True)
class ColumnValues:
    """What a column's values in the log are.

    Attributes:
        kinds: of JSON: integer, decimal, text, boolean, object, array.
        whole, scale: most digits before and behind the point of a number.
        is_negative: whether a number below zero is among them.
        moments: of the texts which kinds of MOMENTS all of them are; empty where they are others.
        moment_scale: most digits of a second's fraction.
    """

    kinds: frozenset[str]
    whole: int = 0
    scale: int = 0
    is_negative: bool = False
    moments: frozenset[str] = frozenset()
    moment_scale: int = 0


def of_values(values: ColumnValues) -> ColumnType:
    """The widest type that the values of a column leave open.

    >>> of_values(ColumnValues(frozenset({"integer"}), whole=3)).declared()
    'bigint'
    """
    note = "by its values, the log has no type"
    if not values.kinds:
        return ColumnType("text", note="null in every message")
    if values.kinds == {"integer"} and values.whole <= 18:
        return ColumnType("integer", bits=64, note=note)
    if values.kinds == {"integer"} and values.whole <= 20 and not values.is_negative:
        return ColumnType("integer", bits=64, is_unsigned=True, note=note)
    if values.kinds <= {"integer", "decimal"}:
        return ColumnType("decimal", scale=values.scale, note=note)
    if values.kinds == {"boolean"}:
        return ColumnType("text", note="true and false, as texts")
    if values.kinds == {"text"} and len(values.moments) == 1:
        (kind,) = values.moments
        return ColumnType(kind, scale=values.moment_scale, note=note)
    return ColumnType("text", note=note)


def widest(types: Sequence[ColumnType]) -> ColumnType:
    """A type that holds the values of all.

    >>> widest([parsed_type("int"), parsed_type("int unsigned")]).declared()
    'bigint'
    >>> widest([parsed_type("int"), parsed_type("varchar(20)")]).declared()
    'text'
    """
    found = types[0]
    for other in types[1:]:
        found = _wider(found, other)
    return found


def _wider(known: ColumnType, other: ColumnType) -> ColumnType:
    if known.kind != other.kind:
        kinds = {known.kind, other.kind}
        if kinds == {"integer", "decimal"}:
            return _wider(_as_decimal(known), _as_decimal(other))
        if kinds == {"float", "double"}:
            return ColumnType("double")
        return ColumnType("text", note="its type changed, so its values are taken as text")
    if known.kind == "integer" and known.is_unsigned != other.is_unsigned:
        unsigned, signed = (known, other) if known.is_unsigned else (other, known)
        bits = max(signed.bits, unsigned.bits + 1)
        if bits > 64:
            return ColumnType("decimal", whole=20, scale=0, note="signed and unsigned by turns")
        return ColumnType("integer", bits=bits)
    unknown = min(known.whole, other.whole) < 0
    return replace(
        known,
        bits=max(known.bits, other.bits),
        whole=-1 if unknown else max(known.whole, other.whole),
        scale=max(known.scale, other.scale),
        length=-1 if min(known.length, other.length) < 0 else max(known.length, other.length),
    )


def _as_decimal(kind: ColumnType) -> ColumnType:
    return ColumnType("decimal", whole=20, scale=0) if kind.kind == "integer" else kind
