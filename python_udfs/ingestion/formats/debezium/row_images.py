"""The images of Debezium's messages, before and after a change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.debezium.envelopes import has_lsn
from python_udfs.ingestion.formats.debezium.schema_blocks import hash_of_schema
from python_udfs.ingestion.formats.debezium.values import column_value, raw_type
from python_udfs.ingestion.formats.exact_numbers import (
    AMBIGUOUS,
    is_ambiguous,
    may_be_reprinted,
    may_be_rounded,
    narrow_decimals,
    rounded_decimals,
    with_marked_numbers,
    without_number_marks,
)
from python_udfs.ingestion.formats.json_lines import JSON_ONLY, absent_columns_text, half_character
from python_udfs.ingestion.formats.several_names import names_if_several, of_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType


def images(messages: DataFrame, source: TableSource) -> DataFrame:
    """Row messages with their images, as maxwell.images; a snapshot's row is taken too."""
    from pyspark.sql import functions as F

    fields = ", ".join(
        f"`{name}` {raw_type(kind, source.options)}" for name, kind in source.names_in_log().items()
    )
    both = f"before struct<{fields}>, after struct<{fields}>"
    schema = f"struct<{both}, payload struct<{both}>, _corrupt string>"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", **JSON_ONLY}
    frame = messages.withColumn("_parsed", F.from_json(F.col("payload"), schema, options))
    frame = frame.select(
        *messages.columns,
        F.coalesce("_parsed.payload.before", "_parsed.before").alias("_raw_before"),
        F.coalesce("_parsed.payload.after", "_parsed.after").alias("_raw_after"),
        F.col("_parsed._corrupt").isNotNull().alias("_unread"),
        (hash_of_schema() if source.written else F.lit(None)).alias("_schema"),
    )
    frame = frame.withColumn("_exact", _exact_texts(source))
    texts = "before map<string, string>, after map<string, string>"
    as_maps = F.from_json(F.col("payload"), f"struct<{texts}, payload struct<{texts}>>")
    image = F.coalesce(as_maps["payload"]["after"], as_maps["after"])
    image = F.coalesce(image, as_maps["payload"]["before"], as_maps["before"])
    several = names_if_several(source, F.col("payload"), F.map_keys(image))
    frame = frame.withColumn("_names", several)
    had = F.col("op").isin("update", "delete")
    frame = frame.select(
        *messages.columns,
        "_raw_before",
        "_raw_after",
        "_unread",
        "_exact",
        "_names",
        F.when(had, _decoded("before", source)).alias("before"),
        F.when(F.col("op") != "delete", _decoded("after", source)).alias("_after"),
    )
    frame = frame.withColumn(
        "data", F.when(F.col("op") == "delete", F.col("before")).otherwise(F.col("_after"))
    )
    # once more as maps of texts, for the reasons: only where a value was not read, or a null may
    # be an absent column
    doubtful = F.col("_unread")
    for name in source.columns:
        for part, raw in (("before", "_raw_before"), ("_after", "_raw_after")):
            there = F.coalesce(
                *[F.col(raw)[source_name].cast("string") for source_name in source.names(name)]
            )
            lost = F.lit(True) if name in source.watched else there.isNotNull()
            known = F.col(part).isNotNull()
            doubtful = doubtful | (known & F.col(part)[name].isNull() & lost)
    frame = frame.withColumn("_maps", F.when(doubtful, as_maps))
    frame = frame.select(
        *messages.columns,
        "data",
        "before",
        "_after",
        "_exact",
        "_names",
        *[
            F.coalesce(F.col("_maps.payload")[part], F.col("_maps")[part]).alias(f"_{part}_texts")
            for part in ("before", "after")
        ],
    )
    misfits = _misfits(source)
    is_delete = F.col("op") == "delete"
    reason = (
        F.when(~is_delete & F.col("_after").isNull(), F.lit("no `after` object"))
        .when(
            had & F.col("before").isNull(),
            F.concat(
                F.lit("no `before` object in a change of op "),
                F.col("op"),
                F.lit(
                    ": the server's binlog_row_image (MySQL) or the table's REPLICA IDENTITY "
                    "(PostgreSQL) must be FULL"
                ),
            ),
        )
        .when(misfits != "", misfits)
        .when(F.col("_exact").isNotNull() & is_ambiguous(F.col("payload")), F.lit(AMBIGUOUS))
        .when(had & _key_only(source), F.lit("`before` holds the key alone"))
        .otherwise(
            F.coalesce(
                rounded_decimals(_read_as_decimals(source), ("after", "before")),
                half_character(source),
                F.when(~is_delete, absent_columns_text(source, F.map_keys("_after_texts"))),
                F.when(had, absent_columns_text(source, F.map_keys("_before_texts"), "before")),
            )
        )
    )
    made = ("_after", "_exact", "_names", "_before_texts", "_after_texts")
    return frame.withColumn("image_reason", reason).drop(*made)


