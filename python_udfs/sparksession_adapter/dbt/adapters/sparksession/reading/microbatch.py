"""Models that dbt cuts into batches: which are right, what one batch replaces, and what time no
batch has read.

dbt remembers no batch. Once the table is there it builds those of now and `lookback` before it: a
batch that failed, days on which nothing ran, and rows that came behind their batch would be missing
for good. So each commit records which times the batches up to it have read, without those of rows
that came since, and a run's end compares them with `begin`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from dbt.adapters.sparksession.edges import Foreign, Given, Json, Node, Settings
from dbt.adapters.sparksession.iceberg.history import appended
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.keyed.tables import stored_table, stored_table_of
from dbt.adapters.sparksession.reading.definitions import PARTIAL_RUNS
from dbt.adapters.sparksession.sql import literal, quoted
from dbt.adapters.sparksession.warehouse import Warehouse, named_table
from dbt_common.exceptions import CompilationError
from dbt_common.invocation import get_invocation_id, get_invocation_started_at

MICROBATCH = "microbatch"
BUILT_PROPERTY = "batches.built"  # the times that a table's batches have read, see with_batch
# batch size -> partition transforms of which each batch holds whole partitions
WITHIN = {
    "hour": ("hours", ""),
    "day": ("hours", "days", ""),
    "month": ("hours", "days", "months", ""),
    "year": ("hours", "days", "months", "years", ""),
}
# macros that read what is new since the model's last commit, which isn't what a batch is made of
READING_NEW = ("new_rows", "new_changes", "changed_partitions", "closed_periods")

# what dbt writes for an input that it cuts to a batch
CUT_READ = re.compile(
    r"\(select \* from [^\s()]++(?: version as of \d++| /\* pinned read \d++ \*/)? "
    r"where \S++ >= '[^']*+' and \S++ < '[^']*+'\)"
)
PINNED_READ = re.compile(r"(?<![^\s()])[^\s()]++ version as of \d++")  # of a table


def cut_reads(sql: str) -> list[str]:
    """The parts of a microbatch model's query that read the rows of its batch.

    >>> cut_reads("select 1 from (select * from dw.x where at >= '2026-03-01' and at < '2027') x")
    ["(select * from dw.x where at >= '2026-03-01' and at < '2027')"]
    """
    return CUT_READ.findall(sql)


def is_microbatch(config: Given) -> bool:
    """Whether dbt cuts a node's run into batches, by its config."""
    return (
        config.get("materialized") == "incremental"
        and config.get("incremental_strategy") == MICROBATCH
    )


def batch_size(config: Given) -> str:
    """The batch_size of a config, in which dbt has its word or a text."""
    size = config.get("batch_size")
    return str(getattr(size, "value", size))


def microbatch_problem(name: str, config: Given, macros: Iterable[str]) -> str | None:
    """The error text for a microbatch model that can't be right, else None.

    Args:
        macros: names of the macros that the model calls, those that they call among them.
    """
    event_time, size = config.get("event_time"), batch_size(config)
    given = config.get("partition_by") or []
    try:
        transforms = Transform.read_all(given)
    except ValueError as exc:
        return f"{name}: partition_by {exc}."
    fitting = WITHIN.get(size, ())
    if not any(
        transform.column == event_time and transform.function in fitting for transform in transforms
    ):
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


def replaces_whole_table(config: Given, full_refresh: bool) -> bool:
    """Whether dbt makes a microbatch model's table again by a run's first batch.

    Args:
        full_refresh: whether the run was given --full-refresh.
    """
    own = config.get("full_refresh")
    return full_refresh if own is None else bool(own)


def called_macros(node: Foreign, macros: Settings) -> set[str]:
    """Unique ids of all macros that a node calls, those that they call among them."""
    found: set[str] = set()
    waiting = list(node.depends_on.macros)
    while waiting:
        current = waiting.pop()
        if current not in found and current in macros:
            found.add(current)
            waiting += macros[current].depends_on.macros
    return found


Times = Sequence[tuple[datetime, datetime]]  # from, to (without it): in order, apart


def with_batch(built: Times, start: datetime, end: datetime, now: datetime) -> Times:
    """The times that batches have read, with those of another batch.

    Args:
        built: those of the batches before.
        start, end: of the batch.
        now: when it read its inputs: what happens later it hasn't read.
    """
    end = min(end, now)
    if start >= end:
        return built
    joined: list[tuple[datetime, datetime]] = []
    for first, last in sorted([*built, (start, end)]):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def times_without(built: Times, start: datetime, end: datetime) -> Times:
    """The times that batches have read, without those from `start` up to `end`.

    >>> first, second, third, last = (datetime(2026, 3, day) for day in (1, 2, 3, 4))
    >>> times_without([(first, last)], second, third) == [(first, second), (third, last)]
    True
    >>> times_without([(first, second)], second, last) == [(first, second)]
    True
    >>> times_without([(second, third)], first, last)
    []
    """
    kept = []
    for first, last in built:
        if first < start:
            kept.append((first, min(last, start)))
        if last > end:
            kept.append((max(first, end), last))
    return kept


def gaps(begin: datetime, built: Times) -> Times:
    """The times from `begin` on that no batch has read, though later batches have been."""
    found = []
    for first, last in built:
        if begin < first:
            found.append((begin, first))
        begin = max(begin, last)
    return found


def _moment(value: Given) -> datetime:
    """A time as dbt or a commit has it, in UTC and without a zone."""
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def _text(moment: datetime) -> str:
    """As --event-time-start takes it."""
    return moment.strftime("%Y-%m-%d" if moment == _midnight(moment) else "%Y-%m-%dT%H:%M:%S")


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


