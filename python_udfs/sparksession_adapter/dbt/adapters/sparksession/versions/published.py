"""Versions: what a run that passed has published, in one commit for all tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC
from typing import Any

from dbt.adapters.sparksession.iceberg.history import pinned_reads
from dbt.adapters.sparksession.keyed.tables import (
    RUNS_SUFFIX,
    stored_table_of,
)
from dbt.adapters.sparksession.reading.microbatch import Microbatches
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.stop_signals import without_stop_signals
from dbt.adapters.sparksession.versions.comparison import Comparison
from dbt.adapters.sparksession.versions.data_tests import DataTests
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.lease import LeaseRefusedError, utc_now
from dbt.adapters.sparksession.versions.nodes import (
    PUBLISHED_KINDS,
    has_table,
    is_published,
)
from dbt.adapters.sparksession.versions.published_views import PublishedViews
from dbt.adapters.sparksession.versions.queries import VIEW, VersionQueries
from dbt.adapters.sparksession.versions.store import (
    CANDIDATE,
    COLUMNS,
    Version,
    VersionStore,
    differing_relations,
)
from dbt.adapters.sparksession.versions.version_inputs import VersionInputs
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import CompilationError
from dbt_common.invocation import get_invocation_id

THREADS = 4  # that ask at a run's end
ALL_VIEWS_EVERY = 20  # versions
FEW_METADATA_FILES = (
    "tblproperties ('write.metadata.delete-after-commit.enabled' = 'true', "
    "'write.metadata.previous-versions-max' = '20')"
)
FINE = ("success", "pass", "warn", "no-op")


class Versions:
    """Publishes what a run has built."""

    def __init__(
        self,
        warehouse: Warehouse,
        batches: Microbatches,
        store: VersionStore,
        lease: HeldLease,
        queries: VersionQueries,
        comparison: Comparison,
        *,
        tests: DataTests,
    ) -> None:
        self._warehouse = warehouse
        self._batches = batches
        self._store = store
        self._lease = lease
        self._queries = queries
        self._comparison = comparison
        self._inputs = VersionInputs(warehouse, queries)
        self.views = PublishedViews(warehouse, store, lease)
        self._tests = tests

    def publish(
        self,
        results: list[Any],
        context: dict[str, Any],
        hold_back: bool = False,
        allow_behind: bool = False,
    ) -> dict[str, Any]:
        """Publish what a run has built as the next version, where it may be.

        Args:
            results: dbt's results of the run's nodes.
            hold_back: keep it as the candidate instead, and compare it with the newest version.
            allow_behind: publish it though tables of it were made from older rows of others than
                it has.

        Returns:
            {"version": its number or None, "why": why there is none, "changed": relations that
            the version changes, "stale": those that the run left behind, "compared": lines that
            show where a candidate differs}. Without `why` nothing has changed: the newest
            version stands.
        """
        failed = [result.node.name for result in results if str(result.status) not in FINE]
        if failed:
            return self._unpublished(f"{', '.join(failed[:3])} failed or did not run")
        lacking = [result.node.name for result in results if self._batches.gaps_of(result.node)]
        if lacking:
            has = "has" if len(lacking) == 1 else "have"
            return self._unpublished(f"{', '.join(lacking[:3])} {has} gaps")
        schema = self._warehouse.credentials.published_schema
        if self._store.newest_version is None and self.views.views_of_others():
            return self._unpublished(
                f"the views in {schema} are of another schema's versions. Give this target a "
                f"published_schema of its own; or drop {schema}, if it is of nothing any more"
            )
        if hold_back and self._store.newest_version is None:
            return self._unpublished("there is no version yet that a candidate could differ from")
        nodes = context["graph"]["nodes"]
        built = [
            nodes[result.node.unique_id]
            for result in results
            if result.node.unique_id in nodes and is_published(nodes[result.node.unique_id])
        ]
        before = self._store.newest_version or Version(0, utc_now(), "", "", "")
        # what an earlier build has held back stays in the candidate
        base = (self._store.version(CANDIDATE) if hold_back else None) or before
        published = [node for node in nodes.values() if is_published(node)]
        known = {self._warehouse.relation_of_node(node).render() for node in published}
        queries = {name: text for name, text in base.queries.items() if name in known}
        snapshots, inputs = dict(base.snapshots), dict(base.inputs)
        tables = {stored_table_of(node) for node in built if has_table(node)}
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._warehouse.input_history, tables))
        for node in built:
            try:
                text = self._tests.text_now(node, context)
            except CompilationError as exc:  # a keyed table that it reads has to be built, too
                return self._unpublished(f"{node['name']} reads {exc.msg}".rstrip("."))
            if node["config"].get("materialized") != VIEW:
                queries[self._warehouse.relation_of_node(node).render()] = text
            table = stored_table_of(node)
            head = self._warehouse.inputs.pinned(table) if has_table(node) else None
            if head is not None:
                snapshots[table] = head
                read = self._warehouse.inputs.plan(node["unique_id"]).reads.values()
                inputs[table] = {table_read.table: table_read.pinned for table_read in read}
        problem = self._inputs.unpublished_input(built, snapshots, inputs, nodes)
        problem = problem or self._write_view_queries(
            queries, [node["unique_id"] for node in built], base, snapshots, context
        )
        problem = problem or self.views.name_problem(queries)
        if problem:
            return self._unpublished(problem)
        lost = base.snapshots.keys() - self._stored_tables(context)
        unnamed = base.queries.keys() - queries.keys()
        problem = self._inputs.problem_of_others(base, lost | unnamed, nodes)
        if problem:
            return self._unpublished(problem)
        for table in (*lost, *unnamed, *(name + RUNS_SUFFIX for name in unnamed)):
            snapshots.pop(table, None)
            inputs.pop(table, None)
        query_hashes = {name: mark_of(text) for name, text in queries.items()}
        changed = differing_relations(before.query_hashes, query_hashes)
        older = self._inputs.left_behind(snapshots, inputs, nodes, lost)
        late = sorted(older)
        if not changed and late == before.stale:
            if before.version:
                self.views.write_views(before, self.views.views_to_write(before))
            return self._outcome(stale=late)
        if late and not allow_behind:
            return self._unpublished(self._inputs.behind_problem(older, published, lost))
        ended = {
            result.node.unique_id: f" {result.failures}" if str(result.status) == "warn" else ""
            for result in results
            if str(result.status) in ("pass", "warn")
        }
        test_fingerprints = {
            unique_id: fingerprint + ended[unique_id]
            for unique_id, fingerprint in self._tests.fingerprints.items()
            if unique_id in ended
        }
        kept = {
            unique_id: fingerprint
            for unique_id, fingerprint in base.test_fingerprints.items()
            if unique_id in nodes
        }
        version = Version(
            before.version + 1,
            utc_now(),
            get_invocation_id(),
            self._code_version(nodes),
            "build",
            None,
            changed,
            late,
            snapshots,
            inputs,
            queries,
            query_hashes,
            kept | test_fingerprints,
        )
        if hold_back:
            self._append(version, self._store.candidate_table)
            compared = self._comparison.compare_candidate(before, version, context)
            return self._outcome(changed=changed, compared=compared)
        self.publish_version(version, before)
        return self._outcome(version.version, changed=changed, stale=late)

    def _stored_tables(self, context: Mapping[str, Any]) -> set[str]:
        """Tables that models, seeds and snapshots store their rows in, published or not, and those
        that are declared as sources."""
        nodes, sources = (context["graph"][kind].values() for kind in ("nodes", "sources"))
        stored = {
            stored_table_of(node)
            for node in nodes
            if node["resource_type"] in PUBLISHED_KINDS
            and node["config"].get("materialized") not in (VIEW, "ephemeral")
        }
        return stored | {self._warehouse.relation_of_node(source).render() for source in sources}

    def _write_view_queries(
        self,
        queries: dict[str, str],
        built: Sequence[str],
        before: Version,
        snapshots: Mapping[str, int],
        context: dict[str, Any],
    ) -> str | None:
        """Write the queries of the views over a version's snapshots into `queries`: of those that
        the run built, and of those that read what it built. What keeps one from it, if anything.

        Args:
            queries: relation -> query, of the version before; those of tables are the new queries.
            built: ids of the nodes that the run built.
        """
        nodes = context["graph"]["nodes"]
        for node in nodes.values():
            name = self._warehouse.relation_of_node(node).render() if is_published(node) else None
            is_built = node["unique_id"] in built
            if name is None or node["config"].get("materialized") != VIEW:
                continue
            if not is_built and name not in before.queries:
                continue
            below = self._queries.tables_below(node, nodes)
            moved = {
                table for table in below if snapshots.get(table) != before.snapshots.get(table)
            }
            if not is_built and not moved:
                continue
            over = None if is_built else before.snapshots
            text = self._queries.views_text(
                node, context, snapshots, over, before.queries.get(name)
            )
            if text is None:
                return (
                    f"{node['name']} isn't written any more as in version {before.version}, and "
                    f"reads what this run built. Build that too: dbt build -s {node['name']}"
                )
            problem = self._inputs.not_held(node, pinned_reads(text), snapshots, nodes)
            if problem and not is_built:
                return problem
            queries[name] = text
        return None

    @staticmethod
    def _outcome(version: int | None = None, **values: Any) -> dict[str, Any]:
        return {
            "version": version,
            "why": None,
            "changed": [],
            "stale": [],
            "compared": [],
        } | values

    def publish_version(self, version: Version, before: Version) -> None:
        """Make a version the newest one, in one commit; then let its views know it alone.

        Ctrl-C waits for the end of it: readers see the version, and their views are its own.
        """
        with without_stop_signals():
            self._publish_version(version, before)

    def _publish_version(self, version: Version, before: Version) -> None:
        self._lease.confirm()
        changed = [name for name in version.changed if name in version.queries]
        self.views.write_views(version, changed, before)
        self._lease.confirm()  # views take a while, in which this run may have slept
        self._append(version, self._store.version_table)
        self._store.set_newest(version)
        self._lease.has_views_to_write = True
        missing = self.views.views_to_write(version)
        # a view that never changes would look at ever more versions
        if version.version % ALL_VIEWS_EVERY == 0:
            self.views.write_views(version, version.queries)
        else:
            self.views.write_views(version, sorted({*changed, *missing}))
        self._lease.has_views_to_write = False

    def _append(self, version: Version, table: str) -> None:
        """Write a version's row; of the candidates one is held.

        Iceberg refuses the row where another row of its number has come: a run that was presumed
        dead, and only slept, publishes nothing beside the run that took its lease over.

        Raises:
            LeaseRefusedError: another run has published this version.
        """
        from pyspark.sql import functions as F

        session = self._warehouse.session()
        schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        session.sql(
            f"create table if not exists {table} ({schema}) using iceberg {FEW_METADATA_FILES}"
        )
        # a time without zone would be taken as this process's
        row = replace(version, published_at=version.published_at.replace(tzinfo=UTC))
        values = tuple(getattr(row, name) for name in COLUMNS)
        writer = session.createDataFrame([values], schema).coalesce(1).writeTo(table)
        if table == self._store.candidate_table:
            writer.overwrite(F.lit(True))
            return
        head = self._warehouse.history(table).head
        if head is None:
            writer.append()
            return
        known = f"select max(version) as newest from {table} version as of {head}"
        newest = session.sql(known).collect()[0].newest
        if newest is not None and newest >= version.version:
            raise self._already_published(version)
        writer = writer.option("isolation-level", "serializable")
        writer = writer.option("validate-from-snapshot-id", str(head))
        try:
            writer.overwrite(F.col("version") == version.version)
        except Exception as exc:
            if "conflicting files" not in str(exc):
                raise
            raise self._already_published(version) from exc

    @staticmethod
    def _already_published(version: Version) -> LeaseRefusedError:
        return LeaseRefusedError(
            f"Another run has published version {version.version} while this run worked on it. "
            "Nothing was published; run again."
        )

    @staticmethod
    def _unpublished(why: str) -> dict[str, Any]:
        return Versions._outcome(why=why)

    def _code_version(self, nodes: Mapping[str, Mapping[str, Any]]) -> str:
        """The project's version and a hash of its nodes and macros."""
        known = hashlib.sha256()
        for unique_id in sorted(nodes):
            known.update(f"{unique_id}={nodes[unique_id]['checksum']['checksum']}\n".encode())
        manifest: Any = self._warehouse.manifest()
        for unique_id in sorted(manifest.macros):
            known.update(f"{unique_id}={manifest.macros[unique_id].macro_sql}\n".encode())
        return f"{getattr(self._warehouse.config, 'version', None) or '0'}+{known.hexdigest()[:12]}"
