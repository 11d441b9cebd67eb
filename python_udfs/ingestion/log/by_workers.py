"""Rows of ods_binlog that the workers write where they read the landed files.

The envelope of a message that is proven is what Spark would read of it. So such a message takes the
way through Spark neither as text nor as a row: what a message costs halves. The others, and one
batch of messages in a thousand, Spark reads as ever.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from python_udfs.ingestion.fast.columns import PROVEN
from python_udfs.ingestion.fast.row_files import RowFiles, TakesFiles
from python_udfs.ingestion.fast.settings import HasVars, difference, worker_settings
from python_udfs.ingestion.formats.envelope import READ_COLUMNS
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.spark import read_messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from python_udfs.ingestion.fast.settings import WorkerSettings
    from python_udfs.ingestion.landing.files import LandedFile
    from python_udfs.ingestion.landing.object_stores import ObjectStore
    from python_udfs.ingestion.landing.offsets import Interval

# about what a message takes in a file, and how much less in a gzip file
BYTES_A_MESSAGE, GZIPPED = 400, 10
# at most this part of the messages may be of formats that workers don't read: such a row costs
# twice as much as where Spark writes all of them
MOST_UNREAD = 1 / 8


class LogModel(HasVars, TakesFiles, Protocol):
    """A Python model's handle `dbt`."""

    may_write_files: bool
    run_id: str


def written_by_workers(
    dbt: LogModel,
    session: SparkSession,
    files: Mapping[str, Sequence[LandedFile]],
    rows: DataFrame,
    of_files: tuple[dict[str, list[Interval]], int, ObjectStore | None],
) -> DataFrame | None:
    """Let workers write the messages of landed files; the rows that Spark has to write all the
    same, or None where it has to write all of them.

    Args:
        files: by their format.
        rows: of ods_binlog, of all that the run reads, which are these files.
        of_files: as read_messages: the offsets that are held, the longest line, and the store.
    """
    settings = worker_settings(dbt)
    if not dbt.may_write_files or not _are_enough(files, settings):
        return None
    # pyarrow and numpy take a while to import: only where they are needed
    from python_udfs.ingestion.fast.envelopes import READ
    from python_udfs.ingestion.fast.log_writing import writing

    unread = sum(map(_messages, (some for kind, some in files.items() if kind not in READ)))
    if unread > MOST_UNREAD * sum(map(_messages, files.values())):
        return None
    by_workers = RowFiles(dbt)
    place = by_workers.place(rows)
    if place is None:
        return None
    left = rows.where(F.lit(False))
    has_others = False
    for kind, some in files.items():
        if kind not in READ:
            read = with_envelope(read_messages(session, list(some), *of_files), kind)
            has_others = True
        else:
            through = writing(kind, place, dbt.run_id, settings.checked_in)
            raw = read_messages(session, list(some), *of_files, through=through)
            read = _compared(with_envelope(by_workers.without_written(raw), kind, [PROVEN]))
        left = left.unionByName(read.withColumn("load_id", F.lit(dbt.run_id)))
    return by_workers.without_rows(left, has_others)


def _are_enough(files: Mapping[str, Sequence[LandedFile]], settings: WorkerSettings) -> bool:
    """Whether so much has landed that workers decode."""
    count = sum(map(_messages, files.values()))
    return settings.least is not None and bool(count) and count >= settings.least


def _messages(files: Sequence[LandedFile]) -> float:
    """About how many messages some files hold."""
    sizes = (file.size * (GZIPPED if file.path.endswith(".gz") else 1) for file in files)
    return sum(sizes) / BYTES_A_MESSAGE


def _compared(rows: DataFrame) -> DataFrame:
    """Rows of ods_binlog without PROVEN; where Spark reads another envelope, the job fails."""
    proven = F.col(PROVEN)
    differs: list[Column] = [F.col("reject_reason").isNotNull()]
    differs += [~F.col(name).eqNullSafe(proven[name]) for name in READ_COLUMNS]
    failed = F.when(proven.isNotNull() & reduce(or_, differs), difference())
    reason = F.coalesce(failed, F.col("reject_reason"))
    return rows.withColumn("reject_reason", reason).drop(PROVEN)
