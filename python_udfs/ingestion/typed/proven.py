"""Rows of a typed model decoded in Python workers, see ingestion.fast, or else in Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from python_udfs.ingestion.fast.columns import AGAIN, PROVEN, ROW, TWICE
from python_udfs.ingestion.fast.settings import TWICE_DEFAULT, WorkerSettings, difference
from python_udfs.ingestion.typed.images import canonical, image_of
from python_udfs.ingestion.typed.rows import change_key, decoded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.fast.row_files import RowFiles
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay


@dataclass(frozen=True)
class InWorkers:
    """Workers that decode a table's rows, or don't.

    Attributes:
        settings: whether they do.
        files: lets them write what they decode; None where Spark writes all rows.
    """

    settings: WorkerSettings
    files: RowFiles | None = None

    def decoded(
        self, count: int, messages: DataFrame, source: TableSource, day: BusinessDay
    ) -> DataFrame:
        """What rows.decoded gives, faster.

        Args:
            count: number of new messages of the table, these or more.
        """
        least, checked_in = self.settings
        if least is None or count < least:
            return decoded(messages, source, day)
        # pyarrow and numpy take a while to import: only where they are needed
        from python_udfs.ingestion.fast.workers import layout_of, with_proven_rows

        layout = layout_of(messages.sparkSession, source, day.zone, day.max_ahead_hours)
        if layout is None:
            return decoded(messages, source, day)
        if self.files is not None:
            from python_udfs.ingestion.fast.log_places import with_lines
            from python_udfs.ingestion.fast.writing import without_written

            rows = decoded(messages, source, day)
            files = self.files.place(rows)
            if files is not None:
                lines = with_lines(messages)
                rest = without_written(lines, source, layout, files, checked_in)
                messages = self.files.without_written(rest)
                if not self.files.left:
                    return rows.where(F.lit(False))
                # among what is left are the batches that are to be decoded twice
                checked_in = 1
        read = with_proven_rows(messages, source, layout, checked_in)
        kept = [name for name in (PROVEN, TWICE, ROW, AGAIN) if name in read.columns]
        rows = decoded(read, source, day, kept=kept)
        return _with_proven(_by_number(rows) if ROW in kept else rows, source)


IN_SPARK = InWorkers(WorkerSettings(None, TWICE_DEFAULT))


def _by_number(rows: DataFrame) -> DataFrame:
    """Rows of messages of several rows, with PROVEN of each row's number, and that number.

    Where Spark decoded a message again, a row that the workers didn't give differs from any row.
    """
    nothing = F.col(AGAIN).isNotNull() & F.get(AGAIN, F.col("row_number").cast("int")).isNull()
    again = F.get(AGAIN, F.when(~nothing, F.col("row_number").cast("int")).otherwise(0))
    found = F.when(F.col(TWICE), again).otherwise(F.col(PROVEN))
    lost = F.when(F.col(TWICE) & nothing, difference())
    number = F.when(F.col(ROW).isNotNull(), F.col(ROW).cast("bigint")).otherwise(
        F.coalesce(lost.cast("bigint"), F.col("row_number"))
    )
    return rows.withColumns({PROVEN: found, "row_number": number}).drop(ROW, AGAIN)


def _with_proven(rows: DataFrame, source: TableSource) -> DataFrame:
    """Rows of a typed model, with proven rows in the place of those that Spark made of nothing.

    Args:
        rows: with PROVEN and TWICE. Where a row is decoded twice and differs, the job fails.
    """
    proven = F.col(PROVEN)
    is_proven = proven.isNotNull()
    values = {name: proven["after"][name] for name in (*source.columns, "raw_values")}
    values |= {
        "before": proven["before"],
        "unique_key": change_key(),
        "cut_date": proven["cut_date"],
        "metadata_changes": proven["changes"],
        "reject_reason": F.when(F.col(TWICE) & _differs(source), difference()),
        "reject_payload": F.lit(None).cast("string"),
    }
    return rows.select(
        *[
            F.when(is_proven, values[name]).otherwise(F.col(f"`{name}`")).alias(name)
            if name in values
            else F.col(f"`{name}`")
            for name in rows.columns
            if name not in (PROVEN, TWICE)
        ]
    )


def _differs(source: TableSource) -> Column:
    """Condition: Spark made another row of the message than the workers."""
    proven = F.col(PROVEN)
    pairs = [
        (canonical(source, image_of(source)), canonical(source, proven["after"])),
        (canonical(source, F.col("before")), canonical(source, proven["before"])),
        (F.col("cut_date"), proven["cut_date"]),
        (F.col("metadata_changes"), proven["changes"]),
    ]
    found = F.col("reject_reason").isNotNull()
    for by_spark, by_workers in pairs:
        found = found | ~by_spark.eqNullSafe(by_workers)
    return found
