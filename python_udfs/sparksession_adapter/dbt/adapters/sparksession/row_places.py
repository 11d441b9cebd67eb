"""Where the rows of a frame lie in the files of a table.

A worker of a Python model reads a file itself several times faster than Spark hands its rows over:
each value takes the way through a row of Java and a socket. What the rows are, Spark decides, with
all that its plan has: the snapshot that is read, conditions, deleted rows. It hands over where they
lie, and the worker takes them from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.worker_files import FILE
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Iceberg's columns: path or URI of a row's file, and the number of the row in it, from 0
PATH, NUMBER = "_file", "_pos"
# properties of a table by which its files are others, or elsewhere, than is expected here
OTHERWISE = ("write.data.path", "write.object-storage.enabled", "write.format.default")


class RowPlaces(NamedTuple):
    """Rows of a table that lie in Parquet files of this host, or of one that executors share.

    Attributes:
        frame: a row for each: PATH, NUMBER, and the columns asked for.
        schema: the table's columns, as JSON of Iceberg's table spec.
    """

    frame: DataFrame
    schema: str


def row_places(frame: DataFrame, columns: Sequence[str]) -> RowPlaces | None:
    """Where a frame's rows lie; None where they aren't, as they are, rows of one table's files.

    Args:
        frame: its columns may be chosen, its rows too; none is computed.
        columns: of the frame, to be handed over all the same.
    """
    if is_remote(frame.sparkSession):
        return None
    try:
        places = frame.select(F.col(PATH), F.col(NUMBER), *columns)
    except AnalysisException:  # rows of a join, a union or an aggregate lie nowhere
        return None
    table = _table_of(frame)
    if table is None or not table.location().startswith((FILE, "/")):
        return None
    if any(table.properties().get(name) for name in OTHERWISE):
        return None
    session: Foreign = frame.sparkSession
    schema = session._jvm.org.apache.iceberg.SchemaParser.toJson(table.schema())
    return RowPlaces(places, schema)


def _table_of(frame: DataFrame) -> Foreign:
    """Iceberg's table whose columns are those of a frame, each as it is; None without such."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    leaves = plan.collectLeaves()
    if leaves.size() != 1:
        return None
    relation = leaves.head()
    if relation.getClass().getSimpleName() == "DataSourceV2ScanRelation":
        relation = relation.relation()
    if relation.getClass().getSimpleName() != "DataSourceV2Relation":
        return None
    stored = {_identity(column): column.name() for column in _each(leaves.head().output())}
    given = [(column.name(), stored.get(_identity(column))) for column in _each(plan.output())]
    if any(name != of_table for name, of_table in given):
        return None
    return relation.table().table()


def _identity(column: Foreign) -> tuple[int, str]:
    number = column.exprId()
    return number.id(), str(number.jvmId())


def _each(items: Foreign) -> list[Foreign]:
    """What a sequence of Scala has."""
    return [items.apply(place) for place in range(items.size())]
