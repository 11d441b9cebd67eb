"""Views as Iceberg keeps them, and the columns of what views read."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.iceberg.metadata import active, java_namespace
from dbt.adapters.sparksession.session import is_remote
from py4j.protocol import Py4JError


@dataclass(frozen=True)
class StoredView:
    """A view that is there.

    Attributes:
        sql: its query, as Spark was given it.
        properties: its own, the comment among them.
        columns: its columns with types and comments, in Iceberg's JSON.
    """

    sql: str
    properties: dict[str, str]
    columns: str


def stored_view(session: Foreign, catalog: str, schema: str, name: str) -> StoredView | None:
    """A view of a catalog; None where there is none, the catalog keeps none, or Spark is remote and
    has no Java process here."""
    if is_remote(session):
        return None
    java = session._jvm.org.apache.iceberg
    with active(session):
        try:
            opened = java.spark.Spark3Util.loadIcebergCatalog(session._jsparkSession, catalog)
            place = java.catalog.TableIdentifier.of(java_namespace(session, schema), name)
            found = opened.loadView(place)
            query = found.sqlFor("spark")
            return StoredView(
                sql=str(query.sql()) if query is not None else "",
                properties=dict(found.properties()),
                columns=str(java.SchemaParser.toJson(found.schema())),
            )
        except Py4JError:  # Spark's own statement gives the reason
            return None


def columns_of_table(session: Foreign, table: Foreign, with_layout: bool) -> str:
    """The columns of a table object with types and comments, in Iceberg's JSON.

    Args:
        with_layout: its partitions as well, by which the columns of its metadata tables go.
    """
    java = session._jvm.org.apache.iceberg
    found = str(java.SchemaParser.toJson(table.schema()))
    return found + str(java.PartitionSpecParser.toJson(table.spec())) if with_layout else found
