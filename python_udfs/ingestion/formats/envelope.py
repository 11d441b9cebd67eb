"""The envelope: what every format has for a message, in the same columns.

And conditions on such messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# the envelope's columns: name -> Spark type
ENVELOPE = {
    "database_name": "string",
    "table_name": "string",
    # insert, update, delete change a row; snapshot is a row of a full load; truncate, drop and
    # rename change which rows a table has; ddl is any other; control is the producer's own
    "op": "string",
    "event_time": "timestamp",
    "binlog_file": "string",
    "binlog_file_number": "bigint",
    "binlog_position": "bigint",
    "row_number": "bigint",
    "xid": "bigint",
    "envelope_reason": "string",
}
READ_COLUMNS = [name for name in ENVELOPE if name != "envelope_reason"]  # of ods_binlog
ROW_OPS = ("insert", "update", "delete")
TABLE_OPS = ("truncate", "drop", "rename")
COORDINATES = ["batch_id", "topic", "partition_number", "message_offset"]
IDENTITY = ["binlog_file", "binlog_file_number", "binlog_position", "row_number"]


def of_table(database: str, table: str) -> Column:
    """Condition on the messages of one table."""
    from pyspark.sql import functions as F

    return (F.col("database_name") == database) & (F.col("table_name") == table)


def row_changes(messages: DataFrame) -> DataFrame:
    """The messages of a single row's change."""
    from pyspark.sql import functions as F

    return messages.where(F.col("op").isin(*ROW_OPS))
