"""Extended JSON's values, in the types of declared columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.exact_numbers import exact_decimal
from python_udfs.ingestion.formats.json_lines import LATEST_TS

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.ingestion.tables.types import SourceType

_ISO = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)\z"
# how ids that are no texts read in a text column: an ObjectId, a UUID, a number, an instant, a
# boolean, JSON
_LIKE_ANOTHER_ID = (
    r"^([0-9a-f]{24}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-?\d++(\.\d++)?([eE][-+]?\d++)?|NaN"
    r"|-?Infinity|\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}|true|false|[{\[].*+)\z"
)
# a time that no other text is of: 10:00:00.50 is 10:00:00.5
_WHOLE_TIME = r"^.{10} .{8}(\.\d{0,5}[1-9])?\z"
_WHOLE = r"^-?\d+(\.0+)?\z"
_PLAIN_BYTES = r"\"(subType|\$type)\":\"0?0\""  # of binary data without a meaning of its own
UUID_BYTES = 16
LIKE_A_NUMBER = "is a boolean, which reads like the id 1 or 0: declare the column json"
LIKE_ANOTHER_TYPE = (
    "is a text that reads like an id of another type: where all ids are texts, set the option ids "
    "to texts, else declare the column json"
)
LIKE_A_TEXT = "is binary, which may read like a text: declare the column binary"
LIKE_A_DOUBLE = "is a decimal, which reads like a double of another value: declare the column json"
ROUNDED_ID = "is a number that the column rounds, so it may be another id: declare the column json"
LIKE_AN_INSTANT = "is a text, which may read like the id of an instant: declare the column json"
LIKE_A_TIME = "is a text that may be of the same time as another: declare the column json"
LIKE_OTHER_BYTES = (
    "is binary of a subtype or length that may read like a UUID, or like bytes of another subtype: "
    "declare the column json"
)
_NUMBERS = ("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal")


def _in(value: Column, name: str) -> Column:
    """What the variant holds under a name like $date, as text."""
    from pyspark.sql import functions as F

    return F.try_variant_get(value, f"$['{name}']", "string")


def number_text(value: Column) -> Column:
    """The text of a number, of the variant of one or of {"$numberLong": ..} and its like."""
    from pyspark.sql import functions as F

    plain = F.when(F.to_json(value).rlike("^[-0-9]"), value.cast("string"))
    return F.coalesce(*[_in(value, name) for name in _NUMBERS], plain)


def from_millis(millis: Column) -> Column:
    from pyspark.sql import functions as F

    # from the year 1 on: beyond the bounds there is no timestamp
    possible = millis.between(-62135596800000, LATEST_TS * 1000)
    return F.timestamp_millis(F.when(possible, millis))


def instant_of(value: Column) -> Column:
    """The timestamp of a variant {"$date": ..}: ISO text, milliseconds, {"$numberLong": ms}."""
    from pyspark.sql import functions as F

    text = _in(value, "$date")
    millis = F.coalesce(F.try_variant_get(value, "$['$date']['$numberLong']", "string"), text)
    return F.coalesce(_from_iso(text), from_millis(millis.try_cast("bigint")))


def _from_iso(text: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(text.rlike(_ISO), text.try_cast("timestamp"))


def _as_mysql(instant: Column) -> Column:
    from pyspark.sql import functions as F

    return F.date_format(instant, "yyyy-MM-dd HH:mm:ss.SSSSSS")


def scalar_of(value_and_json: Column) -> Column:
    """(kind, text, json) of a variant with its JSON text, Extended JSON unwrapped."""
    from pyspark.sql import functions as F

    value, json = value_and_json["v"], value_and_json["json"]

    def found(kind: str, text: Column) -> Column:
        made = F.struct(F.lit(kind).alias("kind"), text.alias("text"), json.alias("json"))
        return F.when(text.isNotNull(), made)

    first = F.left(json, F.lit(1))
    subtype = F.coalesce(
        F.try_variant_get(value, "$['$binary']['subType']", "string"), _in(value, "$type")
    )
    base64 = F.coalesce(
        F.try_variant_get(value, "$['$binary']['base64']", "string"),
        # the older form: {"$binary": base64, "$type": "00"}
        F.when(_in(value, "$type").isNotNull(), _in(value, "$binary")),
    )
    digits = F.lower(F.hex(F.try_to_binary(base64, F.lit("base64"))))
    dashed = F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    uuid = F.when(subtype.isin("04", "4") & (F.length(digits) == 32), dashed)
    unwrapped = F.coalesce(
        found("text", _in(value, "$oid")),
        found("number", F.coalesce(*[_in(value, name) for name in _NUMBERS])),
        found("instant", _as_mysql(instant_of(value))),
        found("uuid", F.coalesce(_in(value, "$uuid"), uuid)),
        found("binary", base64),
        found("json", json),
    )
    return (
        F.when(value.isNull() | F.is_variant_null(value), None)
        .when(first == '"', found("text", value.cast("string")))
        .when(first.isin("t", "f"), found("boolean", json))
        .when(first == "{", unwrapped)
        .when(first == "[", found("json", json))
        .otherwise(found("number", value.cast("string")))
    )


def is_text_type(kind: SourceType) -> bool:
    """Whether a column holds the text of any value; one of type json holds its JSON."""
    return kind.kind == "text" and kind.declared.strip().lower() != "json"


def parsed_value(scalar: Column, kind: SourceType) -> Column:
    """A (kind, text, json) in the column's `parsed` type; null where it is none of it."""
    from pyspark.sql import functions as F

    text, found = scalar["text"], scalar["kind"]
    if kind.kind == "text":
        return text if is_text_type(kind) else scalar["json"]
    if kind.kind == "binary":
        from_uuid = F.base64(F.unhex(F.replace(text, F.lit("-"), F.lit(""))))
        return F.when(found == "binary", text).when(found == "uuid", from_uuid)
    if kind.kind == "timestamp":
        # text with a zone is an instant
        iso = F.when(found == "text", _as_mysql(_from_iso(text)))
        return F.coalesce(iso, F.when(found.isin("instant", "text"), text))
    if kind.kind == "date":
        midnight = F.when(text.endswith(" 00:00:00.000000"), F.left(text, F.lit(10)))
        return F.when(found == "instant", midnight).when(found == "text", text)
    if kind.kind == "datetime":
        return F.when(found == "text", text)
    number = F.when(found == "number", text)
    if kind.kind == "decimal":
        return exact_decimal(number, kind.parsed)
    if kind.kind != "integer":
        return number.try_cast(kind.parsed)
    bit = F.when(found == "boolean", F.when(text == "true", F.lit("1")).otherwise(F.lit("0")))
    # shells and drivers write whole numbers as doubles
    wide = exact_decimal(F.coalesce(number, bit), "decimal(38,18)")
    return F.when((wide % 1 == 0) | (kind.parsed != "bigint"), wide.try_cast(kind.parsed))


