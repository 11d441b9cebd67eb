"""Which rows a version's tables were made from, and whether the version holds these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dbt.adapters.sparksession.keyed.tables import RUNS_SUFFIX, stored_table_of
from dbt.adapters.sparksession.read_plans import INPUT_PROPERTY
from dbt.adapters.sparksession.versions.makers import maker_of, project_of
from dbt.adapters.sparksession.versions.nodes import PUBLISHED_KINDS, has_table, is_published
from dbt.adapters.sparksession.versions.queries import VIEW, VersionQueries
from dbt.adapters.sparksession.versions.store import Version
from dbt.adapters.sparksession.warehouse import Warehouse

NAMED = 5  # tables that a sentence names


class VersionInputs:
    """Compares what tables were made from with what a version holds."""

    def __init__(self, warehouse: Warehouse, queries: VersionQueries) -> None:
        self._warehouse = warehouse
        self._queries = queries

    def unpublished_input(
        self,
        built: list[Mapping[str, Any]],
        snapshots: Mapping[str, int],
        inputs: Mapping[str, Mapping[str, int]],
        nodes: Mapping[str, Mapping[str, Any]],
    ) -> str | None:
        """A built table or view that reads what this version doesn't hold, and what to do."""
        for node in built:
            read: Mapping[str, int | None] = inputs.get(stored_table_of(node), {})
            if node["config"].get("materialized") == VIEW:
                read = {
                    input_table: self._warehouse.inputs.pinned(input_table)
                    for input_table in self._queries.tables_below(node, nodes)
                }
            problem = self.not_held(node, read.items(), snapshots, nodes)
            if problem:
                return problem
        return None

    def not_held(
        self,
        node: Mapping[str, Any],
        read: Iterable[tuple[str, int | None]],
        snapshots: Mapping[str, int],
        nodes: Mapping[str, Mapping[str, Any]],
    ) -> str | None:
        """What a table or view reads and a version doesn't hold, and what to do."""
        stored = {stored_table_of(node): node for node in nodes.values() if is_published(node)}
        for table, snapshot in sorted(self._reads_through(read, nodes), key=str):
            if table == stored_table_of(node) or table not in stored:
                continue
            if snapshots.get(table) != snapshot:
                return (
                    f"{node['name']} was made from rows of {stored[table]['name']} that no "
                    f"version holds. Build that too: dbt build -s {stored[table]['name']}+"
                )
        return None

    def _reads_through(
        self, read: Iterable[tuple[str, int | None]], nodes: Mapping[str, Mapping[str, Any]]
    ) -> set[tuple[str, int | None]]:
        """Stored tables and the snapshots that were read of them; of those that have no place in
        versions also what they were made from then, and so on."""
        unpublished = {
            stored_table_of(node): node
            for node in nodes.values()
            if node["resource_type"] in PUBLISHED_KINDS
            and not is_published(node)
            and has_table(node)
        }
        waiting, found = list(read), set()
        while waiting:
            table, snapshot = waiting.pop()
            if (table, snapshot) in found:
                continue
            found.add((table, snapshot))
            if table in unpublished:
                history = self._warehouse.input_history(table).at(snapshot)
                for input_table in self._queries.tables_below(unpublished[table], nodes):
                    recorded = history.recorded(INPUT_PROPERTY + input_table, table)
                    if recorded is not None:
                        waiting.append((input_table, int(recorded)))
        return found

    def left_behind(
        self,
        snapshots: Mapping[str, int],
        inputs: Mapping[str, Mapping[str, int]],
        nodes: Mapping[str, Mapping[str, Any]],
        lost: Collection[str],
    ) -> dict[str, set[str]]:
        """Tables that were made from other rows of an input than a version has -> these inputs.

        Args:
            lost: tables of the version before that nothing stores its rows in any more.
        """
        found: dict[str, set[str]] = {}
        for table, read in inputs.items():
            for input_table, snapshot in self._reads_through(read.items(), nodes):
                held = snapshots.get(input_table, snapshot)
                is_older = held != snapshot and not self._has_same_rows(input_table, snapshot, held)
                if is_older or input_table in lost:
                    found.setdefault(table, set()).add(input_table)
        return found

    def _has_same_rows(self, table: str, first: int | None, last: int | None) -> bool:
        """Whether a table's commits between two snapshots changed none of its rows."""
        if table.endswith(RUNS_SUFFIX):  # a commit without rows may say that they are folded again
            return False
        commits = self._warehouse.input_history(table).between(first, last)
        return commits is not None and not any(commit.changes_rows for commit in commits)

    @staticmethod
    def behind_problem(
        older: Mapping[str, set[str]],
        published: Iterable[Mapping[str, Any]],
        lost: Collection[str],
    ) -> str:
        """Why a version isn't published in which tables were made from older rows than it has, or
        from a table that is no model's any more."""
        names = {stored_table_of(node): node["name"] for node in published}
        late = sorted(names.get(table, table) for table in older)
        above = sorted({names.get(table, table) for read in older.values() for table in read})
        more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
        if missing := sorted({table for read in older.values() for table in read if table in lost}):
            return (
                f"{', '.join(late[:NAMED])}{more} would stand on {', '.join(missing[:NAMED])}, "
                "which is no model's table any more. Build them too, dbt build, or allow it by "
                "--vars 'allow_behind: true'"
            )
        command = "dbt build"
        if len(above) <= NAMED:
            command += f" -s {' '.join(f'{name}+' for name in above)}"
        return (
            f"{', '.join(late[:NAMED])}{more} would stand on older rows of "
            f"{', '.join(above[:NAMED])}{' and others' if len(above) > NAMED else ''} than the "
            f"version has. Build them too, {command}, or allow it by --vars 'allow_behind: true'"
        )

    def problem_of_others(
        self, before: Version, gone: Iterable[str], nodes: Mapping[str, Mapping[str, Any]]
    ) -> str | None:
        """Tables that another project made, and that a version of this project wouldn't have any
        more, as a sentence without its point; None where there are none.

        Args:
            before: the version that has them.
            gone: relations and tables that the next version wouldn't have.
        """
        own = self._warehouse.config.project_name
        known = {own, *(node["package_name"] for node in nodes.values())}
        others: dict[str, list[str]] = {}
        for name in sorted({name.removesuffix(RUNS_SUFFIX) for name in gone}):
            for table in {name, name + RUNS_SUFFIX} & before.snapshots.keys():
                maker = maker_of(self._warehouse, table)
                project = project_of(maker) if maker else own
                if project not in known:
                    others.setdefault(project, []).append(name)
        if not others:
            return None
        project, tables = min(others.items())
        return (
            f"project {project} made {', '.join(tables[:NAMED])}, which version {before.version} "
            f"has and a version of project {own} wouldn't have. Give either project a SCHEMA and "
            "a published_schema of its own; or, where nothing makes these tables any more, drop "
            "them"
        )
