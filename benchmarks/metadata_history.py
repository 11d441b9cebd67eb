"""History as metadata: files that Iceberg's manifests name and that nobody wrote.

What a run or a read costs beside its rows is what Iceberg keeps of the files: manifests, snapshots,
column bounds. They are real here, by Iceberg's own API. A file that is named isn't there,
so whatever opens it fails: a read that should leave the history alone, and doesn't, is found. Only
where a read has to open history, a small real file stands for a part of it.

The history comes by appends, which merge manifests as a run's do. Then the table's metadata call
them, and each other commit that no model made, `replace`, as a compaction is: readers of new rows
pass these over.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = date(1970, 1, 1)
CATALOG = "lake"
Bound = int | date | Decimal


@dataclass(frozen=True)
class Piece:
    """Files of a partition that have the same column bounds.

    Attributes:
        partition: as Iceberg writes it, `cut_date=2026-03-01`; "" of an unpartitioned table.
        rows, size: rows and bytes of a file.
        files: how many there are.
        bounds: column -> its least and its greatest value; the other columns have those of the
            table's own file.
        is_real: whether they are there: each a copy of the table's own file, with its rows.
    """

    partition: str
    rows: int
    size: int
    files: int = 1
    bounds: Mapping[str, tuple[Bound, Bound]] = field(default_factory=dict)
    is_real: bool = False


def serialized(value: Bound) -> bytes:
    """A value as Iceberg's single-value serialization has it: of bigint, date, decimal.

    >>> serialized(1).hex(), serialized(date(1970, 1, 2)).hex(), serialized(Decimal(-1)).hex()
    ('0100000000000000', '01000000', 'ff')
    >>> serialized(Decimal("1.28")).hex()
    '0080'
    """
    if isinstance(value, date):
        return struct.pack("<i", (value - EPOCH).days)
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(-int(value.as_tuple().exponent)))
        return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return struct.pack("<q", value)


class History:
    """Adds history to a table.

    Args:
        table: schema.name; it has at least one data file.
    """

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._jvm: Any = spark._jvm
        self.table, self.name = self.opened(spark, table), table.partition(".")[2]
        self.names = 0
        scan = self.table.newScan().includeColumnStats().planFiles()
        try:
            files, found = scan.iterator(), []
            while files.hasNext():
                found.append(files.next().file().copy())
        finally:
            scan.close()
        self.own = max(found, key=lambda file: file.recordCount())

    @staticmethod
    def opened(spark: SparkSession, table: str) -> Any:
        """Iceberg's own object of a table, as it is now."""
        jvm: Any = spark._jvm
        util = jvm.org.apache.iceberg.spark.Spark3Util
        return util.loadIcebergTable(spark._jsparkSession, f"{CATALOG}.{table}")

    def properties(self) -> dict[str, str]:
        """Summary of the newest commit."""
        return dict(self.table.currentSnapshot().summary())

    def add(
        self, commits: Iterable[Sequence[Piece]], properties: Mapping[str, str] | None = None
    ) -> int:
        """Commit pieces, each sequence of them by itself; how many files they name.

        Args:
            properties: of each of the commits.
        """
        before, operations = self.names, self.table.operations()
        for pieces in commits:
            append = self.table.newAppend()
            for name, value in (properties or {}).items():
                append.set(name, value)
            for piece in pieces:
                self._add_piece(append, piece)
            append.commit()
        parser = self._jvm.org.apache.iceberg.TableMetadataParser
        current = operations.refresh()
        found = json.loads(parser.toJson(current))
        for snapshot in found["snapshots"]:
            if "dbt.model" not in snapshot["summary"]:
                snapshot["summary"]["operation"] = "replace"
        operations.commit(current, parser.fromJson(json.dumps(found)))
        return self.names - before

    @property
    def row_bytes(self) -> float:
        """Bytes of a row of the table's own file."""
        return self.own.fileSizeInBytes() / self.own.recordCount()

    def has(self, column: str) -> bool:
        return self.table.schema().findField(column) is not None

    def _add_piece(self, append: Any, piece: Piece) -> None:
        builder = self._jvm.org.apache.iceberg.DataFiles.builder(self.table.spec()).copy(self.own)
        if piece.partition:
            builder.withPartitionPath(piece.partition)
        builder.withMetrics(self._metrics(piece))
        if piece.is_real:
            builder.withRecordCount(self.own.recordCount())
        else:
            builder.withFileSizeInBytes(piece.size)
        folder = f"{self.table.location()}/data/{piece.partition}"
        for _ in range(piece.files):
            path = f"{folder}/00000-{self.names}-history.parquet"
            if piece.is_real:
                copy = Path(path.removeprefix("file:"))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(self.own.location()).removeprefix("file:"), copy)
            append.appendFile(builder.withPath(path).build())
            self.names += 1

    def _metrics(self, piece: Piece) -> Any:
        own, schema = self.own, self.table.schema()
        lower, upper = (
            self._jvm.java.util.HashMap(bounds) for bounds in (own.lowerBounds(), own.upperBounds())
        )
        for column, (least, greatest) in piece.bounds.items():
            number = schema.findField(column).fieldId()
            lower.put(number, self._buffer(least))
            upper.put(number, self._buffer(greatest))
        return self._jvm.org.apache.iceberg.Metrics(
            piece.rows,
            own.columnSizes(),
            own.valueCounts(),
            own.nullValueCounts(),
            own.nanValueCounts(),
            lower,
            upper,
        )

    def _buffer(self, value: Bound) -> Any:
        return self._jvm.java.nio.ByteBuffer.wrap(serialized(value))
