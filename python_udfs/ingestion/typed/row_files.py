"""Rows of a typed model that workers write as files of its table, see worker_files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from dbt.adapters.sparksession.evaluation import are_few, compile_again, leave_uncompiled
from dbt.adapters.sparksession.session import checkpointed
from dbt.adapters.sparksession.worker_files import AddedFile
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dbt.adapters.sparksession.worker_files import FilePlace
    from pyspark.sql import DataFrame

    from python_udfs.ingestion.fast.files import Files
    from python_udfs.ingestion.fast.images import Layout
    from python_udfs.ingestion.tables.source import TableSource

HELD_BYTES = 256 << 20  # of the rows that a task holds of all days
# messages left that are sent around so that few tasks have them, and how many a task should have
_MOST_MOVED, _TASK_ROWS = 1_000_000, 5_000


class TakesFiles(Protocol):
    """A Python model's handle `dbt`."""

    def file_place(self, frame: DataFrame) -> FilePlace | None:
        """Where workers may write files of the model's table."""

    def add_files(self, added: Iterable[AddedFile]) -> None:
        """Let the model's commit add files."""


class RowFiles:
    """Files of a typed model's table that its run's workers write.

    Attributes:
        left: number of messages whose rows they didn't write.
    """

    def __init__(self, dbt: TakesFiles) -> None:
        self._dbt = dbt
        self._files: Files | None = None
        self.left = 0

    def without_written(
        self,
        messages: DataFrame,
        rows: DataFrame,
        source: TableSource,
        layout: Layout,
        twice_in: int,
    ) -> DataFrame | None:
        """Write the rows that the workers prove; the other messages. None where they can't write.

        Args:
            rows: of these messages, as Spark makes them.
            twice_in: number of a worker's batches of which one batch is left among the others.
        """
        # pyarrow and numpy take a while to import: only where they are needed
        from python_udfs.ingestion.fast.file_schema import arrow_schema
        from python_udfs.ingestion.fast.files import Files
        from python_udfs.ingestion.fast.writing import WRITTEN, without_written

        place = self._dbt.file_place(rows)
        if place is None:
            return None
        self._files = Files(
            folder=place.folder,
            schema=arrow_schema(place.schema),
            partition=place.partition,
            group_bytes=place.group_bytes,
            held_bytes=max(HELD_BYTES, place.group_bytes),
            file_bytes=place.file_bytes,
            run=place.run,
        )
        rest = checkpointed(without_written(messages, source, layout, self._files, twice_in))
        is_file = F.col(WRITTEN).isNotNull()
        self._add(rest.where(is_file).select(WRITTEN))
        rest = rest.where(~is_file).drop(WRITTEN)
        self.left = rest.count()
        if self.left > _MOST_MOVED:
            return rest
        # a task of each part of the log would write a file for its few messages
        cores = rest.sparkSession.sparkContext.defaultParallelism
        return rest.repartition(max(1, min(cores, self.left // _TASK_ROWS)))

    def without_rows(self, rows: DataFrame, has_others: bool) -> DataFrame:
        """Write a typed model's other rows, if workers write its files; what Spark has to write.

        Args:
            has_others: whether there may be more than those of the messages that are left.
        """
        if self._files is None or not (self.left or has_others):
            return rows
        from python_udfs.ingestion.fast.writing import written

        session = rows.sparkSession
        if not has_others and are_few(self.left):
            leave_uncompiled(session)
        self._add(written(rows, self._files))
        compile_again(session)
        return rows.where(F.lit(False))

    def _add(self, written: DataFrame) -> None:
        self._dbt.add_files(AddedFile(*json.loads(row[0])) for row in written.collect())
