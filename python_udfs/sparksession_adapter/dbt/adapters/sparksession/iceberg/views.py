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


def _loaded(session: Foreign, catalog: str, place: Foreign) -> Foreign:
    """Iceberg's own object of a view.

    Args:
        place: its TableIdentifier.

    Raises:
        Py4JError: there is none, or the catalog keeps none.
    """
    util = session._jvm.org.apache.iceberg.spark.Spark3Util
    return util.loadIcebergCatalog(session._jsparkSession, catalog).loadView(place)


def stored_view(session: Foreign, catalog: str, schema: str, name: str) -> StoredView | None:
    """A view of a catalog; None where there is none, the catalog keeps none, or Spark is remote and
    has no Java process here."""
    if is_remote(session):
        return None
    java = session._jvm.org.apache.iceberg
    with active(session):
        try:
            place = java.catalog.TableIdentifier.of(java_namespace(session, schema), name)
            found = _loaded(session, catalog, place)
            query = found.sqlFor("spark")
            return StoredView(
                sql=str(query.sql()) if query is not None else "",
                properties=dict(found.properties()),
                columns=str(java.SchemaParser.toJson(found.schema())),
            )
        except Py4JError:  # Spark's own statement gives the reason
            return None


def requeried(session: Foreign, catalog: str, view: str, sql: str, rows: Foreign = None) -> bool:
    """Let a view that is there have another query of the same columns, which Spark needn't look
    at for that; whether it was done. Not where Iceberg keeps no views, or has no such view.

    Args:
        view: schema.name.
        rows: DataFrame with the columns of the new query, which must be the view's; None where
            they are known to be.
    """
    if is_remote(session):
        return False
    java = session._jvm.org.apache.iceberg
    with active(session):
        try:
            found = _loaded(session, catalog, java.catalog.TableIdentifier.parse(view))
            if rows is not None:
                columns = java.spark.SparkSchemaUtil.convert(rows._jdf.schema())
                if not columns.asStruct().equals(found.schema().asStruct()):
                    return False
            change = found.replaceVersion().withQuery("spark", sql).withSchema(found.schema())
            namespace = found.currentVersion().defaultNamespace()
            change.withDefaultNamespace(namespace).commit()
        except Py4JError:  # Spark's own statement gives the reason
            return False
    return True


def columns_of_table(session: Foreign, table: Foreign, with_layout: bool) -> str:
    """The columns of a table object with types and comments, in Iceberg's JSON.

    Args:
        with_layout: its partitions as well, by which the columns of its metadata tables go.
    """
    java = session._jvm.org.apache.iceberg
    found = str(java.SchemaParser.toJson(table.schema()))
    return found + str(java.PartitionSpecParser.toJson(table.spec())) if with_layout else found
