"""The queries of a version's relations: each reads the tables as the version has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from dbt.adapters.sparksession.iceberg.history import SNAPSHOT_READ, History
from dbt.adapters.sparksession.keyed.tables import stored_table_of
from dbt.adapters.sparksession.read_plans import OwnCommits
from dbt.adapters.sparksession.reading.named_reads import without_reads_before
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.versions.store import VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse

VIEW = "view"


def thread_reader() -> str:
    """Whose inputs the tables of a query are noted among that this thread writes."""
    return f"text.{threading.get_ident()}"


class VersionQueries:
    """Writes the queries of versions.

    A table's query names its snapshot. A view's is its own SQL over the version's tables: it has
    to be written again with each version that has another snapshot of what the view reads, whether
    the view was built in that run or not.
    """

    def __init__(self, warehouse: Warehouse, reads: TableReads, store: VersionStore) -> None:
        self._warehouse = warehouse
        self._reads = reads
        self._store = store

    def text_of(
        self,
        node: Mapping[str, Any],
        reader: str,
        context: dict[str, Any],
        snapshots: Callable[[str], int | None] | None = None,
    ) -> str:
        """Query of a node's rows over pinned tables; it needs nothing else.

        Args:
            reader: whose inputs the tables are noted among.
            snapshots: stored table -> its snapshot; None, or where it gives none: the run's pin.
        """
        if self._warehouse.inputs.plan(reader).own is None:
            self._warehouse.inputs.note(reader, own=OwnCommits(None, History(None, {})))
        model = {"unique_id": reader, "name": reader, "config": {}}
        relation = self._warehouse.relation_of_node(node)
        with self._store.writing_for(snapshots):
            read = self._reads.read(model, relation, "all", context, as_of=snapshots)
        return without_reads_before(f"select * from {read.render()}")

    def text_at(
        self,
        node: Mapping[str, Any],
        context: dict[str, Any],
        snapshots: Callable[[str], int | None],
    ) -> str:
        """The same for this thread alone; whose inputs they are is noted nowhere."""
        reader = thread_reader()
        self._warehouse.inputs.forget(reader)
        return self.text_of(node, reader, context, snapshots)

    def tables_below(self, node: Mapping[str, Any], nodes: Mapping[str, Any]) -> set[str]:
        """Stored tables of the project that a view's query reads, through other views too."""
        found, waiting, seen = set(), [node], set()
        while waiting:
            for unique_id in waiting.pop()["depends_on"]["nodes"]:
                parent = nodes.get(unique_id)
                if parent is None or unique_id in seen:
                    continue
                seen.add(unique_id)
                if parent["config"].get("materialized") in (VIEW, "ephemeral"):
                    waiting.append(parent)
                else:
                    found.add(stored_table_of(parent))
        return found

    def views_text(
        self,
        view: Mapping[str, Any],
        context: dict[str, Any],
        snapshots: Mapping[str, int],
        before: Mapping[str, int] | None,
        known: str | None,
    ) -> str | None:
        """Query of a view over a version's snapshots; None where the view's SQL isn't that of
        the version before any more.

        Args:
            before: the snapshots that its query was written for. None where it is built in this
                run, whatever its SQL was.
            known: its query in the version before.
        """

        def written(over: Mapping[str, int]) -> str:
            return self.text_at(view, context, over.get)

        if before is not None and known is not None:
            # a source is read as of this run, which is no other SQL
            then, now = (SNAPSHOT_READ.sub(" ", sql) for sql in (known, written(before)))
            if then != now:
                return None
        return written(snapshots)
