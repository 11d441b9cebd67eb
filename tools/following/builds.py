"""dbt's commands in this process, each with what dbt has parsed before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dbt.adapters.factory import get_adapter_by_type
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import SeedNode

ADAPTER = "sparksession"
FINE = ("success", "pass", "warn", "no-op", "skipped")
WARNINGS = ("JinjaLogWarning", "AdapterEventWarning")
MESSAGE_LENGTH = 300
# it prints one line a cycle; dbt's output stands in its log file
SILENT = ("--log-level", "none", "--log-level-file", "info", "--no-print", "--no-use-colors")


class BuildError(Exception):
    """dbt could not do what it was asked for; the message names it, in one line."""


@dataclass(frozen=True)
class Build:
    """What one build did.

    Attributes:
        problem: why it failed, in one line; None where it did not.
        warnings: what dbt warned of, each once.
        added: name of a model of the ODS layer -> rows that the build added.
        nodes: how many nodes ran.
    """

    problem: str | None = None
    warnings: tuple[str, ...] = ()
    added: Mapping[str, int] = field(default_factory=dict)
    nodes: int = 0


@dataclass(frozen=True)
class Published:
    """The newest version.

    Attributes:
        version: its number.
        published_at: UTC.
        stale: relations that it made from older rows of an input.
        snapshots: stored table -> its snapshot in the version.
    """

    version: int
    published_at: datetime
    stale: tuple[str, ...] = ()
    snapshots: Mapping[str, int] = field(default_factory=dict)


class Builds:
    """Runs dbt in this process.

    Args:
        options: options that each command gets, e.g. --project-dir.
        select: dbt's --select of the builds; empty for the project's default selector.

    Attributes:
        manifest: what dbt has parsed; None before `parse`.
    """

    def __init__(self, options: Sequence[str] = (), select: Sequence[str] = ()) -> None:
        self._options, self._select = tuple(options), tuple(select)
        self.manifest: Manifest | None = None

    def parse(self) -> None:
        """Let dbt parse the project; what did not change it takes from its own file.

        Raises:
            BuildError: the project can't be parsed.
        """
        self.manifest = None
        done = dbtRunner().invoke([*SILENT, "parse", *self._options])
        if not done.success or not isinstance(done.result, Manifest):
            raise BuildError(one_line(done.exception or "dbt parse failed"))
        self.manifest = done.result

    def build(self) -> Build:
        """`dbt build` without unit tests, with what was parsed."""
        warnings: dict[str, None] = {}

        def note(event: Any) -> None:
            if event.info.level == "warn" and event.info.name in WARNINGS:
                warnings[one_line(event.info.msg)] = None

        selected = ["--select", *self._select] if self._select else []
        command = ["build", "--exclude-resource-type", "unit_test", *selected]
        done = self._invoke(command, callbacks=[note])
        results = list(getattr(done.result, "results", None) or [])
        failed = [result for result in results if str(result.status) not in FINE]
        problem = None
        if not done.success or failed:
            problem = _problem(done.exception, failed)
        for result in results:
            if str(result.status) == "warn":
                warnings[one_line(f"test {result.node.name}: {result.message}")] = None
        added = {
            result.node.name: int((result.adapter_response or {}).get("rows_affected") or 0)
            for result in results
            if result.node.resource_type == "model" and str(result.status) == "success"
        }
        return Build(problem, tuple(warnings), added, len(results))

    def operation(self, name: str) -> None:
        """`dbt run-operation`.

        Raises:
            BuildError: it failed.
        """
        done = self._invoke(["run-operation", name])
        if not done.success:
            failed = list(getattr(done.result, "results", None) or [])
            raise BuildError(_problem(done.exception, failed))

    def _invoke(self, command: Sequence[str], callbacks: Any = None) -> Any:
        self._forget_compiled()
        runner = dbtRunner(manifest=self.manifest, callbacks=callbacks)
        return runner.invoke([*SILENT, "--no-write-json", *command, *self._options])

    def _forget_compiled(self) -> None:
        """Let the nodes be as they were parsed: dbt doesn't compile a node a second time."""
        for node in self.manifest.nodes.values() if self.manifest else ():
            if not isinstance(node, SeedNode) and node.compiled:
                node.compiled, node.compiled_code = False, None
                node.extra_ctes_injected, node.extra_ctes = False, []

    # ---- what the last command's adapter knows ---------------------------------------------

    @property
    def adapter(self) -> Any:
        """The adapter of the last command; it stays until the next command."""
        return get_adapter_by_type(ADAPTER)

    def logs(self) -> list[Any]:
        """The models of the log, which read what has landed: those with `landing` in their meta."""
        nodes = self.manifest.nodes.values() if self.manifest else ()
        return [node for node in nodes if "landing" in (node.config.meta or {})]

    def project_var(self, name: str, default: Any = None) -> Any:
        """A var as the project's own models see it."""
        warehouse = self.adapter.services.warehouse
        of_project = warehouse.vars_of({"package_name": warehouse.config.project_name})
        return of_project.get(name, default)

    def published(self) -> Published | None:
        """The newest version, whoever has published it; None where there is none."""
        with self.adapter.connection_named("follow"):
            newest = self.adapter.services.store.version()
        if newest is None:
            return None
        stale, snapshots = tuple(newest.stale), newest.snapshots
        return Published(newest.version, newest.published_at, stale, snapshots)

    def holds_all(self, published: Published, log: Any) -> bool:
        """Whether a version has all rows that a log has now."""
        table = f"{log.schema}.{log.alias}"
        with self.adapter.connection_named("follow"):
            head = self.adapter.services.warehouse.history(table).head
        return head is not None and published.snapshots.get(table) == head

    def state_of_versions(self) -> str | None:
        """What changes with each publication, found without a query; None where there is none."""
        services = self.adapter.services
        table = services.warehouse.relation_of(services.store.version_table)
        with self.adapter.connection_named("follow"):
            head: str | None = services.commits.head(table)
        return head

    def newest_changes(self, log: Any) -> dict[str, tuple[datetime, int]]:
        """Topic -> time of its newest change (UTC), and how many of its messages were refused,
        among the rows that the last build added to the log."""
        services = self.adapter.services
        relation = services.warehouse.relation_of(f"{log.schema}.{log.alias}")
        with self.adapter.connection_named("follow"):
            rows = (
                services.warehouse.session()
                .sql(
                    "select topic, cast(max(event_time) as timestamp_ntz) as newest, "
                    "count(reject_reason) as refused "
                    f"from {services.commits.rows_of_last_append(relation)} group by topic"
                )
                .collect()
            )
        return {row.topic: (row.newest, row.refused) for row in rows}

    def refused(self, added: Mapping[str, int]) -> int:
        """How many messages the typed tables refused in the last build, beside those that the log
        itself refused.

        Args:
            added: what the build added, see Build.
        """
        services = self.adapter.services
        nodes = self.manifest.nodes.values() if self.manifest else ()
        typed = [
            services.warehouse.relation_of(f"{node.schema}.{node.alias}")
            for node in nodes
            if "source" in (node.config.meta or {}) and added.get(node.name)
        ]
        if not typed:
            return 0
        with self.adapter.connection_named("follow"):
            added_rows = [
                services.commits.rows_of_run(relation, "unique_key", "reject_reason is not null")
                for relation in typed
            ]
            counts = " union all ".join(
                f"select count(*) as refused from {rows}" for rows in added_rows
            )
            found = services.warehouse.session().sql(counts).collect()
        return sum(row.refused for row in found)


def _problem(exception: BaseException | None, failed: Sequence[Any]) -> str:
    """Why a command failed, in one line: the first node that did, and how many others."""
    if not failed:
        return one_line(exception or "dbt failed, see logs/dbt.log")
    named = [result for result in failed if str(result.status) == "error"] or list(failed)
    first, others = named[0], len(failed) - 1
    name = getattr(getattr(first, "node", None), "name", "")
    more = f" (and {others} more)" if others else ""
    return one_line(f"{name}{more}: {first.message or first.status}")


def one_line(text: object) -> str:
    """A text on one line, cut where it is long.

    >>> one_line("Database Error\\n  no such table")
    'Database Error no such table'
    """
    flat = re.sub(r"\s+", " ", str(text)).strip()
    return flat if len(flat) <= MESSAGE_LENGTH else flat[: MESSAGE_LENGTH - 2] + ".."
