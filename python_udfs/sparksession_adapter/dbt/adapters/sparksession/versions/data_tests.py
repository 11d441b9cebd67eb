"""Data tests: what the newest version proves of them, and where new failures can be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from dbt.adapters.sparksession.clock import goes_by_clock
from dbt.adapters.sparksession.edges import Context, Foreign, Node
from dbt.adapters.sparksession.iceberg.history import pinned_at, pinned_reads
from dbt.adapters.sparksession.keyed.tables import FOLDED
from dbt.adapters.sparksession.reading.file_metrics import passes_on_none_alone, result_of_test
from dbt.adapters.sparksession.reading.relations_named import moving_reads, relations_named
from dbt.adapters.sparksession.reading.touched_rows import TouchedRows, compared_sums, in_place_of
from dbt.adapters.sparksession.reading.view_marks import statement_of
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.versions.combined_tests import CombinedTests
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.nodes import has_table, is_relation
from dbt.adapters.sparksession.versions.queries import VersionQueries, thread_reader
from dbt.adapters.sparksession.versions.shared_rows import SharedRows
from dbt.adapters.sparksession.versions.store import Version, VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse

TRIED = 50  # snapshots of a table that is in no version
# schema and name of what a query reads
READ = re.compile(
    r"(?i)\b(?:from|join|,)\s*+(?:`?\w+`?\.)?`?(\w+)`?\.`?(\w++)`?+(?! version as of)"
)


def _views_below(parents: Iterable[Node], nodes: Mapping[str, Node]) -> list[Node]:
    """Views and folded models among some nodes, and those that they are made of."""
    found, left = {}, list(parents)
    while left:
        node = left.pop()
        if node["config"].get("materialized") in ("view", FOLDED):
            found[node["unique_id"]] = node
        if not has_table(node):
            below = node["depends_on"]["nodes"]
            left += [
                nodes[unique_id]
                for unique_id in below
                if unique_id in nodes and unique_id not in found
            ]
    return list(found.values())


class DataTests:
    """Proves data tests that need no query over all rows.

    A version holds a hash of all that a test looked at when it passed: its query, its config and
    the pinned queries of the relations that it tests.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        store: VersionStore,
        lease: HeldLease,
        queries: VersionQueries,
        touched: TouchedRows,
    ) -> None:
        self._warehouse = warehouse
        self._store = store
        self._lease = lease
        self._queries = queries
        self._touched = touched
        self._shared = SharedRows(warehouse)
        self._combined = CombinedTests(warehouse)
        self.fingerprints: dict[str, str] = {}  # of this run's data tests
        self._proved: set[str] = set()
        self._narrowed: set[str] = set()
        self._queries_now: dict[str, tuple[str, dict[str, int]]] = {}
        self._unpinned: set[str] = set()  # nodes whose text reads something without a pin

    def proof(self, model: Node, sql: str, context: Context) -> str | None:
        """A hash of all that a data test looks at; None where that is unknown.

        Args:
            sql: the test's own query.
        """
        if self._lease.lease is None:
            return None
        nodes = context["graph"]["nodes"]
        parents = [nodes.get(node) for node in model["depends_on"]["nodes"]]
        if not parents or any(parent is None or not is_relation(parent) for parent in parents):
            return None
        # a view that the run doesn't write may stand there with other SQL than it has by now
        selected = set(context.get("selected_resources") or ())
        if not {node["unique_id"] for node in _views_below(parents, nodes)} <= selected:
            return None
        texts = [self.text_now(parent, context) for parent in parents]
        seen = self._looked_at(model, sql, texts)
        if any(map(goes_by_clock, seen)):
            return None
        if any(parent["unique_id"] in self._unpinned for parent in parents):
            return None
        if self._names_others(sql, parents):
            return None
        fingerprint = mark_of("\0".join(seen))
        self.fingerprints[model["unique_id"]] = fingerprint
        return fingerprint

    @staticmethod
    def _looked_at(model: Node, sql: str, texts: Iterable[str]) -> list[str]:
        return [sql, json.dumps(model["config"], sort_keys=True, default=str), *texts]

    def _names_others(self, sql: str, parents: Iterable[Node]) -> bool:
        """Whether a query reads tables or views as they are now that aren't among some nodes'."""
        relations = [self._warehouse.relation_of_node(parent) for parent in parents]
        known = {f"{relation.schema}.{relation.identifier}".lower() for relation in relations}
        session, text = self._warehouse.session(), statement_of(sql)
        # a remote session has no parser here
        named = set(READ.findall(text)) if is_remote(session) else relations_named(session, text)
        if moving_reads(session, text):
            return True
        # a name of one part is that of a CTE
        return not {".".join(parts[-2:]).lower() for parts in named if len(parts) > 1} <= known

    def text_now(self, node: Node, context: Context) -> str:
        """The same as text_of, found once as long as the run doesn't write what it reads."""
        before = self._queries_now.get(node["unique_id"])
        if before is not None:
            text, pins = before
            if all(self._warehouse.inputs.pinned(table) == pin for table, pin in pins.items()):
                return text
        reader = thread_reader()
        self._warehouse.inputs.forget(reader)
        text = self._queries.text_of(node, reader, context)
        reads = self._warehouse.inputs.plan(reader).reads.values()
        known = {read.table for read in reads}
        for known_node in context["graph"]["nodes"].values():
            if known_node["config"].get("materialized") in ("view", FOLDED):
                known.add(f"{known_node['schema']}.{known_node['alias']}")
        asked = self._warehouse.inputs.plan(reader).relations
        if not asked <= known or self._names_others(text, []):
            self._unpinned.add(node["unique_id"])
        self._queries_now[node["unique_id"]] = text, {read.table: read.pinned for read in reads}
        return text

    def known_result(self, model: Node, fingerprint: str | None) -> Foreign:
        """What the test found on exactly this by the newest version, as dbt takes it; None where
        that version doesn't know it. It knows tests that passed or warned."""
        newest = self._store.newest_version if fingerprint else None
        if newest is None:
            return None
        known, _, failures = newest.test_fingerprints.get(model["unique_id"], "").partition(" ")
        if known != fingerprint:
            return None
        self._proved.add(model["unique_id"])
        return result_of_test(int(failures or 0))

    def proved_tests(self) -> int:
        """How many data tests of this run the newest version had proved."""
        return len(self._proved)

    def narrowed(self, model: Node, sql: str, proof: str | None, context: Context) -> str:
        """A data test's query over the rows alone that were touched since it passed; as it is where
        the newest version doesn't prove that it passed on the rows of then.

        Args:
            proof: what `proof` gave.
        """
        newest = self._store.newest_version if proof else None
        known = newest.test_fingerprints.get(model["unique_id"]) if newest is not None else None
        if newest is None or known is None or not passes_on_none_alone(model["config"]):
            return sql
        texts = self._tested(model, context)
        if not self._touched.is_any_large(text for _, text in texts):
            return sql
        then = self._when_it_passed(model, sql, texts, newest, context)
        if then is None:
            return sql
        found = self._of_touched_rows(model, sql, texts, then)
        if found is None:
            return sql
        self._narrowed.add(model["unique_id"])
        return found

    def combined_result(
        self, model: Node, sql: str, proof: str | None, context: Context
    ) -> Foreign:
        """What a data test found, as dbt takes it, where a query that answers several tests of a
        relation proves that it passes; None elsewhere, and of large tables, of which a test reads
        no more than it has to.

        Args:
            proof: what `proof` gave.
        """
        texts = self._tested(model, context) if proof else []
        if len(texts) != 1 or self._touched.is_any_large(text for _, text in texts):
            return None
        ((parent, text),) = texts

        def over(query: str) -> str:
            return self._shared.query_over(query, texts, context)

        passes = self._combined.passes(model, sql, parent, text, context, over)
        return result_of_test(0) if passes else None

    def over_kept_rows(self, model: Node, sql: str, proof: str | None, context: Context) -> str:
        """A data test's query over rows that are kept for all tests of a small view or keyed table;
        as it is where it tests no such.

        Args:
            proof: what `proof` gave.
        """
        if proof is None:
            return sql
        return self._shared.query_over(sql, self._tested(model, context), context)

    def _tested(self, model: Node, context: Context) -> list[tuple[Node, str]]:
        """Nodes that a data test reads, each with the pinned query of its rows."""
        nodes = context["graph"]["nodes"]
        parents = [nodes[unique_id] for unique_id in model["depends_on"]["nodes"]]
        return [(parent, self.text_now(parent, context)) for parent in parents]

    def end_test(self, model: Node) -> None:
        """Free the rows that were kept for a data test, unless others wait for them."""
        self._shared.end_test(model["unique_id"])

    def end(self) -> None:
        """Free all rows that were kept: the run is over."""
        self._shared.end()

    def _of_touched_rows(
        self,
        model: Node,
        sql: str,
        texts: list[tuple[Node, str]],
        then: Mapping[str, int],
    ) -> str | None:
        """The query over touched rows alone; None where it has to read all.

        Args:
            texts: what it tests: nodes, and the pinned queries of their rows.
        """
        sums = compared_sums(model)
        if sums is not None and len(sums) == len(texts) == 2:
            # the model that is tested comes first
            first = model.get("attached_node")
            pairs = sorted(texts, key=lambda pair: pair[0]["unique_id"] != first)
            return self._touched.changed_sums(sums, pairs, then)
        if len(texts) != 1:
            return None
        ((parent, text),) = texts
        rows = self._touched.since(model, parent, text, then)
        if rows is None:
            return None
        return in_place_of(sql, self._warehouse.relation_of_node(parent).render(), rows)

    def _when_it_passed(
        self,
        model: Node,
        sql: str,
        texts: list[tuple[Node, str]],
        newest: Version,
        context: Context,
    ) -> Mapping[str, int] | None:
        """Stored table -> the snapshot at which the newest version proves that a data test passed;
        None where it proves none."""
        known = newest.test_fingerprints[model["unique_id"]]

        def is_proved(queries: list[str]) -> bool:
            return known == mark_of("\0".join(self._looked_at(model, sql, queries)))

        tables = {table: head for _, text in texts for table, head in pinned_reads(text)}
        unpublished = tables.keys() - newest.snapshots.keys()
        if not unpublished:
            at = newest.snapshots
            then = [self._queries.text_at(parent, context, at.get) for parent, _ in texts]
            return at if is_proved(then) else None
        if len(unpublished) > 1:
            return None
        # a version names no snapshot of it, so each of its newest is tried
        (table,) = unpublished
        for commit in self._warehouse.input_history(table).ancestry(tables[table])[1:TRIED]:
            at = {**newest.snapshots, table: commit.id}
            if is_proved([pinned_at(text, at) for _, text in texts]):
                return at
        return None

    def narrowed_tests(self) -> int:
        """How many data tests of this run looked at touched rows alone."""
        return len(self._narrowed)
