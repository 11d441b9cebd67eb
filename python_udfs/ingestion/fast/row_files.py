"""Rows of a model that its workers write as files of its table, see worker_files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from dbt.adapters.sparksession.evaluation import are_few, compile_again, leave_uncompiled
from dbt.adapters.sparksession.session import checkpointed
from dbt.adapters.sparksession.worker_files import AddedFile
from pyspark.sql import functions as F

from python_udfs.ingestion.fast.columns import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dbt.adapters.sparksession.worker_files import FilePlace
    from pyspark.sql import DataFrame

    from python_udfs.ingestion.fast.files import Files

HELD_BYTES = 256 << 20  # of the rows that a task holds of all partitions
# messages left that are sent around so that few tasks have them, and how many a task should have
_MOST_MOVED, _TASK_ROWS = 1_000_000, 5_000


class TakesFiles(Protocol):
    """A Python model's handle `dbt`."""

    def file_place(self, frame: DataFrame) -> FilePlace | None:
        """Where workers may write files of the model's table."""

    def add_files(self, added: Iterable[AddedFile]) -> None:
        """Let the model's commit add files."""


class RowFiles:
    """Files of a model's table that its run's workers write.

    Attributes:
        left: number of messages whose rows they haven't written.
    """

    def __init__(self, dbt: TakesFiles) -> None:
        self._dbt = dbt
        self._files: Files | None = None
        self.left = 0

    def place(self, rows: DataFrame) -> Files | None:
        """Where and how the workers write; None where they can't.

        Args:
            rows: with the columns of the model's table; they aren't made.
        """
        # pyarrow and numpy take a while to import: only where they are needed
        from python_udfs.ingestion.fast.file_schema import arrow_schema
        from python_udfs.ingestion.fast.files import Files

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
        return self._files

    def without_written(self, messages: DataFrame) -> DataFrame:
        """Let the workers write what they prove; the other messages.

        Args:
            messages: those that they leave, with WRITTEN, and a row for each file, of which all but
                WRITTEN is null.
        """
        rest = checkpointed(messages)
        is_file = F.col(WRITTEN).isNotNull()
        self._add(rest.where(is_file).select(WRITTEN))
        rest = rest.where(~is_file).drop(WRITTEN)
        count = rest.count()
        self.left += count
        if count > _MOST_MOVED:
            return rest
        # a task of each part of the log would write a file for its few messages
        cores = rest.sparkSession.sparkContext.defaultParallelism
        return rest.repartition(max(1, min(cores, count // _TASK_ROWS)))

    def without_rows(self, rows: DataFrame, has_others: bool) -> DataFrame:
        """Write a model's other rows, if workers write its files; what Spark has to write.

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
