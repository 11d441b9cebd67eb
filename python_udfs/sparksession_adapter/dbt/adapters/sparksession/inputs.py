"""What each model reads: the snapshot it is pinned to, and the one its last commit recorded."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.sparksession.iceberg.history import History, Snapshot
from dbt.adapters.sparksession.iceberg.partitions import PartitionReading
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.sql_texts import COMMENT

INPUT_PROPERTY = "dbt.input."
ASKED_PROPERTY = "asked.partitions"  # partitions that a run was asked to rewrite
REQUEST_PROPERTY = "asked.request"  # and why
CLOSED_PROPERTY = "level.closed_before"  # first day behind the periods that a level holds
COUNTED_PROPERTY = "count.declared"  # the counts that a model's rows are of
PROPERTY_SETTING = "spark.sql.iceberg.snapshot-property."
CONFIG = re.compile(r"\{\{-?\s*config\(.*?\)\s*-?\}\}", re.DOTALL)


@dataclass
class Read:
    """One input of one model in this run.

    Attributes:
        table: schema.name of the input.
        recorded: snapshot that the model's last commit read; None when it never did.
        pinned: snapshot that this run reads.
        rows: rows read, where the snapshots' counters tell; else None.
        commits: the input's commits after `recorded`, newest first; None where the table was
            never read or was replaced since.
    """

    table: str
    recorded: int | None
    pinned: int
    rows: int | None = None
    commits: list[Snapshot] | None = None

    @property
    def same_rows(self) -> bool:
        """Whether the input has the rows that it had then; a compaction changes none."""
        if self.recorded == self.pinned:
            return True
        commits = self.commits or []
        return bool(commits) and all(one.operation == "replace" for one in commits)

    @property
    def changes_nothing(self) -> bool:
        """The same, where commits say only what their writer had read: of these the model has to
        take note, or nobody could ever expire them."""
        known = self.commits is not None and not any(one.changes_rows for one in self.commits)
        return self.same_rows or known


@dataclass
class ModelInputs:
    """All inputs of one model in this run, and the partitions it has to write anew.

    Attributes:
        reads: table -> Read.
        predicate: SQL condition of the partitions to replace; None for all,
            `false` for none of them.
        read_predicate: the same in terms of the inputs' columns, where those differ.
        replaces: whether the model asked for changed partitions at all.
        by_partition: which of its inputs it reads by their changed partitions.
        asks_news: whether it asks for new rows or changes of anything.
        reads_whole: whether new rows were asked for and all rows of an input are read instead.
        rewrites: how often new rows were asked for of an input that the model has read, and all
            its rows are read instead.
        replayed: whether changes are read again that the model has read before.
        tolerates_replay: whether its query leaves out by itself what it has read before.
        rebuilds: whether it reads as if it were built for the first time.
        nothing_new: a Python model said that there is nothing to add.
        merged_by: columns by which a Python model's rows take the place of those that are there;
            none: they are added.
        merged_within: further SQL conditions on the rows that may give way.
        merged_gone: SQL condition on the model's rows that only take away; none: no row does.
        own: the model's own commits as they were when it was compiled.
        stored: schema.name of the table that holds its rows.
        latest: its own commits as they are now; None until they are asked for.
        relations: names (schema.name) of the tables and views that it asks a macro to read.
        unpinned: names of what it reads that has no snapshots: a view of another project, a table
            of another format or without a commit. Whether that has changed can't be known.
        context: of a Python model, the one that its views are rendered in.
        ranges: table -> the range of snapshots whose appended rows its query reads.
        counts: the counts that its rows are of, see record_count.
        properties: what its next commit says beside run, code and inputs.
        kept: temporary view -> the rows that are kept for it until the model is built.
        kept_counts: the same views -> how many rows these are.
        asks_ranges: whether its query shall name the ranges of what it touches.
        batch_rows: about how many rows its run has; None for as many as it reads.
        windows: the windows that it writes anew, see touch_windows; None if it noted none.
    """

    reads: dict[str, Read] = field(default_factory=dict)
    predicate: str | None = None
    read_predicate: str | None = None
    replaces: bool = False
    by_partition: PartitionReading = field(default_factory=PartitionReading)
    asks_news: bool = False
    reads_whole: bool = False
    rewrites: int = 0
    replayed: bool = False
    tolerates_replay: bool = False
    rebuilds: bool = False
    nothing_new: bool = False
    merged_by: Sequence[str] = ()
    merged_within: Sequence[str] = ()
    merged_gone: str | None = None
    own: History | None = None
    stored: str | None = None
    latest: History | None = None
    relations: set[str] = field(default_factory=set)
    unpinned: set[str] = field(default_factory=set)
    context: Any = None
    ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    counts: list[dict[str, Any]] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    kept_counts: dict[str, int] = field(default_factory=dict)
    asks_ranges: bool = False
    batch_rows: int | None = None
    windows: dict[str, str] | None = None

    def may_read_range(self, table: str, first: int | None, last: int | None) -> bool:
        """Whether the model's query may read the rows appended to a table between two snapshots.

        Spark 4.1 gives all reads of one table in a query the options of the first one, so that a
        second range would be read as if it were the first, without a word.
        """
        return self.ranges.setdefault(table, (first, last)) == (first, last)

    @property
    def unchanged(self) -> bool:
        """Every input has the rows that the model's last commit read, and nothing else is asked."""
        return (
            bool(self.reads)
            and not self.unpinned
            and ASKED_PROPERTY not in self.properties
            and all(read.same_rows for read in self.reads.values())
        )


