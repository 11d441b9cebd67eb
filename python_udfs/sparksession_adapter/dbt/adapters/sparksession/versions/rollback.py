"""Go back to a version: publish it again, and put the tables back to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dbt.adapters.sparksession.iceberg.history import History
from dbt.adapters.sparksession.keyed.fitting import misfits
from dbt.adapters.sparksession.keyed.tables import FOLDED, RUNS_SUFFIX, KeyedTables, stored_table_of
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.sql import literal
from dbt.adapters.sparksession.versions.arguments import a_version
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.lease import utc_now
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.published import Versions, is_published
from dbt.adapters.sparksession.versions.store import Version, VersionStore, differing_relations
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id


def is_put_back(node: Mapping[str, Any]) -> bool:
    """Whether roll_back and drop_candidate put a node's table back.

    `meta: {put_back: false}` is for what can't be made again: messages whose files are gone.
    """
    return node["config"].get("meta", {}).get("put_back", True)


class Rollback:
    """The operation that goes back, and what it shares with others."""

    def __init__(
        self,
        warehouse: Warehouse,
        keyed: KeyedTables,
        reads: TableReads,
        store: VersionStore,
        *,
        lease: HeldLease,
        writer: OneWriter,
        versions: Versions,
    ) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._reads = reads
        self._store = store
        self._lease = lease
        self._writer = writer
        self._versions = versions

    def roll_back(self, number: Any, context: dict[str, Any]) -> list[str]:
        """Publish a version again, and put the tables back to it.

        Readers of the newest version see it in one commit. Then the tables follow one by one: a
        run that comes later goes on from there, and reads again what came after. The log itself
        stays as it is; see is_put_back.
        """
        number = a_version("version", number)
        with self._writer.writing():
            newest, wanted = self._store.known_version(), self._store.known_version(number)
            histories = {table: self._warehouse.history(table) for table in wanted.snapshots}
            lost = [
                table
                for table, snapshot in wanted.snapshots.items()
                if snapshot not in histories[table].snapshots
            ]
            if lost:
                raise DbtRuntimeError(
                    f"Version {wanted.version} can't be gone back to: its rows of {lost[0]} have "
                    "expired."
                )
            changed = differing_relations(newest.query_hashes, wanted.query_hashes)
            self._versions.publish_version(
                replace(
                    wanted,
                    version=newest.version + 1,
                    published_at=utc_now(),
                    run_id=get_invocation_id(),
                    made_by=f"roll back to {wanted.version}",
                    tag=None,
                    changed=changed,
                ),
                newest,
            )
            lines = [f"Published version {wanted.version} again, as version {newest.version + 1}."]
            lines += self.put_back(wanted, histories, context)
            lines += self._readers_of_expired(wanted, context)
        return lines

    def _readers_of_expired(self, version: Version, context: dict[str, Any]) -> list[str]:
        """Lines that name the tables of a version that can't read on from where they had read: an
        input that is not put back was replaced since, or its commits have expired."""
        lines = []
        for table, snapshots in self.read_after_going_back([version], context).items():
            history = self._warehouse.history(table)
            if all(history.between(snapshot, history.head) is not None for snapshot in snapshots):
                continue
            readers = sorted(
                reader.rpartition(".")[2].removesuffix(RUNS_SUFFIX)
                for reader, reads in version.inputs.items()
                if table in reads
            )
            lines.append(
                f"{table} was replaced since, or its commits have expired: build what reads it "
                f"again before anything else, dbt build -s "
                f"{' '.join(f'{reader}+' for reader in readers)} "
                "--full-refresh."
            )
        return lines

    def put_back(
        self, version: Version, histories: Mapping[str, History], context: dict[str, Any]
    ) -> list[str]:
        """Put the tables back to a version, with the views over them; a line for each table."""
        session, lines = self._warehouse.session(), []
        nodes = [node for node in context["graph"]["nodes"].values() if is_published(node)]
        folded = {
            stored_table_of(node): node
            for node in nodes
            if node["config"].get("materialized") == FOLDED
        }
        kept = {stored_table_of(node) for node in nodes if not is_put_back(node)}
        for table, snapshot in sorted(version.snapshots.items()):
            if histories[table].head == snapshot:
                continue
            if table in kept:
                lines.append(f"{table} stays as it is: what came in is kept, and read again.")
                continue
            self._lease.confirm()
            now = session.sql(f"select * from {table}").schema
            then = session.sql(f"select * from {table} version as of {snapshot}").schema
            # a column that was dropped and added again has its name and type, not its old values
            if now != then or histories[table].has_moved_columns_now(snapshot):
                name = table.rpartition(".")[2].removesuffix(RUNS_SUFFIX)
                lines.append(
                    f"{table} had other columns then and stays as it is: build it again "
                    f"(dbt build -s {name}+ --full-refresh)."
                )
                continue
            if table in folded:  # its view may know of a single run only
                node = folded[table]
                fold = self._keyed.stored_fold(node, histories[table])
                self.write_live_view(node, fold.folded(table, 2))
            session.sql(
                f"call {self._warehouse.credentials.catalog}.system.set_current_snapshot("
                f"{literal(table)}, {snapshot})"
            ).collect()
            lines.append(f"{table} is at snapshot {snapshot} again.")
        for node in nodes:
            if self._warehouse.relation_of_node(node).render() not in version.queries:
                continue  # nobody has built it, or not yet then
            if node["config"].get("materialized") == FOLDED:
                self._warehouse.inputs.forget(node["unique_id"])
                self.write_live_view(node, self._query_of_runs(node, version))
            elif node["config"].get("materialized") == "view":
                sql = self._reads.rendered(node, context, self._as_it_is)
                self.write_live_view(node, sql)
        return lines

    def _query_of_runs(self, node: Mapping[str, Any], version: Version) -> str:
        """The query of a keyed table's view: as its runs were read then, where it is declared
        otherwise by now."""
        history, table = self._keyed.runs_history(node), stored_table_of(node)
        is_of_then = history.head == version.snapshots.get(table)
        if not is_of_then or not misfits(self._keyed, node, history):
            return self._keyed.stored_sql(node)
        name = self._warehouse.relation_of_node(node).render()
        return version.queries[name].replace(f"{table} version as of {history.head}", table)

    def _as_it_is(self, node: Mapping[str, Any]) -> Any:
        """The relation of a node, which `pinned` in a view's SQL leaves as it is too: this is no
        run of the view, whose model `pinned` would ask for."""
        relation = self._warehouse.relation_of_node(node)
        return relation.replace(reading=relation.render())

    def write_live_view(self, node: Mapping[str, Any], sql: str) -> None:
        name = self._warehouse.relation_of_node(node).render()
        self._warehouse.session().sql(f"create or replace view {name} as {sql}")

    def read_after_going_back(
        self, versions: Iterable[Any], context: dict[str, Any]
    ) -> dict[str, set[int]]:
        """Table -> snapshots that runs read on from once a version has been gone back to, of
        tables that are not put back with it.

        Args:
            versions: each with snapshots and inputs.
        """
        nodes = [node for node in context["graph"]["nodes"].values() if is_published(node)]
        stay = {stored_table_of(node) for node in nodes if not is_put_back(node)}
        found: dict[str, set[int]] = {}
        for version in versions:
            for reads in version.inputs.values():
                for table, snapshot in reads.items():
                    if table in stay or table not in version.snapshots:
                        found.setdefault(table, set()).add(snapshot)
        return found