class Microbatches:
    """The batches that microbatch models are built in."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        # unique id -> newest snapshot after its last batch, and rows that its batches have added
        self._batches: dict[str, tuple[int | None, int]] = {}
        # of `dbt retry`: models of which the run before had made other batches
        self._continued: set[str] = set()

    def note_retried_batches(self, node: Foreign) -> None:
        """Before a batch is built: whether it goes on where another run stopped."""
        if getattr(node, "previous_batch_results", None) is not None:
            self._continued.add(node.unique_id)

    def goes_on_with_batches(self, model: Node) -> bool:
        """Whether the table holds batches that `dbt retry` doesn't build again: dbt would make it
        again by the first batch that it does, where the run before was given --full-refresh."""
        return model["unique_id"] in self._continued

    def record_batch(self, model: Node, replaces: bool) -> None:
        """Let a batch's commit say which times the table's batches have read.

        Args:
            replaces: whether the batch is all that the table will have.
        """
        if not is_microbatch(model["config"]):
            return
        built = [] if replaces else self._built(stored_table_of(model))
        if built and not model["config"].get(PARTIAL_RUNS):
            for late in self._late_times(model, built[0][0], built[-1][1]):
                built = times_without(built, *late)
        batch = model["batch"]
        start, end = (_moment(batch[f"event_time_{end}"]) for end in ("start", "end"))
        # what has come since the run began it doesn't read, see Inputs.pin
        built = with_batch(built, start, end, get_invocation_started_at())
        texts = [[time.isoformat() for time in times] for times in built]
        self._warehouse.set_snapshot_property(BUILT_PROPERTY, json.dumps(texts))

    def _late_times(self, model: Node, begin: datetime, end: datetime) -> Times:
        """The batches, of a time that batches have read, in which rows lie that the inputs got
        since the model's last commit. The batches that this run builds may be among them.

        Only what was appended to tables that dbt cuts is looked at: of rows that an overwrite wrote
        it isn't known which are new.
        """
        reads = self._warehouse.inputs.plan(model["unique_id"]).reads
        size = batch_size(model["config"])
        late: list[tuple[datetime, datetime]] = []
        for table, event_time in self._cut_inputs(model).items():
            read = reads.get(table)
            if read is None or read.recorded is None:
                continue
            if not any(commit.adds_only and commit.changes_rows for commit in read.commits or ()):
                continue
            rows, at = appended(table, read.recorded, read.pinned), quoted(event_time)
            limits = [f"cast({literal(limit)} as timestamp)" for limit in (begin, end)]
            found = (
                self._warehouse.session()
                .sql(
                    "select cast(at as timestamp_ntz) as first, "
                    f"cast(at + interval 1 {size} as timestamp_ntz) as last "
                    f"from (select distinct date_trunc('{size}', {at}) as at from {rows} "
                    f"where {at} >= {limits[0]} and {at} < {limits[1]})"
                )
                .collect()
            )
            late += [(row["first"], row["last"]) for row in found]
        return late

    def _cut_inputs(self, model: Node) -> dict[str, str]:
        """schema.name -> event_time, of the tables that dbt cuts to a batch."""
        manifest, found = self._warehouse.manifest(), {}
        for unique_id in model["depends_on"]["nodes"]:
            node = manifest.nodes.get(unique_id) or manifest.sources.get(unique_id)
            event_time = node and getattr(node.config, "event_time", None)
            if event_time:
                found[named_table(node)] = str(event_time)
        return found

    def _built(self, table: str) -> Times:
        recorded = self._warehouse.history(table).recorded(BUILT_PROPERTY, table)
        return (
            []
            if recorded is None
            else [(_moment(start), _moment(end)) for start, end in json.loads(recorded)]
        )

    def gaps_of(self, node: Foreign) -> Times:
        """The times that no batch of a node has read, though later batches have been; none of a
        node that isn't cut into batches."""
        if node.resource_type != "model" or not is_microbatch(node.config):
            return []
        table = stored_table(node.schema, node.alias, node.config.get("materialized"))
        return gaps(_moment(node.config.get("begin")), self._built(table))

    def lines_about_gaps(self, results: Iterable[Foreign]) -> list[str]:
        """A line for each time that a microbatch model of the run lacks."""
        lines = []
        for result in results:
            for first, last in self.gaps_of(result.node):
                start, end = _text(first), _text(last)
                lines.append(
                    f"No batch of {result.node.name} has read all that happened from {start} to "
                    f"{end}, and no later run does it by itself: run it with -s {result.node.name} "
                    f"--event-time-start {start} --event-time-end {end}."
                )
        return lines

    def is_microbatch(self, model: Node) -> bool:
        return is_microbatch(model["config"])

    def batch_condition(self, model: Node, columns: Iterable[Foreign]) -> str:
        """SQL condition on the event time of a batch's rows.

        Args:
            columns: those of the rows.

        Raises:
            CompilationError: they have no such column, or it has no time of that size.
        """
        name, config, batch = model["name"], model["config"], model["batch"]
        kinds = {column.column: column.dtype for column in columns}
        kind = kinds.get(config["event_time"])
        if kind not in ("date", "timestamp", "timestamp_ntz"):
            raise CompilationError(
                f"{name}: its event_time {config['event_time']} must be a column of dates or "
                f"times, it is {kind or 'no column of it'}."
            )
        if kind == "date" and batch_size(config) == "hour":
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

    def rows_of_batches(self, unique_id: str) -> int | None:
        """Rows that a model's batches have added in this run, or None if it has no batches."""
        known = self._batches.get(unique_id)
        return None if known is None else known[1]

    def batch_report(self, model: Node) -> Json:
        """What one batch did, see commit_report."""
        history = self._warehouse.history(stored_table_of(model))
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
