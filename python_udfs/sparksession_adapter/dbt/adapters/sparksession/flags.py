"""What dbt's flags that cut a run's inputs do here: no table takes a part for the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.iceberg.history import MODEL_PROPERTY, History
from dbt.adapters.sparksession.inputs import PROPERTY_SETTING
from dbt.adapters.sparksession.keyed.tables import FOLD_PROPERTIES, stored_table_of
from dbt.adapters.sparksession.reading.microbatch import is_microbatch, replaces_whole_table
from dbt.adapters.sparksession.reading.named_values import VAR
from dbt.adapters.sparksession.session import own_session
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt.flags import get_flags
from dbt_common.exceptions import CompilationError

# a commit that made its table and read nothing for it
UNREAD_PROPERTY = "dbt.unread"
# of the node itself, not of what it read
KEPT_PROPERTIES = ("dbt.run", MODEL_PROPERTY, "dbt.code", UNREAD_PROPERTY)
WRITING = ("run", "build", "seed", "snapshot", "retry", "clone")
BUILT_KINDS = ("model", "seed", "snapshot")


def flag(name: str) -> Any:
    """A flag of this command, by its name in upper case; None where the command has no such."""
    return getattr(get_flags(), name, None)


def is_empty_run() -> bool:
    """Whether the command writes tables and was given --empty."""
    return bool(flag("EMPTY")) and flag("WHICH") in WRITING


def check_takes_all(nodes: Iterable[Foreign]) -> None:
    """Refuse a command that would write tables of a part of their inputs.

    Args:
        nodes: those that it builds.

    Raises:
        CompilationError: it was given --sample, or a part of the time of tables that it would make
            again.
    """
    if flag("SAMPLE") is not None and flag("WHICH") in WRITING:
        raise CompilationError(
            "--sample would build tables of a part of their inputs, and the next run would "
            "take them for whole: nothing was done. Run without it, or with --empty to make "
            "tables that aren't there; dbt compile and dbt show read what you like."
        )
    if not flag("EVENT_TIME_START") and not flag("EVENT_TIME_END"):
        return
    refreshed = sorted(
        node.name
        for node in nodes
        if is_microbatch(node.config)
        and replaces_whole_table(node.config, bool(flag("FULL_REFRESH")))
    )
    if refreshed:
        raise CompilationError(
            f"--full-refresh would leave {named(refreshed)} with the rows between "
            "--event-time-start and --event-time-end alone: nothing was done. Run it without "
            "--full-refresh, each batch replaces its own time; or without the two others, to make "
            "the whole table again."
        )


def is_unread(history: History) -> bool:
    """Whether a table is as --empty made it: no run has read anything for it."""
    newest = history.newest
    return newest is not None and UNREAD_PROPERTY in newest.summary


class CutRuns:
    """The flags --empty, --sample and --event-time-start/-end."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def is_empty_run(self) -> bool:
        return is_empty_run()

    def is_unread(self, model: Mapping[str, Any]) -> bool:
        """Whether the model's table is as --empty made it, so that its next run is its first."""
        if self._warehouse.credentials.offline:
            return False
        return is_unread(self._warehouse.history(stored_table_of(model)))

    def read_nothing(self, model: Mapping[str, Any]) -> None:
        """Let the node's next commit say that it has read nothing, and nothing else of its
        inputs."""
        conf = self._warehouse.session().conf
        for key in own_session(self._warehouse.credentials).set_with(PROPERTY_SETTING):
            if key not in KEPT_PROPERTIES and not key.startswith(FOLD_PROPERTIES):
                conf.unset(PROPERTY_SETTING + key)
        conf.set(PROPERTY_SETTING + UNREAD_PROPERTY, "--empty")

    def lines_about_unread(self, results: Iterable[Any]) -> list[str]:
        """A line for each table that nodes of an ordinary run have read and --empty had made."""
        if is_empty_run():
            return []
        reads = (
            self._warehouse.inputs.plan(result.node.unique_id).reads.values() for result in results
        )
        pins = {read.table: read.pinned for some in reads for read in some}
        return [
            f"{table} was made by --empty and has read nothing yet, so what was built from it has "
            "none of its rows. Build it too."
            for table, pin in sorted(pins.items())
            if is_unread(self._warehouse.history(table).at(pin))
        ]

    def lines_about_empty_run(self, results: Iterable[Any]) -> list[str]:
        """What a run with --empty did, as lines for its end."""
        built = [result for result in results if str(result.node.resource_type) in BUILT_KINDS]
        made = sorted(
            result.node.name
            for result in built
            if str(result.status) == "success"
            and result.node.config.get("materialized") != "view"
            and not str(result.message).endswith("(--empty)")
        )
        left = sum(str(result.message).endswith("(--empty)") for result in built)
        lines = [
            f"--empty: nothing was read or published; {left} tables and views stay as they are."
        ]
        if made:
            lines.append(
                f"--empty: made without rows: {named(made)}. Their next run is their first."
            )
        return lines

    def check_flags(self, selected: Sequence[str] = ()) -> list[str]:
        """What to report of this command's flags before it does anything.

        Args:
            selected: unique ids of the nodes that it will build.

        Raises:
            CompilationError: one of them would let a table take a part of the log for the whole.
        """
        if flag("WHICH") not in WRITING:
            return []
        nodes = self._warehouse.manifest().nodes
        chosen = [nodes[unique_id] for unique_id in selected if unique_id in nodes]
        check_takes_all(chosen)
        notes = []
        if flag("EVENT_TIME_START") or flag("EVENT_TIME_END"):
            others = sorted(
                node.name
                for node in chosen
                if node.resource_type == "model" and not is_microbatch(node.config)
            )
            if others:
                notes.append(
                    "--event-time-start and --event-time-end choose batches of microbatch models "
                    f"alone; {named(others)} read{'s' if len(others) == 1 else ''} what is new, "
                    "whatever its event time."
                )
        if flag("FULL_REFRESH"):
            kept = sorted(node.name for node in chosen if node.config.get("full_refresh") is False)
            if kept:
                notes.append(
                    f"--full-refresh does nothing to {named(kept)}, whose config has "
                    "full_refresh: false."
                )
            snapshots = sorted(node.name for node in chosen if node.resource_type == "snapshot")
            if snapshots:
                notes.append(
                    f"--full-refresh does nothing to {named(snapshots)}: the versions that a "
                    "snapshot holds are nowhere else any more."
                )
        if flag("FAVOR_STATE") and not flag("DEFER"):
            notes.append("--favor-state does nothing without --defer.")
        return notes + self._unread_vars()

    def _unread_vars(self) -> list[str]:
        """A line for each var of the command line that the project neither sets nor reads."""
        given = set(getattr(self._warehouse.config, "cli_vars", None) or {})
        if not given:
            return []
        manifest = self._warehouse.manifest()
        texts = [macro.macro_sql for macro in manifest.macros.values()]
        for node in manifest.nodes.values():
            texts += [getattr(node, "raw_code", ""), str(getattr(node, "unrendered_config", ""))]
        known = {found["name"] for text in texts for found in VAR.finditer(text)}
        for name, value in self._warehouse.config.vars.vars.items():
            known.add(name)
            known.update(value if isinstance(value, dict) else ())
        notes = []
        for name in sorted(given - known):
            near = get_close_matches(name, sorted(known), 2)
            notes.append(
                f"--vars sets {name}, which nothing reads"
                + (f"; near it: {' and '.join(near)}." if near else ".")
            )
        return notes


def named(names: Sequence[str], most: int = 3) -> str:
    """Names as text, the first names of many.

    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e"])
    ('a and b', 'a, b, c and 2 others')
    """
    shown, rest = list(names[:most]), len(names) - most
    if rest > 0:
        shown.append(f"{rest} other{'s' if rest > 1 else ''}")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
