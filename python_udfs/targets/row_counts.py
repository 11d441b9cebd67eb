"""Rows that Spark sent and rows that a target took: a publication counts both.

A load that loses rows need not fail: tasks that write another machine's folder, a server behind a
balancer, a trigger. So no version is recorded as held before the counts agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dbt.adapters.sparksession.versions.targets import PublishError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def counted(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """A frame that counts its rows while it is written as files, and how many they were.

    The count is of the write itself: no second pass.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    seen = Observation()
    observed = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
    return observed, lambda: int(seen.get["rows"])


def rows_in(files: Sequence[Path]) -> int:
    """Rows of parquet files, by what their ends say."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(file).num_rows for file in files)


def check_rows(
    table: str, sent: int, found: int, where: str, advice: str = "publish again"
) -> None:
    """See that what was sent is there.

    Args:
        where: what was counted last.

    Raises:
        PublishError: it isn't.
    """
    if sent != found:
        raise PublishError(
            f"{sent} rows of table {table} were sent, {where} has {found} of them: {advice}"
        )
