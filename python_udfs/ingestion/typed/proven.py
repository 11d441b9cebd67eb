"""Rows of a typed model decoded in Python workers, see ingestion.fast, or else in Spark."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from python_udfs.ingestion.fast.columns import AGAIN, PROVEN, ROW, TWICE
from python_udfs.ingestion.typed.images import canonical, image_of
from python_udfs.ingestion.typed.rows import change_key, decoded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.typed.business_date import BusinessDay
    from python_udfs.ingestion.typed.row_files import RowFiles

FROM_VAR, TWICE_VAR = "worker_decoding_from", "worker_decoding_checked_in"
NEVER = "never"
FROM_DEFAULT, TWICE_DEFAULT = 200_000, 1000


@dataclass(frozen=True)
class InWorkers:
    """Whether workers decode.

    Attributes:
        least: number of a table's new messages from which they do, or None for never.
        checked_in: number of a worker's batches of which Spark decodes one batch as well.
        files: lets them write what they decode; None where Spark writes all rows.
    """

    least: int | None
    checked_in: int
    files: RowFiles | None = None

    def decoded(
        self, count: int, messages: DataFrame, source: TableSource, day: BusinessDay
    ) -> DataFrame:
        """What rows.decoded gives, faster.

        Args:
            count: number of new messages of the table, these or more.
        """
        if self.least is None or count < self.least:
            return decoded(messages, source, day)
        # pyarrow and numpy take a while to import: only where they are needed
        from python_udfs.ingestion.fast.workers import layout_of, with_proven_rows

        layout = layout_of(messages.sparkSession, source, day.zone, day.max_ahead_hours)
        if layout is None:
            return decoded(messages, source, day)
        checked_in = self.checked_in
        if self.files is not None:
            rows = decoded(messages, source, day)
            rest = self.files.without_written(messages, rows, source, layout, checked_in)
            if rest is not None:
                if not self.files.left:
                    return rows.where(F.lit(False))
                # among what is left are the batches that are to be decoded twice
                messages, checked_in = rest, 1
        read = with_proven_rows(messages, source, layout, checked_in)
        kept = [name for name in (PROVEN, TWICE, ROW, AGAIN) if name in read.columns]
        rows = decoded(read, source, day, kept=kept)
        return _with_proven(_by_number(rows) if ROW in kept else rows, source)


IN_SPARK = InWorkers(None, TWICE_DEFAULT)


class HasVars(Protocol):
    """A Python model's handle `dbt`."""

    def project_var(self, name: str, default: object = None) -> object:
        """A var of the project."""


def in_workers(dbt: HasVars) -> InWorkers:
    """What the vars say of decoding.

    Args:
        dbt: handle of a Python model.

    Raises:
        ValueError: a var has another value than a number, or `never`.
    """
    least = os.environ.get("WORKER_DECODING_FROM") or str(dbt.project_var(FROM_VAR, FROM_DEFAULT))
    checked = str(dbt.project_var(TWICE_VAR, TWICE_DEFAULT))
    if least != NEVER and not least.isdecimal():
        raise ValueError(
            f"the var {FROM_VAR} is {least!r}, must be a number of messages or {NEVER!r}. "
            f"Example: {FROM_VAR}: {FROM_DEFAULT}"
        )
    if not checked.isdecimal() or not int(checked):
        raise ValueError(
            f"the var {TWICE_VAR} is {checked!r}, must be a whole number above 0. "
            f"Example: {TWICE_VAR}: {TWICE_DEFAULT}"
        )
    return InWorkers(None if least == NEVER else int(least), int(checked))


def _by_number(rows: DataFrame) -> DataFrame:
    """Rows of messages of several rows, with PROVEN of each row's number, and that number.

    Where Spark decoded a message again, a row that the workers didn't give differs from any row.
    """
    nothing = F.col(AGAIN).isNotNull() & F.get(AGAIN, F.col("row_number").cast("int")).isNull()
    again = F.get(AGAIN, F.when(~nothing, F.col("row_number").cast("int")).otherwise(0))
    found = F.when(F.col(TWICE), again).otherwise(F.col(PROVEN))
    lost = F.when(F.col(TWICE) & nothing, _difference())
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
        "reject_reason": F.when(F.col(TWICE) & _differs(source), _difference()),
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


def _difference() -> Column:
    """An error that names the message."""
    place = F.concat_ws(":", "batch_id", "topic", "partition_number", "message_offset")
    text = F.concat(
        F.lit("the message at "),
        place,
        F.lit(
            " (batch, topic, partition, offset) was read otherwise by the Python workers than by "
            f"Spark: nothing is committed; run with --vars '{FROM_VAR}: {NEVER}', which leaves all "
            "to Spark, and report the message."
        ),
    )
    return F.raise_error(text).cast("string")