class Inputs:
    """The inputs of all models of one invocation. Threads share it.

    A table is pinned once: whoever reads it later in the run reads the same snapshot, whatever
    other writers do. Only the run's own build of a table moves its pin.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pins: dict[str, int] = {}
        self._histories: dict[str, History] = {}
        self._models: dict[str, ModelInputs] = {}
        self._thread = threading.local()

    def of(self, model_id: str) -> ModelInputs:
        with self._lock:
            return self._models.setdefault(model_id, ModelInputs())

    @contextmanager
    def noting(self, model_id: str) -> Iterator[ModelInputs]:
        """Within it what a model reads is noted beside its inputs, and nothing of it is done."""
        noted = ModelInputs()
        with self._lock:
            held = self._models.get(model_id)
            self._models[model_id] = noted
        self._thread.is_noting = True
        try:
            yield noted
        finally:
            self._thread.is_noting = False
            with self._lock:
                self._models.pop(model_id)
                if held is not None:
                    self._models[model_id] = held

    @property
    def is_noting(self) -> bool:
        """Whether this thread renders a model only to learn what it reads."""
        return getattr(self._thread, "is_noting", False)

    def forget(self, model_id: str) -> None:
        """Let a model's inputs be noted anew."""
        with self._lock:
            self._models.pop(model_id, None)

    def pin(self, table: str, head: int) -> int:
        """The run's snapshot of `table`: `head` if nobody pinned it before."""
        with self._lock:
            return self._pins.setdefault(table, head)

    def pinned(self, table: str) -> int | None:
        with self._lock:
            return self._pins.get(table)

    def history(self, table: str, ask: Callable[[str], History]) -> History:
        """Commits of an input; asked for once as long as the run doesn't write it."""
        with self._lock:
            known = self._histories.get(table)
        if known is None:
            known = ask(table)
            if known.head is not None:
                with self._lock:
                    known = self._histories.setdefault(table, known)
        return known

    def built(self, table: str) -> None:
        """This run wrote `table`: readers after it take what it wrote."""
        with self._lock:
            self._pins.pop(table, None)
            self._histories.pop(table, None)


def sql_mark(sql: str) -> str:
    """A short hash of a model's SQL; its config, comments and spacing don't matter.

    >>> sql_mark("{{ config(sort_by='a') }} select 1 -- one") == sql_mark("select\\n    1")
    True
    >>> sql_mark("select '--a'") == sql_mark("select '--b'")
    False
    """

    def kept(found: re.Match[str]) -> str:
        if found["quoted"] is None:
            return " "
        # single spaces stay as they are, so that marks of most SQL are those of earlier versions
        return re.sub(r"\s\s+|[^\S ]", lambda gap: gap[0].encode().hex(), found["quoted"])

    text = COMMENT.sub(kept, CONFIG.sub(" ", sql))
    return mark_of(" ".join(text.split()))
