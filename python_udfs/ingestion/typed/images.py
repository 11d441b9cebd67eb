"""Row images of typed rows, in forms that can be compared and grouped by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.ingestion.tables.source import TableSource


def image_of(source: TableSource) -> Column:
    """The row after a change, as one struct like `before`."""
    return F.struct(*source.columns, "raw_values")


def canonical(source: TableSource, image: Column) -> Column:
    """An image in a form that can be grouped by: its map as a list in a fixed order."""
    entries = F.array_sort(F.map_entries(image["raw_values"]))
    fields = [image[name].alias(name) for name in source.columns]
    return F.when(image.isNotNull(), F.struct(*fields, entries.alias("raw_values")))


def digest(canon: Column) -> Column:
    exact = {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS", "ignoreNullFields": "false"}
    return F.md5(F.to_json(canon, exact))
