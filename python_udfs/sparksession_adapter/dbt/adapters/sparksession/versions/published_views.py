"""Views of the newest version: a view for each relation, and no view mixes two versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.iceberg.views import requeried
from dbt.adapters.sparksession.sql import is_absent, literal, quoted
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.store import Version, VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse

THREADS = 4  # that write views at a run's end
logger = AdapterLogger("Spark")
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


def reads_versions(text: str, table: str) -> bool:
    """Whether the text of a view is `guarded`'s, of the versions in `table`.

    >>> reads_versions(guarded("dw.a", "dw.meta_version", {"1": "select 1"}, 1), "dw.meta_version")
    True
    >>> reads_versions("select version from dw.meta_version", "other.meta_version")
    False
    """
    return re.search(rf"\bfrom {re.escape(table)} where version >= ", text) is not None


class PublishedViews:
    """Writes the views of versions."""

    def __init__(self, warehouse: Warehouse, store: VersionStore, lease: HeldLease) -> None:
        self._warehouse = warehouse
        self._store = store
        self._lease = lease
        # relations whose view knows two versions for now, of the same columns
        self._both_known: set[str] = set()

    def _published(self, name: str, plain: bool = False) -> str:
        """The view of a relation in the newest version, as SQL or as a plain name."""
        identifier = name.rpartition(".")[2].strip("`")
        schema = self._warehouse.credentials.published_schema
        return f"{schema}.{identifier if plain else quoted(identifier)}"

    def name_problem(self, names: Iterable[str]) -> str | None:
        """Relations of several schemas that readers would have under the same name, as a sentence
        without its point; None where there are none."""
        by_view: dict[str, list[str]] = {}
        for name in sorted(names):
            by_view.setdefault(self._published(name, plain=True).lower(), []).append(name)
        for view, same in by_view.items():
            if len(same) > 1:
                return (
                    f"{' and '.join(same)} would both be {view}, which has the rows of a single "
                    "table; give either another alias, or meta: {published: false}"
                )
        return None

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
            self._lease.check_statement()
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

    def views_to_write(self, version: Version) -> list[str]:
        """Relations of a version whose views aren't there, as after they were dropped by hand.

        Views of relations that the version hasn't are dropped: of models that are gone, also where
        a run was killed before it came to that.
        """
        there = {view.lower(): view for view in self._listed()}
        wanted = {name.rpartition(".")[2].strip("`").lower(): name for name in version.queries}
        own, _ = self._own_and_others(there[view] for view in there.keys() - wanted.keys())
        self._drop(own)
        return [wanted[view] for view in sorted(wanted.keys() - there.keys())]

    def write_all(self) -> None:
        """Write the views of the newest version, of which a run that stopped behind its publication
        has written some: the others may fail for every reader."""
        newest = self._store.version()
        if newest is not None:
            self.write_views(newest, newest.queries)

    def views_of_others(self) -> list[str]:
        """Published views that don't read this schema's versions, where there is no version.

        Those that read them are left of versions that were dropped with their files: they fail for
        every reader, and are dropped here.
        """
        schema = self._warehouse.credentials.published_schema
        own, others = self._own_and_others(self._listed())
        if own and not others:
            logger.warning(
                f"Table {self._store.version_table}, which holds the versions, is gone with its "
                f"files, so they begin with version 1; the {len(own)} views in {schema} that "
                "read it are dropped and written again."
            )
            self._drop(own)
        return others

    def _listed(self) -> list[str]:
        """Names of the views that readers have; [] where there is no schema of them."""
        schema = self._warehouse.credentials.published_schema
        try:
            rows = self._warehouse.session().sql(f"show views in {schema}").collect()
        except Exception as exc:
            if not is_absent(exc):
                raise
            return []
        return [row.viewName for row in rows if not row.isTemporary]

    def _own_and_others(self, views: Iterable[str]) -> tuple[list[str], list[str]]:
        """Published views that read this schema's versions, and those that don't; full names."""
        session, schema = self._warehouse.session(), self._warehouse.credentials.published_schema
        own: list[str] = []
        others: list[str] = []
        for view in sorted(views):
            name = f"{schema}.{quoted(view)}"
            (text,) = session.sql(f"show create table {name}").first()
            (own if reads_versions(text, self._store.version_table) else others).append(name)
        return own, others

    def _drop(self, views: Iterable[str]) -> None:
        for view in views:
            self._lease.confirm()
            self._warehouse.session().sql(f"drop view if exists {view}")
