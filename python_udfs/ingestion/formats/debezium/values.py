"""Debezium's values, by the column's type and the connector's settings."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from python_udfs.ingestion.tables.types import MAX_PRECISION

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.ingestion.tables.types import SourceType

PLACEHOLDER = "__debezium_unavailable_value"
PLACEHOLDER_BYTES = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
_ISO_TIME = r"\d{2}:\d{2}:\d{2}(?:\.\d{1,6}0*)?"
_ISO_TIMESTAMP = rf"^\d{{4}}-\d{{2}}-\d{{2}}T{_ISO_TIME}(Z|[+-]\d{{2}}:\d{{2}})\z"
_UTC = r"(?:Z|\+00:00)?\z"
FIRST_DAY, LAST_DAY = -719528, 2932896  # 0000-01-01 and 9999-12-31 in epoch days
LONGEST_TIME = 3020399999999  # 838:59:59.999999 in microseconds
DAYS = "days"
_DIGITS = {"milliseconds": 3, "microseconds": 6, "nanoseconds": 9}  # of a second
OF_SCALE = "scale "  # of a decimal, before its number


def name_and_length(kind: SourceType) -> tuple[str, int]:
    """The declared type's name and its first number, 0 where there is none: datetime, 3."""
    match = re.match(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*[,)])?", kind.declared)
    assert match is not None  # source_type() took it
    return match[1].lower(), int(match[2] or 0)


def raw_type(kind: SourceType, options: dict[str, str]) -> str:
    """The Spark type that a value of JSON is first read as: text where it must be decoded."""
    name, _ = name_and_length(kind)
    if kind.kind == "decimal" and options["decimal.handling.mode"] == "precise":
        return "string"
    is_bool = name in ("tinyint", "bit")
    if kind.kind in ("date", "datetime", "timestamp") or is_bool or kind.spark == "decimal(20,0)":
        return "string"
    return kind.parsed


def can_become(written: str, kind: SourceType) -> bool:
    """Whether values that are written so, see column_value, may be values of a column's type."""
    if kind.kind == "decimal":
        precision, scale = precision_and_scale(kind)
        places = written.removeprefix(OF_SCALE)
        # more decimals than `parsed` has would be rounded
        is_whole = written != places and places.isdecimal()
        return is_whole and int(places) <= MAX_PRECISION - precision + scale
    if kind.kind in ("date", "datetime"):
        return written in (DAYS, *_DIGITS)
    return written in _DIGITS and name_and_length(kind)[0] == "time"


def column_value(
    raw: Column, kind: SourceType, options: dict[str, str], written: str | None = None
) -> Column:
    """A raw value as Maxwell would write it, in the column's `parsed` type; null if it is none.

    Args:
        written: how it is written, `scale 2` or a unit of time, where it is otherwise than the
            type is by the options.
    """
    from pyspark.sql import functions as F

    name, length = name_and_length(kind)
    mode = options["time.precision.mode"]
    if kind.kind == "decimal" and options["decimal.handling.mode"] == "precise":
        return _scaled(raw, kind, written)
    if name == "bit":
        return (_boolean(raw) if length <= 1 else _bits(raw, length)).cast(kind.parsed)
    if name == "tinyint":
        return F.coalesce(_boolean(raw), raw.try_cast(kind.parsed))
    if kind.spark == "decimal(20,0)":
        precise = options["bigint.unsigned.handling.mode"] == "precise"
        return (_signed(raw) if precise else _unsigned(raw)).try_cast(kind.parsed)
    if kind.kind in ("date", "datetime") and written is not None:
        return _date(raw) if written == DAYS else _datetime(_micros(raw, _DIGITS[written]))
    if kind.kind == "date":
        return _iso(raw, r"\d{4}-\d{2}-\d{2}") if mode == "isostring" else _date(raw)
    if kind.kind == "timestamp" or (kind.kind == "datetime" and mode == "isostring"):
        read = F.when(raw.rlike(_ISO_TIMESTAMP), raw.try_cast("timestamp"))
        return read.cast("string")
    digits = digits_of_second(name, length, mode) if written is None else _DIGITS[written]
    if kind.kind == "datetime":
        return _datetime(_micros(raw, digits))
    if name == "time":
        if mode == "isostring":
            return _iso(raw, _ISO_TIME)
        return _time(_micros(raw, digits), length)
    if kind.kind == "binary":
        encoded = _base64(raw, options["binary.handling.mode"])
        return F.when(encoded != PLACEHOLDER_BYTES, encoded)
    if kind.kind == "text":
        return F.when(raw != PLACEHOLDER, raw)
    return raw


def precision_and_scale(kind: SourceType) -> tuple[int, int]:
    """Of a decimal's declared type."""
    precision, scale = map(int, kind.spark[len("decimal(") : -1].split(","))
    return precision, scale


def _scaled(raw: Column, kind: SourceType, written: str | None) -> Column:
    """A decimal of its unscaled bytes; its scale is the declared one, or `written`, or stands
    beside them."""
    from pyspark.sql import functions as F

    precision, scale = precision_and_scale(kind)
    variable = raw.startswith("{")
    unscaled = F.when(variable, F.get_json_object(raw, "$.value")).otherwise(raw)
    given = F.get_json_object(raw, "$.scale").try_cast("int")
    # more decimals than `parsed` has would be rounded
    places = F.when(
        variable, F.when(given.between(-precision, MAX_PRECISION - precision + scale), given)
    )
    fixed = scale if written is None else int(written.removeprefix(OF_SCALE))
    exponent = F.when(variable, (-places).cast("string")).otherwise(F.lit(str(-fixed)))
    number = _signed(unscaled).cast("string")
    return F.concat(number, F.lit("E"), exponent).try_cast(kind.parsed)


