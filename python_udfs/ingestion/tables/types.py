"""MySQL's column types: how a value stands in JSON, what it becomes, and when it doesn't fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

MAX_PRECISION = 38  # Spark's widest decimal
FLOAT_DIGITS = 9  # that distinguish any two floats of 32 bits
OF_DAYS = ("date", "datetime", "timestamp")  # kinds of columns whose values have a day
_TYPE = re.compile(r"(\w++)(?:\s*+\(([^)]*+)\))?((?:\s++(?:unsigned|zerofill))*+)", re.IGNORECASE)
# as MySQL writes a date or time. Only this: a cast would also take a time zone and drop it
_DAY = r"^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])"
_TIME = rf"{_DAY}( ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{{1,6}})?)?\z"
# a column that became a DATETIME has times, of which a date would hold no more than midnight
_DATE = rf"{_DAY}( 00:00:00(\.0{{1,6}})?)?\z"
_INTEGER_BITS = {
    "tinyint": 8,
    "smallint": 16,
    "mediumint": 24,
    "int": 32,
    "integer": 32,
    "bigint": 64,
    "year": 16,
}
_TEXT = {
    "char",
    "varchar",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "enum",
    "set",
    "json",
    "time",
}
_BINARY = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


@dataclass(frozen=True)
class SourceType:
    """A column type of the source.

    Attributes:
        declared: as written, e.g. "decimal(12,2)".
        kind: integer, decimal, float, double, text, binary, date, datetime, timestamp, bit.
        spark: the Spark type that it becomes, e.g. "decimal(12,2)".
        parsed: the Spark type that its JSON value is read as: wide enough to see a misfit.
        low, high: bounds of an integer, both inclusive.
    """

    declared: str
    kind: str
    spark: str
    parsed: str
    low: int = 0
    high: int = 0

    def value(self, raw: Column, zone: str) -> Column:
        """The column's value from `raw` (of type `parsed`); null where it doesn't fit.

        A DATETIME has no zone in MySQL: it is taken as local time of `zone` and becomes UTC.
        A date that MySQL holds though the calendar doesn't have it (0000-00-00, 2026-02-30)
        becomes null.
        """
        from pyspark.sql import functions as F

        if self.kind == "date":
            return raw.try_cast("date")
        if self.kind == "datetime":
            wall = raw.try_cast("timestamp_ntz").cast("timestamp")
            return F.to_utc_timestamp(wall, F.lit(zone))
        if self.kind == "timestamp":
            return raw.try_cast("timestamp_ntz").cast("timestamp")
        if self.kind == "binary":
            return F.try_to_binary(raw, F.lit("base64"))
        if self.kind in ("integer", "decimal", "float"):
            return raw.try_cast(self.spark)
        return raw

    def is_skipped(self, raw: Column, zone: str) -> Column:
        """Condition on a DATETIME's text: a local time that the zone's clocks never showed."""
        from pyspark.sql import functions as F

        wall = raw.try_cast("timestamp_ntz").cast("timestamp")
        shown = F.from_utc_timestamp(F.to_utc_timestamp(wall, F.lit(zone)), F.lit(zone))
        return F.coalesce(shown != wall, F.lit(False))

    def misfit(self, raw: Column) -> Column | None:
        """Condition: `raw` isn't null, but no value of this type. None where parsing checks it."""
        from pyspark.sql import functions as F

        if self.kind == "integer":
            if self.high == 2**63 - 1:
                return None  # a bigint is read as one
            whole = F.lit(True)
            if self.parsed != "bigint":
                whole = raw.try_cast(self.spark).cast(self.parsed) == raw
            low, high = (F.lit(str(bound)).cast(self.parsed) for bound in (self.low, self.high))
            return ~(raw.between(low, high) & whole)
        if self.kind == "decimal":
            narrowed = raw.try_cast(self.spark)
            return raw.isNotNull() & ~narrowed.cast(self.parsed).eqNullSafe(raw)
        if self.kind == "date":
            return ~raw.rlike(_DATE)
        if self.kind in ("datetime", "timestamp"):
            return ~raw.rlike(_TIME)
        if self.kind == "binary":
            return raw.isNotNull() & F.try_to_binary(raw, F.lit("base64")).isNull()
        if self.kind in ("float", "double"):
            # a number beyond the type is read as infinity; MySQL has neither that nor NaN
            read = raw.cast(self.spark)
            wrong = F.isnan(raw) | (F.abs(read) == float("inf"))
            return wrong | _is_no_float(raw) if self.kind == "float" else wrong
        return None


def _is_no_float(raw: Column) -> Column:
    """Condition on a double: it has more digits than a float is written with, and isn't one.

    A float of 32 bits is written with up to FLOAT_DIGITS digits, or as the double that it equals. A
    column that became a DOUBLE has others, of which a float would hold another number.
    """
    from pyspark.sql import functions as F

    short = F.format_string(f"%.{FLOAT_DIGITS - 1}e", raw).try_cast("double")
    return (raw.cast("float").cast("double") != raw) & (short != raw)


def source_type(declared: str) -> SourceType:
    """The SourceType of a MySQL type as DDL writes it, e.g. "bigint unsigned".

    Raises:
        ValueError: no such type, or a decimal wider than 38 digits.
    """
    match = _TYPE.fullmatch(declared.strip())
    if not match:
        raise ValueError(f"{declared!r} is not a MySQL type. Example: decimal(12,2)")
    name, arguments, unsigned = match[1].lower(), match[2], "unsigned" in match[3].lower()
    if name in _INTEGER_BITS:
        return _integer(declared, _INTEGER_BITS[name], unsigned)
    if name in ("decimal", "numeric"):
        return _decimal(declared, arguments or "10,0")
    if name in ("float", "double", "real"):
        spark = "float" if name == "float" else "double"
        return SourceType(declared, spark, spark, "double")
    if name in _TEXT:
        return SourceType(declared, "text", "string", "string")
    if name in _BINARY:
        return SourceType(declared, "binary", "binary", "string")
    if name == "bit":
        return _integer(declared, 64, unsigned=True)
    if name in ("date", "datetime", "timestamp"):
        return SourceType(declared, name, "date" if name == "date" else "timestamp", "string")
    raise ValueError(f"{declared!r} is not a MySQL type that is known here. Example: decimal(12,2)")


def _integer(declared: str, bits: int, unsigned: bool) -> SourceType:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if high > 2**63 - 1:
        # room for a fraction: 1.5 must be seen, not rounded
        return SourceType(declared, "integer", "decimal(20,0)", "decimal(38,18)", low, high)
    return SourceType(declared, "integer", "int" if high < 2**31 else "bigint", "bigint", low, high)


def _decimal(declared: str, arguments: str) -> SourceType:
    try:
        numbers = [int(part) for part in arguments.split(",")]
        precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    except ValueError as exc:
        raise ValueError(f"{declared!r}: precision and scale must be numbers") from exc
    if not 0 <= scale <= precision <= MAX_PRECISION or precision < 1:
        raise ValueError(f"{declared!r}: at most {MAX_PRECISION} digits, scale within them")
    # all that is left of 38 digits for the fraction: a digit too many must be seen, not rounded
    parsed = f"decimal({MAX_PRECISION},{MAX_PRECISION - precision + scale})"
    return SourceType(declared, "decimal", f"decimal({precision},{scale})", parsed)
