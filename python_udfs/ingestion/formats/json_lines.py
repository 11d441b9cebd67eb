"""What all formats that write one JSON object a line have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

LATEST_TS = 253402300799  # 9999-12-31T23:59:59Z in epoch seconds
# \uD800 .. \uDBFF without a \uDC00 .. \uDFFF behind it, or the other way round; not after an
# uneven number of backslashes, where the text itself reads so
LONE_SURROGATE = (
    r"(?<!\\)(\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F])"
)

# options of from_json: NaN and Infinity are no JSON
JSON_ONLY = {"allowNonNumericNumbers": "false"}


def as_list(payload: Column, head: str) -> Column:
    """The objects of a line as an array of `head` (a struct's DDL); null where it is no JSON.

    As an array, because two objects glued on a line are a syntax error there, and are not when
    from_json reads an object.
    """
    from pyspark.sql import functions as F

    listed = F.concat(F.lit("["), payload, F.lit("]"))
    return F.from_json(listed, f"array<{head}>", JSON_ONLY)


def no_single_object(listed: Column, producer: str) -> Column:
    """Why a line isn't one object, of what `as_list` made of its payload; null where it is one.

    Args:
        listed: a column made by `as_list`, beside the column `payload`.
        producer: name of the format, for the text.
    """
    from pyspark.sql import functions as F

    variant = F.try_parse_json(F.concat(F.lit("["), F.col("payload"), F.lit("]")))
    no_json = F.lit(
        "not JSON, or more than one object on a line "
        "(nor is JSON read that nests over 1000 levels or has a number of over 1000 digits)"
    )
    no_object = F.lit(f"JSON, but no {producer} message: no object")
    return (
        F.when(listed.isNull(), F.when(variant.isNull(), no_json).otherwise(no_object))
        .when(F.size(listed) == 0, F.lit("empty line"))
        .when(F.size(listed) != 1, F.lit("more than one JSON value on a line"))
    )


def text_kind(name: str) -> Column:
    """text, none or other: what stands under a name of the payload's object; null where it can't
    be read.

    from_json and get_json_object make texts of numbers and objects, too. To be asked of few rows.
    """
    from pyspark.sql import functions as F

    value = F.try_variant_get(F.try_parse_json("payload"), f"$.{name}", "variant")
    kind = F.schema_of_variant(value)
    return (
        F.when(kind == "STRING", F.lit("text"))
        .when(value.isNull() | (kind == "VOID"), F.lit("none"))
        .when(kind.isNotNull(), F.lit("other"))
    )


def not_null(texts: Iterable[Column]) -> Column:
    """The distinct texts that are not null, as an array.

    Not array_compact, nor any other function with a lambda: Spark generates no code for it, and
    what stands in it is interpreted, which costs more than the parsing.
    """
    from pyspark.sql import functions as F

    listed = F.array(*texts).cast("array<string>")
    return F.array_except(listed, F.array(F.lit(None).cast("string")))


def misfit_texts(
    columns: Mapping[str, SourceType], part: str, values: Column, wrong: Column
) -> Column:
    """Texts naming values that aren't of their column's type, as an array.

    It is interpreted, which costs a row more than all else: to be asked of bad rows only. In
    return the plan has one expression for all columns, and their number doesn't make it longer.

    Args:
        columns: name -> type.
        part: the image that they stand in, for the text.
        values: map of names to texts.
        wrong: names to tell, as an array.
    """
    from pyspark.sql import functions as F

    declared = F.create_map(
        *[F.lit(text) for name, kind in columns.items() for text in (name, kind.declared)]
    )
    return F.transform(
        wrong,
        lambda name: F.concat(
            F.lit(f"{part}."),
            name,
            F.lit(" = "),
            F.substring(values[name], 1, 80),
            F.lit(" is no "),
            declared[name],
        ),
    )


def unread_names(columns: Iterable[str], values: Column, read: Column) -> Column:
    """Those of the columns that have a value and were not read, as an array; interpreted too.

    Args:
        values: map of names to texts.
        read: struct of what was read of them.
    """
    from pyspark.sql import functions as F

    there = F.map_keys(F.map_filter(values, lambda _, value: value.isNotNull()))
    # what is null isn't written
    written = F.coalesce(F.json_object_keys(F.to_json(read)), F.array().cast("array<string>"))
    return F.array_except(F.array_intersect(F.array(*map(F.lit, columns)), there), written)


def absent_columns_text(source: TableSource, keys: Column, image: str = "data") -> Column:
    """Text naming watched columns that the row image lacks; null where all are there.

    Args:
        keys: names that stand in the image.
        image: the struct that was read from it, a column beside.
    """
    from pyspark.sql import functions as F

    missing = []
    for name in source.watched:
        names = F.array(*map(F.lit, source.names(name)))
        gone = F.col(image)[name].isNull() & ~F.arrays_overlap(keys, names)
        missing.append(F.when(gone, F.lit(name)))
    if not missing:
        return F.lit(None).cast("string")
    listed = F.concat_ws(", ", *missing)
    text = F.concat(
        F.lit("the row image lacks "),
        listed,
        F.lit(" (is binlog_row_image FULL, is the column declared by its right name?)"),
    )
    return F.when(listed != "", text)


def half_character(source: TableSource) -> Column:
    """Why the texts of `data` and `before` are not what was meant; null where they are.

    Spark makes a question mark of half a character. Only messages with an escape that may be one
    are looked into.
    """
    from pyspark.sql import functions as F

    names = [name for name, kind in source.columns.items() if kind.kind == "text"]
    texts = F.concat_ws("", *[F.col(part)[name] for part in ("data", "before") for name in names])
    payload = F.col("payload")
    escaped = payload.contains("\\ud") | payload.contains("\\uD")
    text = F.lit("a lone surrogate escape: half of a character, which no text can hold")
    broken = escaped & texts.contains("?") & payload.rlike(LONE_SURROGATE)
    return F.when(payload.contains("\\u"), F.when(broken, text))
