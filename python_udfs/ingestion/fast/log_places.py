"""How the messages of the kept log come to the workers that decode them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from dbt.adapters.sparksession.row_places import row_places
from pyspark.sql import functions as F

from python_udfs.ingestion.fast.file_schema import arrow_schema
from python_udfs.ingestion.fast.kept_log import CHECKED, NEWLINE, messages_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Batches = Iterable[pa.RecordBatch]


class LineMessages(NamedTuple):
    """Messages as workers are given them.

    Attributes:
        schema: of the messages.
        frame: what Spark hands over.
        read: makes of a task's batches of it batches of the messages, with NEWLINE behind each
            payload.
    """

    schema: StructType
    frame: DataFrame
    read: Callable[[Batches], Batches]


def with_lines(messages: DataFrame) -> LineMessages:
    """Messages of the kept log for workers, that read them from its files where they can."""
    places = row_places(messages, [CHECKED])
    if places is None:
        line = F.concat("payload", F.lit(NEWLINE))
        return LineMessages(messages.schema, messages.withColumn("payload", line), iter)
    table = arrow_schema(places.schema)
    schema = pa.schema([table.field(name) for name in messages.columns])
    return LineMessages(messages.schema, places.frame, partial(messages_at, schema))