def _read_as_decimals(source: TableSource) -> dict[str, SourceType]:
    """Names in the log of the decimals that from_json reads, and may round."""
    return {
        name: kind
        for name, kind in narrow_decimals(source.names_in_log()).items()
        if raw_type(kind, source.options) == kind.parsed
    }


def _exact_texts(source: TableSource) -> Column:
    """Both images as structs of marked texts, see exact_numbers; null where none is needed."""
    from pyspark.sql import functions as F

    payload = F.col("payload")
    texts = {
        name: [F.col(raw)[name] for raw in ("_raw_before", "_raw_after")]
        for name, kind in source.names_in_log().items()
        if kind.kind == "text"
    }
    decimals = _read_as_decimals(source)
    if not texts and not decimals:
        return F.lit(None)
    row = ", ".join(f"`{name}` string" for name in (*texts, *decimals))
    both = f"before struct<{row}>, after struct<{row}>"
    read = F.from_json(with_marked_numbers(payload), f"struct<{both}, payload struct<{both}>>")
    images = [F.coalesce(read["payload"][part], read[part]) for part in ("before", "after")]
    needed = may_be_reprinted(texts, payload) | may_be_rounded(decimals.values(), payload)
    return F.when(needed, F.struct(images[0].alias("before"), images[1].alias("after")))


def _key_only(source: TableSource) -> Column:
    """Condition: the row before a change of PostgreSQL is null in all columns but the key."""
    from pyspark.sql import functions as F

    others = [F.col("before")[name] for name in source.columns if name not in source.primary_key]
    if not source.primary_key or not others:
        return F.lit(False)
    return has_lsn() & F.coalesce(*[other.cast("string") for other in others]).isNull()


def _misfits(source: TableSource) -> Column:
    """Text naming the values that are there but were not read; empty where there is none."""
    from pyspark.sql import functions as F

    found = []
    for name, kind in source.columns.items():
        for part, image in (("after", "_after"), ("before", "before")):
            texts, names = F.col(f"_{part}_texts"), source.names(name)
            usual = F.coalesce(*[texts[source_name] for source_name in names])
            raw = of_column(names, F.col("_names"), texts.getItem, usual)
            lost = F.col(image).isNotNull() & F.col(image)[name].isNull() & raw.isNotNull()
            value = F.substring(raw, 1, 80)
            text = F.concat(F.lit(f"{part}.{name} = "), value, F.lit(f" is no {kind.declared}"))
            found.append(F.when(lost, text))
    return F.concat_ws("; ", *found)


def _written(name: str, source: TableSource) -> dict[str, list[str]]:
    """How a column is written otherwise than it is declared -> hashes of the schemas that give it
    so."""
    found: dict[str, list[str]] = {}
    for schema, columns in source.written.items():
        if name in columns:
            found.setdefault(columns[name], []).append(schema)
    return found


def _decoded(part: str, source: TableSource) -> Column:
    """An image's columns in their `parsed` types; a value that doesn't fit is null.

    Args:
        part: before or after.
    """
    from pyspark.sql import functions as F

    image = F.col(f"_raw_{part}")

    def read(name: str, kind: SourceType) -> Column:
        if kind.kind != "text":
            return image[name]
        exact = without_number_marks(F.col("_exact")[part][name])
        return F.when(F.col("_exact").isNotNull(), exact).otherwise(image[name])

    values = []
    for name, kind in source.columns.items():
        names = source.names(name)
        usual = F.coalesce(*[read(source_name, kind) for source_name in names])
        raw = of_column(names, F.col("_names"), partial(read, kind=kind), usual)
        value = column_value(raw, kind, source.options)
        for written, schemas in _written(name, source).items():
            own = column_value(raw, kind, source.options, written)
            value = F.when(F.col("_schema").isin(*schemas), own).otherwise(value)
        values.append(value.alias(name))
    return F.when(image.isNotNull(), F.struct(*values))
