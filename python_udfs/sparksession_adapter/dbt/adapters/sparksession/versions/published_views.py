"""Views of the newest version: a view for each relation, and no view mixes two versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbt.adapters.sparksession.iceberg.metadata import requeried
from dbt.adapters.sparksession.sql import is_absent, literal, quoted
from dbt.adapters.sparksession.versions.store import Version, VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse

THREADS = 4  # that write views at a run's end
NO_SNAPSHOT = "Cannot find snapshot"  # Iceberg, of one that has expired or was of a table before


def guarded(name: str, table: str, queries: Mapping[str, str], since: int) -> str:
    """Query of a relation's rows in the newest version, for a view.

    Within a query Spark reads `table`, the versions, once: all such views in it agree on which
    version is the newest. A view that doesn't know that version fails, it never mixes two.

    Args:
        name: the relation.
        table: schema.name of meta_version.
        queries: mark -> query, of the versions that the view knows.
        since: a version that is no newer than the newest one: older rows needn't be looked at.
    """
    newest = f"max_by(query_hashes[{literal(name)}], version)"
    stale = (
        f"raise_error('A version of {name.replace(chr(39), '')} was published in this moment. "
        "Read again.')"
    )
    parts = []
    for mark, text in queries.items():
        cases = "".join(
            f" when {literal(text)} then {str(text == mark).lower()}" for text in queries
        )
        parts.append(
            f"select * from (\n{text}\n) where "
            f"(select case {newest}{cases} else {stale} end from {table} "
            f"where version >= {since})"
        )
    return "\nunion all\n".join(parts)


class PublishedViews:
    """Writes the views of versions."""

    def __init__(self, warehouse: Warehouse, store: VersionStore) -> None:
        self._warehouse = warehouse
        self._store = store
        # relations whose view knows two versions for now, of the same columns
        self._both_known: set[str] = set()

    def _published(self, name: str, plain: bool = False) -> str:
        """The view of a relation in the newest version, as SQL or as a plain name."""
        identifier = name.rpartition(".")[2].strip("`")
        schema = self._warehouse.credentials.published_schema
        return f"{schema}.{identifier if plain else quoted(identifier)}"

    def write_views(
        self, version: Version, names: Iterable[str], before: Version | None = None
    ) -> None:
        """Write the views of relations; with `before` they know that version as well.

        Where the versions differ in their columns, or the rows of `before` are gone, as after a
        table was dropped by hand, the view stays as it is until `version` is published, and
        fails in between.
        """
        session, names = self._warehouse.session(), list(names)
        if not names:
            return
        schema = self._warehouse.credentials.published_schema
        session.sql(f"create namespace if not exists {schema}")

        def write(name: str) -> None:
            queries, rows = {version.query_hashes[name]: version.queries[name]}, None
            if before is not None:
                old = before.queries.get(name)
                if old is None:
                    return
                rows = session.sql(version.queries[name])
                queries = {before.query_hashes[name]: old} | queries
            sql = guarded(name, self._store.version_table, queries, since)
            plain = self._published(name, plain=True)
            is_same = rows is not None or name in both_known
            if is_same and requeried(session, catalog, plain, sql, rows):
                if rows is not None:
                    self._both_known.add(name)
                return
            if before is not None and rows is not None:
                schema_then = self._schema_of(before.queries[name])
                if schema_then is None or schema_then != rows.schema:
                    return
            session.sql(f"create or replace view {self._published(name)} as {sql}")

        catalog = self._warehouse.credentials.catalog
        both_known, self._both_known = self._both_known, set()
        since = (before or version).version
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(write, names))

    def _schema_of(self, text: str) -> Any:
        """The schema of a version's query; None where what it reads is gone."""
        try:
            return self._warehouse.session().sql(text).schema
        except Exception as exc:
            if is_absent(exc) or NO_SNAPSHOT in str(exc):
                return None
            raise

    def drop_view(self, name: str) -> None:
        """Drop the view of a relation."""
        self._warehouse.session().sql(f"drop view if exists {self._published(name)}")