def mistakable_id(scalar: Column, kind: SourceType, ids: str) -> Column:
    """Why a (kind, text, json) may be another document's id in a column; null: it can't.

    Args:
        kind: of the column.
        ids: as of the option.
    """
    from pyspark.sql import functions as F

    text, found, json = scalar["text"], scalar["kind"], scalar["json"]
    is_text = F.startswith(json, F.lit('"'))
    # of MongoDB's the decimal 0.1 and the double 0.1 are two numbers
    is_decimal = json.contains('"$numberDecimal"') & ~text.rlike(_WHOLE)
    of_fraction = F.when((found == "number") & is_decimal, F.lit(LIKE_A_DOUBLE))
    if is_text_type(kind):
        if ids == "texts":
            return F.when(~is_text, F.lit("is no text, which the option ids requires"))
        like_another = F.when(is_text & text.rlike(_LIKE_ANOTHER_ID), F.lit(LIKE_ANOTHER_TYPE))
        binary = F.when(found == "binary", F.lit(LIKE_A_TEXT))
        return F.coalesce(like_another, binary, of_fraction)
    if kind.kind == "integer":
        return F.when(found == "boolean", F.lit(LIKE_A_NUMBER))
    if kind.kind == "decimal":
        return of_fraction
    if kind.kind in ("float", "double"):
        number = text.try_cast("double")
        is_rounded = text.rlike(_WHOLE) & (F.abs(number) >= 2.0**53)
        if kind.kind == "float":
            is_rounded |= number.cast("float").cast("double") != number
        return F.coalesce(of_fraction, F.when(is_rounded, F.lit(ROUNDED_ID)))
    if kind.kind in ("timestamp", "date"):
        return F.when(is_text, F.lit(LIKE_AN_INSTANT))
    if kind.kind == "datetime":
        return F.when(is_text & ~text.rlike(_WHOLE_TIME), F.lit(LIKE_A_TIME))
    if kind.kind == "binary":
        is_plain = json.rlike(_PLAIN_BYTES) & (
            F.length(F.try_to_binary(text, F.lit("base64"))) != UUID_BYTES
        )
        return F.when((found == "binary") & ~is_plain, F.lit(LIKE_OTHER_BYTES))
    return F.lit(None).cast("string")
