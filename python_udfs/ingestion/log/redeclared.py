"""A table's changes after its project declared other beginnings of the log, see log_resets.

Changes that were refused since nobody had declared their log are read again; their refused rows
leave the table. Changes that the table holds have positions by the old declaration, and rows
downstream depend on them: if the new one gives them another position, the table has to be rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.session import checkpointed

from python_udfs.ingestion.formats.envelope import COORDINATES, ROW_OPS, of_table
from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.log.doubt import UNDECLARED
from python_udfs.ingestion.tables.log_resets import LogReset, log_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from python_udfs.ingestion.tables.source import TableSource


def check_held(
    binlog: DataFrame, known: DataFrame, source: TableSource, declared: list[Any]
) -> None:
    """Check that the changes that the table holds keep their positions.

    This reads the coordinates of the table's messages, once for each declaration.

    Args:
        binlog: all messages that the model may read.
        known: rows of the typed model.
        declared: resets that the model's last commit knew, see resets_as_json.

    Raises:
        ValueError: a change that the table holds is of another log now.
    """
    from pyspark.sql import functions as F

    module = FORMATS[source.format]
    before = tuple(
        LogReset(begin, tuple(map(tuple, offsets)), tuple(topics), *server)
        for begin, offsets, topics, *server in declared
    )
    mine = binlog.where(of_table(source.database, source.table) & F.col("op").isin(*ROW_OPS))
    moved = mine.where(
        log_number(before, module, LIVE) != log_number(source.log_resets, module, LIVE)
    ).select(*COORDINATES, "binlog_file", "binlog_position", "event_time")
    held = known.where(F.col("reject_reason").isNull()).select(*COORDINATES)
    row = moved.join(held, COORDINATES, "left_semi").orderBy(*COORDINATES).first()
    if row is not None:
        raise ValueError(
            f"{source.database}.{source.table}: `log_resets` now gives another place to changes "
            f"that the table holds, the first of them at {row.binlog_file}:{row.binlog_position} "
            f"({row.event_time} UTC; {row.topic}, partition {row.partition_number}, offset "
            f"{row.message_offset}). Declare a later beginning, or run the model and those behind "
            "it with --full-refresh."
        )


def refused_before(known: DataFrame) -> DataFrame:
    """The rows of a typed model that were refused as changes of a log that nobody declared.

    Returns:
        COORDINATES, unique_key, binlog_file_number and binlog_position.
    """
    from pyspark.sql import functions as F

    return checkpointed(
        known.where(F.col("reject_reason").startswith(UNDECLARED)).select(
            *COORDINATES, "unique_key", "binlog_file_number", "binlog_position"
        )
    )


def without_refused(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Rows to merge, and a row without an op for each of the keys that none of them has."""
    from pyspark.sql import functions as F

    left = keys.select("unique_key").join(rows, "unique_key", "left_anti")
    return rows.unionByName(
        left.select(
            *[
                (
                    F.col(field.name)
                    if field.name == "unique_key"
                    else F.lit(None).cast(field.dataType)
                ).alias(field.name)
                for field in rows.schema
            ]
        )
    )
