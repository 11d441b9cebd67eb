"""What all formats that write one JSON object a line have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.deserialize.table_source import TableSource

LATEST_TS = 253402300799  # 9999-12-31T23:59:59Z in epoch seconds
# \uD800 .. \uDBFF without a \uDC00 .. \uDFFF behind it, or the other way round; not after an
# uneven number of backslashes, where the text itself reads so
LONE_SURROGATE = (
    r"(?<!\\)(\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F])"
)


def as_list(payload: Column, head: str) -> Column:
    """The objects of a line as an array of `head` (a struct's DDL); null where it is no JSON.

    As an array, because two objects glued on a line are a syntax error there, and are not when
    from_json reads an object.
    """
    from pyspark.sql import functions as F

    return F.from_json(F.concat(F.lit("["), payload, F.lit("]")), f"array<{head}>")


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


def not_null(texts: Iterable[Column]) -> Column:
    """The distinct texts that are not null, as an array.

    Not array_compact, nor any other function with a lambda: Spark generates no code for it, and
    what stands in it is interpreted, which costs more than the parsing.
    """
    from pyspark.sql import functions as F

    listed = F.array(*texts).cast("array<string>")
    return F.array_except(listed, F.array(F.lit(None).cast("string")))


def absent_columns(source: TableSource, keys: Column, image: str = "data") -> Column:
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

    Spark makes a question mark of half a character, so only rows with one are looked into.
    """
    from pyspark.sql import functions as F

    found = F.lit(False)
    for name, kind in source.columns.items():
        if kind.kind == "text":
            for part in ("data", "before"):
                found = found | F.coalesce(F.col(part)[name].contains("?"), F.lit(False))
    text = F.lit("a lone surrogate escape: half of a character, which no text can hold")
    return F.when(found & F.col("payload").rlike(LONE_SURROGATE), text)
