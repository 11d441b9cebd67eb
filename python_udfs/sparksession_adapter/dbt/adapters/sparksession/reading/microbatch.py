"""Models that dbt cuts into batches: which are right, and what one batch replaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.keyed.tables import stored_table_of
from dbt.adapters.sparksession.sql import literal, quoted
from dbt_common.exceptions import CompilationError
from dbt_common.invocation import get_invocation_id

MICROBATCH = "microbatch"
# batch size -> partition transforms of which each batch holds whole partitions
WITHIN = {
    "hour": ("hours", ""),
    "day": ("hours", "days", ""),
    "month": ("hours", "days", "months", ""),
    "year": ("hours", "days", "months", "years", ""),
}
# macros that read what is new since the model's last commit, which isn't what a batch is made of
READING_NEW = ("new_rows", "new_changes", "changed_partitions", "closed_periods")


def is_microbatch(config: Any) -> bool:
    """Whether dbt cuts a node's run into batches, by its config."""
    return (
        config.get("materialized") == "incremental"
        and config.get("incremental_strategy") == MICROBATCH
    )


def microbatch_problem(name: str, config: Any, macros: Iterable[str]) -> str | None:
    """What keeps a microbatch model from being right, as one sentence; None: nothing.

    Args:
        macros: names of the macros that the model calls, those that they call among them.
    """
    event_time, size = config.get("event_time"), config.get("batch_size")
    size = getattr(size, "value", size)
    given = config.get("partition_by") or []
    transforms = []
    for one in [given] if isinstance(given, str) else given:
        try:
            transforms.append(Transform.read(one))
        except ValueError as exc:
            return f"{name}: partition_by {exc}."
    fitting = WITHIN.get(str(size), ())
    if not any(one.column == event_time and one.function in fitting for one in transforms):
        return (
            f"{name}: a microbatch model replaces the partitions of a batch, so it must be "
            f"partitioned by its event_time, a {size} or less at a time, and partition_by is "
            f"{given or 'not set'}. Example: partition_by='{size}s({event_time})'."
        )
    wrong = sorted(set(macros) & set(READING_NEW))
    if wrong:
        return (
            f"{name}: a microbatch model reads the rows of its batch by ref(..) or source(..) "
            f"with event_time set, not by {wrong[0]}(..)."
        )
    return None


def called_macros(node: Any, macros: Mapping[str, Any]) -> set[str]:
    """Unique ids of all macros that a node calls, those that they call among them."""
    found: set[str] = set()
    waiting = list(node.depends_on.macros)
    while waiting:
        one = waiting.pop()
        if one not in found and one in macros:
            found.add(one)
            waiting += macros[one].depends_on.macros
    return found


class Microbatches(metaclass=AdapterMeta):
    """What the adapter knows of batches."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # unique id -> newest snapshot after its last batch, and rows that its batches have added
        self._batches: dict[str, tuple[int | None, int]] = {}

    @available
    def is_microbatch(self, model: Mapping[str, Any]) -> bool:
        return is_microbatch(model["config"])

    @available
    def batch_condition(self, model: Mapping[str, Any], columns: Iterable[Any]) -> str:
        """SQL condition on the event time of a batch's rows.

        Args:
            columns: those of the rows.

        Raises:
            CompilationError: they have no such column, or it has no time of that size.
        """
        name, config, batch = model["name"], model["config"], model["batch"]
        kinds = {one.column: one.dtype for one in columns}
        kind = kinds.get(config["event_time"])
        if kind not in ("date", "timestamp", "timestamp_ntz"):
            raise CompilationError(
                f"{name}: its event_time {config['event_time']} must be a column of dates or "
                f"times, it is {kind or 'no column of it'}."
            )
        if kind == "date" and str(getattr(config["batch_size"], "value", config["batch_size"])) == (
            "hour"
        ):
            raise CompilationError(
                f"{name}: its event_time {config['event_time']} is a date, which has no hours: "
                "take a batch_size of day, month or year."
            )
        limits = []
        for limit in (batch["event_time_start"], batch["event_time_end"]):
            moment = limit if isinstance(limit, datetime) else datetime.fromisoformat(str(limit))
            text = moment.strftime("%Y-%m-%d" if kind == "date" else "%Y-%m-%d %H:%M:%S")
            limits.append(f"{kind} {literal(text)}")
        column = quoted(config["event_time"])
        return f"{column} >= {limits[0]} and {column} < {limits[1]}"

    @available
    def rows_of_batches(self, unique_id: str) -> int | None:
        """Rows that a model's batches have added in this run; None: it has none."""
        known = self._batches.get(unique_id)
        return None if known is None else known[1]

    def batch_report(self, model: dict) -> dict:
        """What one batch did, see commit_report."""
        adapter: Any = self
        history = adapter.history(stored_table_of(model))
        head, total = self._batches.get(model["unique_id"], (None, 0))
        added = removed = 0
        for snapshot in history.ancestry(history.head):
            if snapshot.id == head or snapshot.summary.get("dbt.run") != get_invocation_id():
                break
            added += snapshot.count("added-records")
            removed += snapshot.count("deleted-records")
        self._batches[model["unique_id"]] = history.head, total + added
        message = f"+{added:,}" + (f" -{removed:,}" if removed else "") + " rows"
        return {"message": message, "rows_read": None, "rows_added": added, "rows_removed": removed}
