"""The envelope: what every format has for a message, in the same columns.

And conditions on such messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import translate
from functools import reduce
from operator import or_
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
_SIGNS = frozenset("*?[")  # of a shell pattern
COORDINATES = ["batch_id", "topic", "partition_number", "message_offset"]
IDENTITY = ["binlog_file", "binlog_file_number", "binlog_position", "row_number"]


def of_table(database: str, table: str) -> Column:
    """Condition on the messages of one table."""
    from pyspark.sql import functions as F

    return (F.col("database_name") == database) & (F.col("table_name") == table)


def of_topics(patterns: Iterable[str]) -> Column:
    """Condition on `topic`: it fits one of the shell patterns; true where there are none."""
    from pyspark.sql import functions as F

    topic, conditions, others = F.col("topic"), [], []
    for pattern in dict.fromkeys(patterns):
        # a comparison of texts costs a tenth of a regular expression
        begin = pattern.removesuffix("*")
        if _SIGNS.intersection(begin):
            # to Java \Z is before a last newline, too
            others.append(translate(pattern).removesuffix(r"\Z") + r"\z")
        else:
            conditions.append(topic.startswith(begin) if begin != pattern else topic == begin)
    if others:
        regex = "|".join(others)
        conditions.append(topic.rlike(f"^(?:{regex})"))
    return reduce(or_, conditions) if conditions else F.lit(True)


def row_changes(messages: DataFrame) -> DataFrame:
    """The messages of a single row's change."""
    from pyspark.sql import functions as F

    return messages.where(F.col("op").isin(*ROW_OPS))
