"""Rows of a typed model as its workers write them into files of a folder, without a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dbt.adapters.sparksession.worker_files import AddedFile, FilePlace
from pyspark.sql import DataFrame

from python_udfs.ingestion.fast.row_files import RowFiles
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.tables.source import TableSource
from python_udfs.ingestion.typed.business_date import BusinessDay
from python_udfs.ingestion.typed.duplicates import deduplicate
from python_udfs.ingestion.typed.proven import InWorkers
from tests.support.lines import ZONE


class Folder:
    """What a model's handle is to RowFiles.

    Args:
        partition: the columns whose values have files of their own.

    Attributes:
        added: the files.
    """

    def __init__(self, path: Path, partition: tuple[str, ...] = ("cut_date",)) -> None:
        self._path, self._partition = path, partition
        self.added: list[AddedFile] = []

    def file_place(self, frame: DataFrame) -> FilePlace:
        java = frame.sparkSession._jvm.org.apache.iceberg
        schema = java.spark.SparkSchemaUtil.convert(frame._jdf.schema())
        text = java.SchemaParser.toJson(schema)
        return FilePlace(str(self._path), text, self._partition, 1 << 20, 1 << 28, "run")

    def add_files(self, added: Iterable[AddedFile]) -> None:
        self.added += added


def rows_by_files(
    workers: InWorkers, messages: DataFrame, table: TableSource, path: Path
) -> DataFrame:
    """A typed model's rows, read from the files that its workers write.

    Args:
        path: of an empty folder.
    """
    folder = Folder(path)
    files = RowFiles(folder)
    day, writing = BusinessDay(table, ZONE, 24), replace(workers, files=files)
    rows, _ = deduplicate(messages, None, table, day, [LIVE], writing)
    assert files.without_rows(rows, has_others=True).isEmpty()
    reader = messages.sparkSession.read.schema(rows.schema)
    return reader.parquet(*[file.path for file in folder.added])
