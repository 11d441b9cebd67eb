"""Rows of views that several data tests read: they are computed once for all of these tests."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dbt.adapters.sparksession.edges import Context, Foreign, Node
from dbt.adapters.sparksession.evaluation import are_few
from dbt.adapters.sparksession.iceberg.history import pinned_reads
from dbt.adapters.sparksession.keyed.tables import FOLDED
from dbt.adapters.sparksession.local_rows import as_local
from dbt.adapters.sparksession.reading.touched_rows import reading_instead
from dbt.adapters.sparksession.session import checkpointed, is_remote, unpersist
from dbt.adapters.sparksession.versions.nodes import tests_of_run
from dbt.adapters.sparksession.warehouse import Warehouse

LEAST_TESTS = 2  # of one view


@dataclass
class KeptRows:
    """The rows of one view.

    Attributes:
        name: of a temporary view of the rows, which all threads see.
        waiting: data tests of the view that haven't run.
        text: pinned query that the rows are the answer of; None where none are kept.
        rows: the frame to free.
    """

    name: str
    waiting: set[str]
    lock: threading.Lock = field(default_factory=threading.Lock)
    text: str | None = None
    rows: Foreign = None


class SharedRows:
    """Keeps the rows of small views and keyed tables while data tests of them run.

    Each query over such a view plans and computes it again, which takes much longer than the test
    of its rows.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._kept: dict[str, KeptRows] | None = None

    def query_over(self, sql: str, texts: Iterable[tuple[Node, str]], context: Context) -> str:
        """A data test's query over kept rows; as it is where none are kept for it.

        Args:
            sql: the test's own query.
            texts: nodes that it tests, each with the pinned query of its rows.
        """
        if is_remote(self._warehouse.session()):
            return sql
        for parent, text in texts:
            kept = self._of_tests(context).get(parent["unique_id"])
            if kept is None or not self._is_small(text):
                continue
            relation = self._warehouse.relation_of_node(parent).render()
            with kept.lock:
                replaced = reading_instead(sql, relation, f"global_temp.`{kept.name}`")
                if replaced is None or not self._keep(kept, text):
                    continue
            sql = replaced
        return sql

    def end_test(self, test_id: str) -> None:
        """Free what no other test waits for."""
        for kept in list((self._kept or {}).values()):
            with kept.lock:
                kept.waiting.discard(test_id)
                if not kept.waiting:
                    self._free(kept)

    def end(self) -> None:
        """Free all rows: the run is over."""
        for kept in (self._kept or {}).values():
            with kept.lock:
                self._free(kept)

    def _of_tests(self, context: Context) -> Mapping[str, KeptRows]:
        """Views that several of the run's data tests read, each by its id."""
        with self._lock:
            if self._kept is None:
                self._kept = _tested_views(context)
            return self._kept

    def _is_small(self, text: str) -> bool:
        rows = 0
        for table, head in pinned_reads(text):
            count = self._warehouse.input_history(table).at(head).rows
            if count is None:
                return False
            rows += count
        return are_few(rows)

    def _keep(self, kept: KeptRows, text: str) -> bool:
        """Compute the rows, unless some are there; whether they are those of the query."""
        if kept.text is None:
            rows = checkpointed(self._warehouse.session().sql(text))
            local = as_local(rows)
            frame = rows if local is None else local[0]
            frame.createOrReplaceGlobalTempView(kept.name)
            kept.rows, kept.text = rows, text
        return kept.text == text

    def _free(self, kept: KeptRows) -> None:
        if kept.text is not None:
            self._warehouse.session().catalog.dropGlobalTempView(kept.name)
            unpersist(kept.rows)
            kept.text = kept.rows = None


def _tested_views(context: Context) -> dict[str, KeptRows]:
    """Views and keyed tables that several of the run's data tests read, each by its id."""
    nodes = context["graph"]["nodes"]
    found: dict[str, set[str]] = {}
    for test in tests_of_run(context):
        for parent_id in test["depends_on"]["nodes"]:
            parent = nodes.get(parent_id)
            if parent and parent["config"].get("materialized") in ("view", FOLDED):
                found.setdefault(parent_id, set()).add(test["unique_id"])
    return {
        view: KeptRows(f"{nodes[view]['schema']}__{nodes[view]['alias']}__tested".lower(), tests)
        for view, tests in found.items()
        if len(tests) >= LEAST_TESTS
    }
