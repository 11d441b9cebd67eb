"""Partial changes (MongoDB's) in the form of whole images, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource

IS_WHOLE = "_is_whole"  # of an image: all of its columns are known, not the key alone


def marked(source: TableSource, rows: DataFrame) -> DataFrame:
    """Rows of a format with partial changes, in the form of whole images: IS_WHOLE is
    whether it is all of the row, else it is the key. A row of a full load is an insert.

    Args:
        source: with IS_WHOLE among its columns.
    """
    names = [*(name for name in source.columns if name != IS_WHOLE), "raw_values"]
    whole, before = F.col("known_columns").isNull(), F.col("before")

    def known_if(condition: Column) -> dict[str, Column]:
        return {
            name: F.col(name) if name in source.primary_key else F.when(condition, F.col(name))
            for name in names
        }

    whole_before = F.struct(
        F.lit(True).alias(IS_WHOLE), *[before[name].alias(name) for name in names]
    )
    nothing = known_if(F.lit(False)).items()
    bare = F.struct(F.lit(False).alias(IS_WHOLE), *[null.alias(name) for name, null in nothing])
    had = F.when(before.isNotNull(), whole_before).otherwise(bare)
    of_load = F.col("metadata_op_type") == "snapshot"
    return rows.withColumns(
        {
            **known_if(whole),
            IS_WHOLE: whole,
            "before": F.when(F.col("op_type") != "insert", had),
            "metadata_op_type": F.when(of_load, "insert").otherwise(F.col("metadata_op_type")),
        }
    )


def unmarked(source: TableSource, rows: DataFrame) -> DataFrame:
    """The rows that marked() changed, in the format's own form."""
    names = [*(name for name in source.columns if name != IS_WHOLE), "raw_values"]
    whole, before = F.col(IS_WHOLE), F.col("before")
    image = F.struct(*[before[name].alias(name) for name in names])
    return rows.withColumns(
        {
            "before": F.when(whole & before.isNotNull(), image),
            "known_columns": F.when(~whole, F.array().cast("array<string>")),
        }
    ).drop(IS_WHOLE)
