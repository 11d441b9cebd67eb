"""What the commits of a table say: rows that a run added, what it wrote, properties."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable
from typing import Protocol

from dbt.adapters.sparksession.edges import Given, Json, Node
from dbt.adapters.sparksession.iceberg.history import (
    History,
    Snapshot,
    appended,
)
from dbt.adapters.sparksession.keyed.tables import (
    stored_table_of,
)
from dbt.adapters.sparksession.read_plans import ReadPlan, ReplacedPartitions
from dbt.adapters.sparksession.reading.microbatch import (
    Microbatches,
    is_microbatch,
)
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.invocation import get_invocation_id


def sharing(held: str, keys: str, names: Iterable[str], near: str = "true") -> str:
    """SQL text, for a `from`, of the rows of `held` that have a key which a query gives; null is a
    value like any other.

    Args:
        held: SQL text for a `from`.
        keys: the query, of the columns `names`.
        near: SQL condition on `held` that all these rows meet, by which files are left out.
    """
    same = " and ".join(f"held.{quoted(name)} <=> touched.{quoted(name)}" for name in names)
    return (
        f"(select held.* from {held} as held left semi join ({keys}) as touched "
        f"on {same} where {near})"
    )


def _added_rows(table: str, commits: list[Snapshot]) -> str:
    """SQL text of the rows that the newest commits added, `commits` being newest first; of all
    rows where one of them made the table or did more than add."""
    first = commits[-1].parent if commits else None
    if first is None or not all(commit.adds_only for commit in commits):
        return table
    return appended(table, first, commits[0].id)


def _commits_of_run(history: History) -> list[Snapshot]:
    """The newest commits, newest first, as far as this run made them."""
    run = get_invocation_id()
    line = history.ancestry(history.head)
    return list(itertools.takewhile(lambda commit: commit.summary.get("dbt.run") == run, line))


class VersionSnapshots(Protocol):
    """The snapshots that versions hold."""

    def written_snapshot(self, table: str) -> int | None:
        """Of a stored table in the version whose query this thread writes, or None if it
        writes none, or a version without that table."""

    def snapshot_as_of(self, number: str, table: str) -> int | None:
        """Of a stored table in a version, by its number or tag, or None if it has no such table."""


class Commits:
    """Asks the commits of tables."""

    def __init__(
        self, warehouse: Warehouse, batches: Microbatches, versions: VersionSnapshots
    ) -> None:
        self._warehouse = warehouse
        self._batches = batches
        self._versions = versions

    def commit_report(self, model: Node, relation: Relation, changed: bool = True) -> Json:
        """What the model's run did, from the snapshots' own counters.

        Returns:
            {"message", "rows_read" (None if unknown), "rows_added", "rows_removed"}
        """
        if is_microbatch(model["config"]):
            return self._batches.batch_report(model)
        plan = self._warehouse.inputs.plan(model["unique_id"])
        known = [read.rows for read in plan.reads.values() if read.rows is not None]
        is_known = bool(known) and len(known) == len(plan.reads)
        rows_read = sum(known) if is_known else None
        added = removed = 0
        if changed:
            history = self._warehouse.history(relation.name_only.render())
            self._warehouse.inputs.building(model["unique_id"]).own_history = history
            for snapshot in _commits_of_run(history):
                added += snapshot.count("added-records")
                removed += snapshot.count("deleted-records")
        if plan.replaced is not None and plan.replaced.predicate is not None:
            rows_read = self._partition_rows(plan, plan.replaced)
        message = f"+{added:,}" + (f" -{removed:,}" if removed else "") + " rows"
        if not added and not removed:
            message = "nothing new"
        return {
            "message": message,
            "rows_read": rows_read,
            "rows_added": added,
            "rows_removed": removed,
        }

    def rows_of_run(self, relation: Relation, key: str | None = None, where: str = "true") -> str:
        """SQL text, for a `from`, of the rows that this run's commits added to `relation`.

        Args:
            key: a column that no two rows have the same of: where a commit did more than add, the
                rows are those whose key was not there before the run. Without it they are all then.
            where: SQL condition on the rows.
        """
        table = relation.name_only.render()
        added = _commits_of_run(self._warehouse.history(table))
        if not added:
            return f"(select * from {table} limit 0)"
        before = added[-1].parent
        if key is None or before is None or all(commit.adds_only for commit in added):
            return f"(select * from {_added_rows(table, added)} where {where})"
        return (
            f"(select after.* from (select * from {table} where {where}) as after left anti join "
            f"(select {key} from {table} version as of {before} where {where}) as before "
            f"on after.{key} <=> before.{key})"
        )

    def run_only_added(self, relation: Relation) -> bool:
        """Whether no commit of this run changed rows that a table held before it, or took them."""
        added = _commits_of_run(self._warehouse.history(relation.name_only.render()))
        made_it = bool(added) and added[-1].parent is None
        return made_it or all(commit.adds_only for commit in added)

    def rows_of_last_append(self, relation: Relation) -> str:
        """SQL text, for a `from`, of the rows that the newest commit added; compactions add none.

        All rows where that commit made the table.
        """
        table = relation.name_only.render()
        history = self._warehouse.history(table)
        for commit in history.ancestry(history.head):
            if commit.operation != "replace" and commit.count("added-records"):
                return _added_rows(table, [commit])
        return f"(select * from {table} limit 0)"

    def commit_property(self, relation: Relation, key: str) -> str | None:
        """What the newest of a table's commits that has `key` holds; of those that are read
        where the run has pinned the table, or the var as_of_version names a version."""
        if self._warehouse.credentials.offline:
            return None
        table = relation.name_only.render()
        history = self._warehouse.history(table)
        head = self._versions.written_snapshot(table) or self._warehouse.inputs.pinned(table)
        if relation.reading is None and relation.as_of is not None:
            head = self._versions.snapshot_as_of(relation.as_of, table)
        return history.at(head or history.head).recorded(key)

    def head(self, relation: Relation) -> str | None:
        """The id of a table's newest snapshot, None without any."""
        newest = self._warehouse.history(relation.name_only.render()).head
        return None if newest is None else str(newest)

    def head_before_run(self, relation: Relation) -> str | None:
        """The id of a table's newest snapshot before this run's commits; None where it had none."""
        history = self._warehouse.history(relation.name_only.render())
        added = _commits_of_run(history)
        before = added[-1].parent if added else history.head
        return None if before is None else str(before)

    def note_of(self, relation: Relation, key: str) -> str:
        """The text that `keep_note` left at a table, "" without any."""
        table = relation.name_only.render()
        if is_remote(self._warehouse.session()):
            rows = self._warehouse.session().sql(f"show tblproperties {table}").collect()
            kept = {row["key"]: row["value"] for row in rows}.get(key)
        else:
            kept = self._warehouse.loaded(table).properties().get(key)
        try:
            return base64.b64decode(kept or "", validate=True).decode("utf-8")
        except ValueError:  # somebody else wrote it
            return ""

    def keep_note(self, relation: Relation, key: str, text: str) -> None:
        """Keep a text beside a table, as its property: no commit, no snapshot. It may hold data:
        in base64 it can't become SQL.

        Args:
            key: the property's name, a literal of the caller.
        """
        kept = base64.b64encode(text.encode("utf-8")).decode("ascii")
        self._warehouse.session().sql(
            f"alter table {relation.name_only.render()} set tblproperties ('{key}' = '{kept}')"
        )

    def recorded_property(self, model: Node, key: str) -> str | None:
        """What the newest of the model's commits that has `key` holds."""
        table = stored_table_of(model)
        return self._warehouse.history(table).recorded(key, table)

    def own_rows_since(self, model: Node, key: str) -> Given:
        """DataFrame of the rows that the model's commits added, from the newest one on that
        speaks of `key`. Where commits since then did more than add: the rows as they were at that
        commit and as they are now, so that no row is missing which somebody has deleted."""
        table = stored_table_of(model)
        history = self._warehouse.history(table)
        added: list[Snapshot] = []
        for commit in history.ancestry(history.head):
            added.append(commit)
            if key in commit.summary:
                break
        rows = _added_rows(table, added)
        only_added = all(commit.adds_only for commit in added)
        if added and key in added[-1].summary and not only_added:
            rows = (
                f"(select * from {table} version as of {added[-1].id} "
                f"union all select * from {table} version as of {history.head})"
            )
        return self._warehouse.session().sql(f"select * from {rows}")

    def _partition_rows(self, plan: ReadPlan, replaced: ReplacedPartitions) -> int | None:
        """Rows that were read: of inputs read by partitions those in the partitions replaced, from
        Iceberg's partition table. None where they are not known."""
        below = {table for tables in plan.by_partition.tables.values() for table in tables}
        total = 0
        for read in plan.reads.values():
            if read.table not in below:
                if read.rows is None:
                    return None
                total += read.rows
                continue
            if replaced.read_predicate == "false":
                continue
            try:
                row = self._warehouse.session().sql(
                    "select sum(record_count) as total from (select partition.*, record_count "
                    f"from {read.table}.partitions) where {replaced.read_predicate}"
                )
                total += row.collect()[0].total or 0
            except Exception:  # a partition column by another name: the count is only for show
                return None
        return total
