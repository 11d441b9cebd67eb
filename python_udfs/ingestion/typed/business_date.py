"""The business day that a change counts for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.ingestion.tables.source import TableSource


@dataclass(frozen=True)
class BusinessDay:
    """How changes of a table are dated.

    Attributes:
        source: the table's declaration.
        zone: the business zone, a name or an offset.
        max_ahead_hours: a cut value later than the binlog time by more can't be true.
    """

    source: TableSource
    zone: str
    max_ahead_hours: int

    def cut_date(self, image: Column, op: Column, event_time: Column) -> Column:
        """The business day that a change counts for.

        An insert or update: the date of the cut column after it, for its before image too. A
        delete, whose row's cut value is stale, or a cut value that is null, no date, older than
        the epoch or too far ahead of the log: the date of its binlog time.

        Args:
            image: struct of the columns after the change.
            op: delete, or anything else.
            event_time: timestamp, UTC.
        """
        zone, column = F.lit(self.zone), self.source.cut_column
        local_event = F.from_utc_timestamp(event_time, zone)
        binlog_date = F.to_date(local_event)
        if column is None:
            return binlog_date
        cut = image[column]
        if self.source.columns[column].kind == "date":
            local_cut = cut.cast("timestamp")
        else:
            local_cut = F.from_utc_timestamp(cut, zone)
        latest = local_event + F.expr(f"interval {int(self.max_ahead_hours)} hours")
        possible = (local_cut >= F.lit("1970-01-02").cast("timestamp")) & (local_cut <= latest)
        return F.when((op != "delete") & possible, F.to_date(local_cut)).otherwise(binlog_date)
