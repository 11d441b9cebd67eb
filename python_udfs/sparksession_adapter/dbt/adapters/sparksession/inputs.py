"""What each model reads: the snapshot it is pinned to, and the one its last commit recorded."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.sparksession.iceberg.history import History
from dbt.adapters.sparksession.read_plans import NOTHING_READ, GivenRows, Read, ReadPlan
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.sql_texts import COMMENT

PROPERTY_SETTING = "spark.sql.iceberg.snapshot-property."
CONFIG = re.compile(r"\{\{-?\s*config\(.*?\)\s*-?\}\}", re.DOTALL)


@dataclass
class Building:
    """What is held for a node until it is built.

    Attributes:
        context: of a Python model, the context that its views are rendered in.
        kept: temporary view -> the rows that are kept for it.
        kept_counts: the same views -> how many rows these are.
        own_history: its own commits as they are now; None until they are asked for.
    """

    context: Any = None
    kept: dict[str, Any] = field(default_factory=dict)
    kept_counts: dict[str, int] = field(default_factory=dict)
    own_history: History | None = None


class Inputs:
    """The plans of all models of one invocation. Threads share it.

    A table is pinned once: whoever reads it later in the run reads the same snapshot, whatever
    other writers do. Only the run's own build of a table moves its pin.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pins: dict[str, int] = {}
        self._histories: dict[str, History] = {}
        self._plans: dict[str, ReadPlan] = {}
        self._buildings: dict[str, Building] = {}
        self._thread = threading.local()

    def plan(self, model_id: str) -> ReadPlan:
        """What is known by now of what a model reads."""
        with self._lock:
            return self._plans.get(model_id, NOTHING_READ)

    def change(self, model_id: str, change: Callable[[ReadPlan], ReadPlan]) -> ReadPlan:
        """Let a model's plan be what `change` makes of it; the new plan."""
        with self._lock:
            plan = self._plans[model_id] = change(self.plan(model_id))
            return plan

    def note(self, model_id: str, **values: Any) -> ReadPlan:
        """Let a model's plan have these values; the new plan."""
        return self.change(model_id, lambda plan: replace(plan, **values))

    def note_zone(self, model_id: str, zone: str) -> ReadPlan:
        """Note that a model's macros ask for rows, or cut windows, in a session of a time zone: the
        first counts."""
        return self.change(model_id, lambda plan: replace(plan, asked_in=plan.asked_in or zone))

    def note_news(self, model_id: str, **values: Any) -> ReadPlan:
        """The same of the plan's `news`."""
        return self.change(model_id, lambda plan: plan.with_news(**values))

    def note_news_text(
        self, model_id: str, text: str, may_remove: bool = False, of_table: bool = False
    ) -> ReadPlan:
        """Note a part of a model's query that reads what is new; the new plan.

        Args:
            may_remove: whether it may hold rows that have gone.
            of_table: whether it is what became of a table's rows.
        """
        return self.change(
            model_id,
            lambda plan: plan.with_news(
                texts=plan.news.texts | {text},
                removals=plan.news.removals | ({text} if may_remove else set()),
                of_tables=plan.news.of_tables | ({text} if of_table else set()),
            ),
        )

    def note_given(self, model_id: str, given: GivenRows) -> ReadPlan:
        """Note a part of a model's query that a macro makes right by itself; the new plan."""
        return self.change(model_id, lambda plan: plan.with_news(given=plan.news.given | {given}))

    def note_properties(self, model_id: str, properties: Mapping[str, str]) -> ReadPlan:
        """Let the model's next commit say this too; the new plan."""
        return self.change(model_id, lambda plan: plan.with_properties(properties))

    def note_read(self, model_id: str, read: Read, mode: str) -> ReadPlan:
        """Let a model's plan have a read; the new plan.

        Args:
            mode: `all`, or how new rows are asked for.
        """

        def change(plan: ReadPlan) -> ReadPlan:
            return replace(
                plan,
                reads={**plan.reads, read.table: read},
                by_partition=plan.by_partition.with_read(read.table, mode),
            )

        return self.change(model_id, change)

    def note_relation(self, model_id: str, name: str) -> ReadPlan:
        """Note that a model asks a macro to read `name` (schema.name)."""
        return self.change(model_id, lambda plan: replace(plan, relations=plan.relations | {name}))

    def note_unpinned(self, model_id: str, name: str) -> ReadPlan:
        """Note that a model reads `name`, which has no snapshots."""
        return self.change(model_id, lambda plan: replace(plan, unpinned=plan.unpinned | {name}))

    def may_read_range(
        self, model_id: str, table: str, first: int | None, last: int | None
    ) -> bool:
        """Whether the model's query may read the rows appended to a table between two snapshots.

        Spark 4.1 gives all reads of one table in a query the options of the first read, so that a
        second range would be read as if it were the first, without a word.
        """
        plan = self.change(
            model_id,
            lambda plan: replace(plan, ranges={table: (first, last), **plan.ranges}),
        )
        return plan.ranges[table] == (first, last)

    def rehearsed(self, model_id: str, render: Callable[[], None]) -> ReadPlan:
        """The plan that `render` makes of a model, whose own plan stays as it is; nothing else is
        done by it."""
        with self._lock:
            held = self._plans.pop(model_id, None)
        self._thread.is_noting = True
        try:
            render()
            return self.plan(model_id)
        finally:
            self._thread.is_noting = False
            with self._lock:
                self._plans.pop(model_id, None)
                if held is not None:
                    self._plans[model_id] = held

    @property
    def is_noting(self) -> bool:
        """Whether this thread renders a model only to learn what it reads."""
        return getattr(self._thread, "is_noting", False)

    def forget(self, model_id: str) -> None:
        """Let a model's plan begin again, and ask its own commits again."""
        with self._lock:
            self._plans.pop(model_id, None)
            self._buildings.pop(model_id, None)

    def building(self, model_id: str) -> Building:
        """What is held for a node until it is built."""
        with self._lock:
            return self._buildings.setdefault(model_id, Building())

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