def _signed(encoded: Column) -> Column:
    """The number of base64 of big-endian two's complement bytes; null beyond 38 digits."""
    from pyspark.sql import functions as F

    digits = F.hex(F.unbase64(F.when(encoded.rlike(_BASE64), encoded)))
    digits = F.when(F.length(digits).between(2, 32), digits)
    negative = digits >= "8"
    # of a negative number the complement: what it is below -1
    flipped = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    padded = F.lpad(F.when(negative, flipped).otherwise(digits), 32, "0")
    # conv() takes 64 bits
    high, low = (
        F.conv(F.substring(padded, start, 16), 16, 10).cast("decimal(20,0)") for start in (1, 17)
    )
    size = F.try_add(F.try_multiply(high, F.lit(Decimal(2**64))), low)
    # no unary minus: Spark's rounds to 34 digits
    return F.when(negative, F.try_subtract(F.lit(Decimal(-1)), size)).otherwise(size)


def _unsigned(raw: Column) -> Column:
    """An unsigned bigint that was written as a signed one."""
    from pyspark.sql import functions as F

    whole = F.when(raw.rlike(r"^-?\d{1,20}\z"), raw.try_cast("decimal(20,0)"))
    wrapped = whole.between(F.lit(Decimal(-(2**63))), F.lit(Decimal(-1)))
    return F.when(wrapped, whole + F.lit(Decimal(2**64))).otherwise(whole)


def _boolean(raw: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(raw == "true", 1).when(raw == "false", 0).cast("bigint")


def _bits(raw: Column, length: int) -> Column:
    """The number of base64 of so many bits, in little-endian bytes."""
    from pyspark.sql import functions as F

    digits = F.hex(F.unbase64(F.when(raw.rlike(_BASE64), raw)))
    digits = F.when(F.length(digits).between(2, min(16, (length + 7) // 8 * 2)), digits)
    # the last byte first: reversed, and the two digits of a byte back in their order
    big_endian = F.regexp_replace(F.reverse(digits), "(.)(.)", "$2$1")
    return F.conv(big_endian, 16, 10).cast("decimal(20,0)")


def _base64(raw: Column, mode: str) -> Column:
    from pyspark.sql import functions as F

    if mode == "hex":
        digits = F.when(raw.rlike(r"^([0-9A-Fa-f]{2})*\z"), raw)
        return F.base64(F.unhex(digits))
    if mode == "base64-url-safe":
        raw = F.translate(raw, "-_", "+/")
    return F.when(raw.rlike(_BASE64), raw)


def _iso(raw: Column, pattern: str) -> Column:
    """The text before the zone, which must be UTC."""
    from pyspark.sql import functions as F

    return F.nullif(F.regexp_extract(raw, f"^({pattern}){_UTC}", 1), F.lit(""))


def _date(raw: Column) -> Column:
    from pyspark.sql import functions as F

    days = raw.try_cast("int")
    return F.when(days.between(FIRST_DAY, LAST_DAY), F.date_from_unix_date(days)).cast("string")


def digits_of_second(name: str, length: int, mode: str) -> int:
    """Decimals of a second that a number counts: 3, 6 or 9."""
    if mode in ("microseconds", "nanoseconds"):
        return 6 if mode == "microseconds" else 9
    if name == "time" and mode == "adaptive_time_microseconds":
        return 6
    return 3 if mode == "connect" or length <= 3 else 6


def unit_of_second(digits: int) -> str:
    """The unit that a number of so many decimals of a second counts."""
    return next(unit for unit, known in _DIGITS.items() if known == digits)


def _micros(raw: Column, digits: int) -> Column:
    """Microseconds of a number's text; null where it has a part of one."""
    from pyspark.sql import functions as F

    whole = F.when(raw.rlike(r"^-?\d{1,19}\z"), raw)
    if digits == 3:
        whole = F.concat(whole, F.lit("000"))
    if digits == 9:
        whole = F.when(whole.rlike(r"000\z|^0\z"), F.regexp_replace(whole, r"000\z", ""))
    return whole.try_cast("bigint")


def _datetime(micros: Column) -> Column:
    from pyspark.sql import functions as F

    day = 86400 * 1000000
    known = micros.between(FIRST_DAY * day, (LAST_DAY + 1) * day - 1)
    return F.when(known, F.timestamp_micros(micros)).cast("string")


def _time(micros: Column, length: int) -> Column:
    """As MySQL writes a TIME of so many decimals: it may be negative, or longer than a day."""
    from pyspark.sql import functions as F

    fits = micros.between(-LONGEST_TIME, LONGEST_TIME) & (micros % 10 ** (6 - length) == 0)
    size = F.when(fits, F.abs(micros))  # of the lowest number of 64 bits abs fails
    below_hour = "mm:ss" + ("." + "S" * length if length else "")
    return F.concat(
        F.when(micros < 0, F.lit("-")).otherwise(F.lit("")),
        F.format_string("%02d", F.floor(size / 36e8)),
        F.lit(":"),
        F.date_format(F.timestamp_micros(size), below_hour),
    )
