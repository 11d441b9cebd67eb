"""Few files of many small files, published as the same rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dbt.adapters.sparksession.iceberg.history import MODEL_PROPERTY, TABLE_PROPERTY
from dbt.adapters.sparksession.keyed.layout import column_names
from dbt.adapters.sparksession.keyed.tables import FOLDED, RUNS_SUFFIX, KeyedTables, stored_table_of
from dbt.adapters.sparksession.session import own_session
from dbt.adapters.sparksession.sql import literal, mark_of, quoted, unquoted
from dbt.adapters.sparksession.versions.arguments import a_choice, a_name
from dbt.adapters.sparksession.versions.lease import utc_now
from dbt.adapters.sparksession.versions.nodes import all_tables
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.rollback import Rollback
from dbt.adapters.sparksession.versions.store import Version, VersionStore, differing_relations
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

SMALL_FILES = 5  # in one partition, from which on they are made one
# an entry of `sort_by` that Iceberg sorts files by: a column or a struct's field, no expression
SORTED_BY = re.compile(
    r"\s*(?P<name>[^\W\d]\w*|`(?:[^`]|``)+`)(?P<field>(?:\.[^\W\d]\w*)*)"
    r"(?P<order>(?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?)\s*",
    re.IGNORECASE,
)


def sorted_by(declared: Iterable[str], columns: Iterable[str]) -> list[str]:
    """What Iceberg can sort files by of a model's `sort_by`, whose entries are any SQL: those up to
    the first that is no column.

    Args:
        columns: names of the table's columns.

    >>> sorted_by(["ID desc", "`my id`", "id % 3", "v"], ["id", "my id", "v"])
    ['`id` desc', '`my id`']
    """
    known = {name.lower(): name for name in columns}
    found = []
    for entry in declared:
        parts = SORTED_BY.fullmatch(entry)
        name = unquoted(parts["name"]) if parts is not None else ""
        if parts is None or name.lower() not in known:
            break
        found.append(f"{quoted(known[name.lower()])}{parts['field']}{parts['order']}")
    return found


def _names_of(table: str) -> set[str]:
    """What a stored table (schema.name), or the keyed table that it holds, may be called."""
    names = {table, table.removesuffix(RUNS_SUFFIX)}
    return names | {name.rpartition(".")[2] for name in names}


class Compaction:
    """The operation that compacts tables."""

    def __init__(
        self,
        warehouse: Warehouse,
        keyed: KeyedTables,
        store: VersionStore,
        *,
        writer: OneWriter,
        place: Place,
        versions: Versions,
        rollback: Rollback,
    ) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._store = store
        self._writer = writer
        self._place = place
        self._versions = versions
        self._rollback = rollback

    def compact(self, select: str | None, merge_runs: bool, context: dict[str, Any]) -> list[str]:
        """Make few files of many small files, and publish the tables as they lie then.

        Args:
            select: one table's name; None for all.
            merge_runs: whether all runs of a folded model become one before.

        Raises:
            DbtRuntimeError: no table has that name.
        """
        select, merge_runs = a_name("select", select), a_choice("merge_runs", merge_runs)
        lines: list[str] = []
        nodes = context["graph"]["nodes"].values()
        stored = {stored_table_of(node): node for node in nodes if node["resource_type"] != "test"}
        with self._writer.writing():
            moved: dict[str, tuple[int, int]] = {}
            readings: dict[str, str] = {}
            tables = all_tables(self._warehouse)
            chosen = [table for table in tables if select in (None, *_names_of(table))]
            if select is not None and not chosen:
                raise DbtRuntimeError(
                    f"select must name a table or keyed table of the warehouse, got {select!r}: "
                    f"it has {', '.join(table.removesuffix(RUNS_SUFFIX) for table in tables)}."
                )
            for table in chosen:
                before = self._warehouse.history(table)
                if before.head is None:
                    continue
                self._place.check_delete(table)
                node, merged = stored.get(table), ""
                if merge_runs and node is not None and table.endswith(RUNS_SUFFIX):
                    self._warehouse.inputs.forget(node["unique_id"])
                    if self._keyed.is_declared_otherwise(node):
                        lines.append(
                            f"{table} keeps its runs: its model is declared differently by now; "
                            "run it first."
                        )
                    else:
                        merged = self._merged(table, node)
                made = ", ".join(filter(None, [merged, self._compacted(table, node)]))
                after = self._warehouse.history(table)
                if made and after.head is not None and after.head != before.head:
                    moved[table] = before.head, after.head
                    lines.append(f"{table}: {made}")
                if merged and node is not None:
                    old, new = (
                        self._keyed.folded_sql(
                            node, version, f"{table} version as of {version.head}"
                        )
                        for version in (before, after)
                    )
                    readings[old] = new
            newest = self._store.version()
            if newest is not None and moved:
                lines += self._publish_moved(newest, moved, readings)
        return lines or ["There was nothing to compact."]

    def _merged(self, table: str, node: Mapping[str, Any]) -> str:
        """Make one run of all that a folded model has; what was done."""
        own, model = own_session(self._warehouse.credentials), node["unique_id"]
        merge = self._keyed.record_compaction(node, everything=True)
        if merge is None:
            return ""
        count = self._keyed.run_count(node)
        self._warehouse.set_snapshot_property("dbt.run", get_invocation_id())
        self._warehouse.set_snapshot_property(MODEL_PROPERTY, model)
        self._warehouse.set_snapshot_property(TABLE_PROPERTY, table)
        self._keyed.group_reads()
        own.session.sql(self._keyed.merge_statement(merge, self._warehouse.relation_of(table)))
        own.reset()
        self._warehouse.inputs.forget(model)
        self._rollback.write_live_view(node, self._keyed.stored_sql(node))
        return f"{count} runs became 1"

    def _compacted(self, table: str, node: Mapping[str, Any] | None) -> str:
        session, system = self._warehouse.session(), f"{self._warehouse.credentials.catalog}.system"
        config = node["config"] if node is not None else {}
        declared = config.get("sort_by") or []
        by = sorted_by(
            [declared] if isinstance(declared, str) else declared, session.table(table).columns
        )
        if not declared and config.get("materialized") == FOLDED:
            by = list(map(quoted, column_names(config.get("unique_key")) or ()))
        # without any the files have the rows as they come, which is an order of no meaning
        sort = f", strategy => 'sort', sort_order => {literal(', '.join(by))}" if by else ""
        (done,) = session.sql(
            f"call {system}.rewrite_data_files(table => {literal(table)}{sort}, "
            f"options => map('min-input-files', '{SMALL_FILES}'))"
        ).collect()
        manifests = session.sql(f"select count(*) as n from {table}.manifests").collect()[0].n
        if manifests > SMALL_FILES:
            session.sql(f"call {system}.rewrite_manifests({literal(table)})").collect()
        results = []
        if done.rewritten_data_files_count:
            results.append(
                f"{done.rewritten_data_files_count} files became {done.added_data_files_count}"
            )
        if manifests > SMALL_FILES:
            results.append(f"{manifests} manifests were rewritten")
        return ", ".join(results)

    def _publish_moved(
        self,
        newest: Version,
        moved: Mapping[str, tuple[int, int]],
        readings: Mapping[str, str],
    ) -> list[str]:
        """Publish the newest version's rows as they lie after a compaction.

        Args:
            moved: table -> its snapshots before and after.
            readings: text of how a folded model was read -> how it is now.
        """
        queries, snapshots = dict(newest.queries), dict(newest.snapshots)
        inputs = {table: dict(read) for table, read in newest.inputs.items()}
        for table, (before, after) in moved.items():
            if snapshots.get(table) != before:  # rows that no version holds are among them
                continue
            snapshots[table] = after
            for read in inputs.values():
                if read.get(table) == before:
                    read[table] = after
            for name, text in queries.items():
                for old, new in readings.items():
                    text = text.replace(old, new)
                queries[name] = text.replace(
                    f"{table} version as of {before}", f"{table} version as of {after}"
                )
        query_hashes = {name: mark_of(text) for name, text in queries.items()}
        changed = differing_relations(newest.query_hashes, query_hashes)
        if not changed:
            return []
        self._versions.publish_version(
            replace(
                newest,
                version=newest.version + 1,
                published_at=utc_now(),
                run_id=get_invocation_id(),
                made_by="compact",
                tag=None,
                changed=changed,
                snapshots=snapshots,
                inputs=inputs,
                queries=queries,
                query_hashes=query_hashes,
            ),
            newest,
        )
        return [f"Published as version {newest.version + 1}: the same rows."]
