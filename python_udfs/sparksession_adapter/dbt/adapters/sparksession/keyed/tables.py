"""Folded tables as the adapter keeps them: runs in `<model>__runs`, a view that folds them.

Folds and zippers alike: they differ in their rows, not in their layout.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Context, Foreign, Given, Json, Node, Settings
from dbt.adapters.sparksession.iceberg.history import History, Snapshot
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.layout import LEVEL, FoldConfigError
from dbt.adapters.sparksession.keyed.partial_zippers import PartialZipper, is_partial
from dbt.adapters.sparksession.keyed.zippers import KNOWN_TIME, Zipper
from dbt.adapters.sparksession.sql import literal, mark_of, quoted
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.clients.jinja import get_template, render_template
from dbt_common.exceptions import CompilationError, DbtRuntimeError

FOLDED = "folded"
RUNS_SUFFIX = "__runs"
# properties of a commit of runs
FOLD_PROPERTIES = "fold."  # how all of these begin
LEVEL_PROPERTY = "fold.level"  # of the run that it added
OTHER_RUNS_PROPERTY = "fold.other_runs"  # [level, rows] of those that lie beside it
COLUMNS_PROPERTY = "fold.columns"  # [name, type] of the folded rows
SIGNATURE_PROPERTY = "fold.signature"
READING_PROPERTY = "fold.reading"  # a hash of what is declared of the rows that readers see
# the range whose changes a commit gave again while the old were still there: see _rebuild_range
REBUILDING_PROPERTY, REBUILT = "fold.rebuilding", "done"
COMPACTED_PROPERTY = "fold.compacted"  # it merged runs: nothing that a reader sees has changed
# the condition that hid keys which a merge forgot; "" where all rows were made again since
FORGOTTEN_PROPERTY = "fold.forgotten_by"
# the fold of a table that is bucketed by its key needs no shuffle, where these are on
GROUPED_READS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
}


def stored_table(schema: str, alias: str, materialized: str | None) -> str:
    """schema.name of the table that holds a model's rows."""
    return f"{schema}.{alias}{RUNS_SUFFIX if materialized == FOLDED else ''}"


def stored_table_of(model: Node) -> str:
    """The same of a node as the manifest has it."""
    return stored_table(model["schema"], model["alias"], model["config"].get("materialized"))


def runs_in(history: History) -> list[list[int]]:
    """[level, rows] of each run of a table of runs, by its newest commit."""
    for commit in history.ancestry(history.head):
        if OTHER_RUNS_PROPERTY in commit.summary:
            runs = json.loads(commit.summary[OTHER_RUNS_PROPERTY])
            rows = commit.count("added-records")
            return [*runs, [int(commit.summary[LEVEL_PROPERTY]), rows]] if rows else runs
    return []


def range_half_rebuilt(history: History) -> str | None:
    """JSON of the range of a zipper of which old and new changes are there, as its rebuild was
    stopped between its two commits; None where there is none."""
    for commit in history.ancestry(history.head):
        if LEVEL_PROPERTY in commit.summary:
            found = commit.summary.get(REBUILDING_PROPERTY)
            return None if found == REBUILT else found
    return None


def columns_in(history: History) -> list[list[str]]:
    """[name, type] of the rows that a table of runs comes to, hidden columns among them."""
    return json.loads(history.recorded(COLUMNS_PROPERTY) or "[]")


def only_adds_runs(commits: Iterable[Snapshot]) -> bool:
    """Whether commits of a table of runs added runs, or merged some, and did nothing else."""
    return all(commit.adds_only or COMPACTED_PROPERTY in commit.summary for commit in commits)


def _range_text(asked: Given) -> str | None:
    """The var `rebuild` as a commit records it."""
    if not isinstance(asked, Mapping):
        return None
    return json.dumps({name: str(asked[name]) for name in sorted(asked)})


def hash_of_reading(fold: Fold | Zipper) -> str:
    """A short hash of what a model declares of the rows that readers see."""
    return mark_of(json.dumps(fold.reading))


@dataclass(frozen=True)
class Batch:
    """The rows of a model's run, about to become a run of its table.

    Attributes:
        fold: the model's fold, bound to the columns that the table has from now on.
        rows: SQL text for a `from`: the rows, with those columns.
    """

    fold: Fold | Zipper
    rows: str

    @property
    def state_rows(self) -> str:
        """Query of the batch's state rows, one for each key."""
        return self.fold.merge_states(f"({self.fold.to_state(self.rows)}) as fold__state")


class KeyedTables:
    """Keyed tables: models that are stored as runs of changes and folded when they are read."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def declared_fold(self, model: Node) -> Fold | Zipper:
        """The fold or zipper that a model's config declares; all problems are reported at
        once."""
        name, config = model["name"], model["config"]
        fold, zipper = config.get("fold"), config.get("zipper")
        if fold is not None and zipper is not None:
            raise CompilationError(f"{name}: its config has both a fold and a zipper, take one")
        try:
            if zipper is not None:
                kind = PartialZipper if is_partial(zipper) else Zipper
                return kind.read(name, config.get("unique_key"), zipper)
            return Fold.read(name, config.get("unique_key"), fold)
        except FoldConfigError as exc:
            raise CompilationError(str(exc)) from exc

    def runs_history(self, model: Node) -> History:
        """Commits of the model's table of runs; asked for once between two of the model's own."""
        building = self._warehouse.inputs.building(model["unique_id"])
        if building.own_history is None:
            building.own_history = self._warehouse.history(stored_table_of(model))
        return building.own_history

    def has_committed(self, model: Node) -> None:
        """Let the model's own commits be asked for again."""
        self._warehouse.inputs.building(model["unique_id"]).own_history = None

    def _bound(
        self, model: Node, columns: Sequence[Sequence[str]], left_out: set[str]
    ) -> Fold | Zipper:
        fold = self.declared_fold(model).without(left_out)
        try:
            return fold.bound([(name, kind) for name, kind in columns])
        except FoldConfigError as exc:
            raise CompilationError(str(exc)) from exc

    def fold_batch(
        self, model: Node, staging: Given, is_rebuild: bool, on_schema_change: str
    ) -> Given:
        """The rows in `staging` as a batch of the model's table, see Batch.

        Raises:
            CompilationError: the fold or the columns don't fit the state that is stored.
            DbtRuntimeError: rows have null where none may be, or equal keys; see refusal.
        """
        batch = self._read_batch(model, staging, is_rebuild, on_schema_change)
        self._refuse(batch)
        return batch

    def _refuse(self, batch: Batch) -> None:
        if batch.fold.never_null:
            (found,) = (
                self._warehouse.session().sql(batch.fold.refused_counts(batch.rows)).collect()
            )
            problem = batch.fold.refusal(found)
            if problem:
                raise DbtRuntimeError(problem)

    def _read_batch(
        self, model: Node, staging: Given, is_rebuild: bool, on_schema_change: str
    ) -> Batch:
        staged = [
            [column.column, column.dtype]
            for column in self._warehouse.get_columns_in_relation(staging)
        ]
        if is_rebuild:
            return Batch(self._bound(model, staged, set()), staging.render())
        history = self.runs_history(model)
        unseen = self.declared_fold(model).unseen_columns
        new = {name: kind for name, kind in staged if name not in unseen}
        old = dict(columns_in(history))
        added, lost = new.keys() - old.keys(), old.keys() - new.keys()
        problems = [
            f"column {name} was {kind}, is {new[name]}"
            for name, kind in old.items()
            if name in new and new[name] != kind
        ]
        stored = {name.lower(): name for name in lost}
        cased = {name: stored[name.lower()] for name in sorted(added) if name.lower() in stored}
        problems += [f"column {name} is written {known} there" for name, known in cased.items()]
        moved = []
        if on_schema_change == "fail":
            moved += [f"column {name} is new" for name in sorted(added - cased.keys())]
        if on_schema_change in ("fail", "ignore"):
            moved += [f"column {name} is gone" for name in sorted(lost - {*cased.values()})]
        way = (
            "Run it with --full-refresh"
            if problems or not moved
            else "Run it with --full-refresh, or set on_schema_change"
        )
        problems += moved
        columns, left_out, rows = staged, set(), staging.render()
        if on_schema_change == "ignore":
            left_out = added
            columns = [pair for pair in staged if pair[0] not in left_out]
        elif on_schema_change == "append_new_columns":
            # of a row without its key or its place nobody knows what it changes
            needed = {name.lower() for name in self.declared_fold(model).placing_columns}
            kept = [name for name in old if name in lost and name.lower() not in needed]
            columns = [*staged, *([name, old[name]] for name in kept)]
            nulls = "".join(f", cast(null as {old[name]}) as {quoted(name)}" for name in kept)
            rows = f"(select *{nulls} from {staging.render()}) as fold__staged"
        if not problems:
            fold = self._bound(model, columns, left_out)
            signature = history.recorded(SIGNATURE_PROPERTY)
            problems = fold.changed_since(signature) if signature is not None else []
            problems += self._shows_forgotten(fold, history)
        if problems:
            lines = "".join(f"\n  - {problem}" for problem in problems)
            raise CompilationError(
                f"{model['name']}: what is stored doesn't fit its fold any more:{lines}\n{way}."
            )
        return Batch(fold, rows)

    def record_run(self, model: Node, fold: Fold | Zipper, replaces: bool) -> int:
        """Let the next commit say what it adds; the run's level.

        Args:
            replaces: whether it takes the place of all runs.
        """
        history = self.runs_history(model)
        plan = self._warehouse.inputs.plan(model["unique_id"])
        rows = None if replaces else plan.batch_rows
        if rows is None:
            rows = sum(read.rows or 0 for read in plan.reads.values())
        level = fold.level_of(rows)
        self._record(model, fold, level, [] if replaces else runs_in(history))
        self._record_rebuilding(REBUILT if replaces else range_half_rebuilt(history))
        if replaces and history.recorded(FORGOTTEN_PROPERTY):
            self._warehouse.set_snapshot_property(FORGOTTEN_PROPERTY, "")
        return level

    def _record(
        self, model: Node, fold: Fold | Zipper, level: int, other_runs: list[list[int]]
    ) -> None:
        columns = [[name, kind] for name, kind in fold.types.items()]
        for key, value in {
            LEVEL_PROPERTY: str(level),
            OTHER_RUNS_PROPERTY: json.dumps(other_runs, separators=(",", ":")),
            COLUMNS_PROPERTY: json.dumps(columns, separators=(",", ":")),
            SIGNATURE_PROPERTY: fold.signature(),
            READING_PROPERTY: hash_of_reading(self.declared_fold(model)),
        }.items():
            self._warehouse.set_snapshot_property(key, value)

    @staticmethod
    def _shows_forgotten(fold: Fold | Zipper, history: History) -> list[str]:
        was = history.recorded(FORGOTTEN_PROPERTY)
        if not was or was == fold.reading["keep_when"]:
            return []
        return [f"keys that keep_when hid were forgotten by a merge: it was {was!r} then"]

    def _record_rebuilding(self, value: str | None) -> None:
        if value is not None:
            self._warehouse.set_snapshot_property(REBUILDING_PROPERTY, value)

    def check_rebuilt(self, model: Node, history: History, asked: Given = None) -> None:
        """Look at whether a rebuild of a range of a zipper was stopped halfway.

        Args:
            history: of its runs.
            asked: the var `rebuild` of a run of the model, which may end it.

        Raises:
            CompilationError: it was, so that changes of the range may be there twice.
        """
        found = range_half_rebuilt(history)
        if found is not None and found != _range_text(asked):
            raise CompilationError(
                f"{model['name']}: a rebuild of a range of it was stopped halfway, and changes of "
                "the range may be there twice. Run it again with --vars "
                f"'{{\"rebuild\": {found}}}', or with --full-refresh."
            )

    def range_to_rebuild(self, model: Node, asked: Given) -> dict[str, str] | None:
        """Which of a zipper's changes a run has to rebuild, None where none.

        Args:
            asked: the var `rebuild`: {from, to}, the latter excluded, as texts of the time's type.

        Returns:
            {condition: SQL, on the changes' time; sequence: SQL, the columns that order them}.

        Raises:
            CompilationError: another value, or a model that isn't a zipper of SQL.
        """
        if asked is None:
            return None
        zipper = self.declared_fold(model)
        if not isinstance(zipper, Zipper) or model["language"] != "sql":
            raise CompilationError(
                f"{model['name']}: the var rebuild is for zippers that are SQL models alone; "
                "select one by its name, e.g. dbt run -s dim_product_price_zip"
            )
        if zipper.period == KNOWN_TIME:
            raise CompilationError(
                f"{model['name']}: the var rebuild isn't for beliefs, which are nowhere else: what "
                "was known can't be read from the log again; leave the model out with --exclude"
            )
        if isinstance(zipper, PartialZipper) and zipper.groups:
            raise CompilationError(
                f"{model['name']}: the var rebuild isn't for zippers with sequence groups, whose "
                "changes have no common order; run the model with --full-refresh"
            )
        if not isinstance(asked, Mapping) or asked.keys() != {"from", "to"}:
            raise CompilationError(
                f"{model['name']}: the var rebuild must be {{from: .., to: ..}}, got {asked!r}. "
                "Example: --vars 'rebuild: {from: 2026-03-01 16:00:00, to: 2026-03-02 16:00:00}'"
            )
        kind = dict(columns_in(self.runs_history(model)))[zipper.time]
        first, end = (f"cast({literal(str(asked[end]))} as {kind})" for end in ("from", "to"))
        if self._is_empty(first, end):
            raise CompilationError(
                f"{model['name']}: the var rebuild names no time: `to` must lie behind `from` and "
                f"is no part of the range, got {asked!r}. Nothing was rebuilt"
            )
        time = quoted(zipper.time)
        return {
            "condition": f"{time} >= {first} and {time} < {end}",
            "sequence": ", ".join(map(quoted, zipper.sequence)),
        }

    def _is_empty(self, first: str, end: str) -> bool:
        """Whether no time lies between two times, which are SQL."""
        (holds,) = self._warehouse.session().sql(f"select {first} < {end}").first()
        return holds is not True

    def record_rebuilt_run(
        self, model: Node, fold: Zipper, asked: Given, level: int | None = None
    ) -> int:
        """The level of a run that takes the place of others' changes: below all of theirs, until
        it is merged with them. The next commit records it.

        Args:
            asked: the var `rebuild`.
            level: the level that was found before; None to find it.
        """
        runs = runs_in(self.runs_history(model))
        self._record_rebuilding(_range_text(asked) if level is None else REBUILT)
        if level is None:
            level = min([0, *(depth for depth, _ in runs)]) - 1
        self._record(model, fold, level, runs)
        return level

    def run_count(self, model: Node) -> int:
        """How many runs the model's table holds."""
        return len(runs_in(self.runs_history(model)))

    def record_compaction(self, model: Node, everything: bool) -> Json | None:
        """What has to be merged: {fold, level: it and those below it, into, whole}, or None.

        Lets the next commit record it.

        Args:
            everything: whether all runs are to become one.
        """
        history = self.runs_history(model)
        runs = runs_in(history)
        fold = self.stored_fold(model, history)
        level = fold.level_to_compact(runs)
        if everything and len(runs) > 1:
            level = max(depth for depth, _ in runs)
        if level is None:
            return None
        others = [run for run in runs if run[0] > level]
        into = fold.level_of(sum(rows for depth, rows in runs if depth <= level))
        self._record(model, fold, into, others)
        self._record_rebuilding(range_half_rebuilt(history))
        if not others and fold.forgotten_by is not None:
            self._warehouse.set_snapshot_property(FORGOTTEN_PROPERTY, fold.forgotten_by)
        self._warehouse.set_snapshot_property(COMPACTED_PROPERTY, "true")
        return {"fold": fold, "level": level, "into": into, "whole": not others}

    def merge_statement(self, merge: Settings, runs: Given) -> str:
        """SQL that makes one run of those that record_compaction names.

        Args:
            runs: the table of runs.
        """
        fold, level, table = merge["fold"], merge["level"], runs.render()
        columns = [
            column
            for column in self._warehouse.get_columns_in_relation(runs)
            if column.name != LEVEL
        ]
        merged = fold.merged(table, level, merge["whole"])
        return (
            f"insert into {table} replace where {LEVEL} <= {level}\n"
            f"{fold.written(f'({merged}) as fold__merged', merge['into'], columns)}"
        )

    def group_reads(self) -> None:
        """Let the session read bucketed tables bucket by bucket, until the node ends."""
        for key, value in GROUPED_READS.items():
            self._warehouse.session().conf.set(key, value)

    def rendered_for_rebuild(self, model: Node, context: Context) -> str:
        """The model's SQL once more, as it reads when all runs are rebuilt."""
        self.rebuild(model)
        # here, as dbt's compiler imports adapters itself
        from dbt.compilation import inject_ctes_into_sql
        from dbt.contracts.graph.nodes import InjectedCTE

        # what dbt put in front of the model's SQL; ephemeral models read nothing as new
        ctes = [
            InjectedCTE(extra_cte["id"], extra_cte["sql"])
            for extra_cte in model.get("extra_ctes") or []
        ]
        compiled = context.get("sql")
        context["sql"] = None  # it is compiled again: its bare references are pinned, see there
        try:
            sql = render_template(get_template(model["raw_code"], context), context)
        finally:
            context["sql"] = compiled
        return sql if not ctes else inject_ctes_into_sql(sql, ctes)

    def rebuild(self, model: Node) -> None:
        """Let the model read its inputs as when all runs are rebuilt."""
        self._warehouse.inputs.note(model["unique_id"], rebuilds=True)

    def stored_sql(self, model: Node) -> str:
        """Query of the rows that readers of the model see, over its table of runs as it is."""
        history = self.runs_history(model)
        fold = self.stored_fold(model, history)
        return fold.folded(stored_table_of(model), len(runs_in(history)))

    def check_reading(self, fold: Fold | Zipper, state: Foreign) -> None:
        """Let Spark say now, before a run is written, what would keep it from being read."""
        self._warehouse.session().sql(fold.folded(state.render(), run_count=2))

    def is_declared_otherwise(self, model: Node) -> bool:
        """Whether the model is declared differently than at its last commit: what is stored doesn't
        fit, which its next batch refuses, or readers see other rows of it, which a commit has to
        say, or who follows the model would never learn."""
        history = self.runs_history(model)
        reading, stored = (
            history.recorded(property_name)
            for property_name in (READING_PROPERTY, SIGNATURE_PROPERTY)
        )
        if reading not in (None, hash_of_reading(self.declared_fold(model))):
            return True
        fold = self.stored_fold(model, history)
        differs = stored is not None and bool(fold.changed_since(stored))
        return differs or bool(self._shows_forgotten(fold, history))

    def declared_otherwise(self, node: Node, history: History, first: int, last: int) -> bool:
        """Whether a folded model was declared differently at its commit `first` than at `last`, so
        that what is stored at the first commit can't be read as it was any more."""

        def differs(key: str, differences: Foreign) -> bool:
            old, new = (history.at(snapshot).recorded(key) for snapshot in (first, last))
            return old is not None and new is not None and bool(differences(old, new))

        differences = self.declared_fold(node).differences
        return differs(READING_PROPERTY, operator.ne) or differs(SIGNATURE_PROPERTY, differences)

    def reads_otherwise(self, view: Foreign, sql: str) -> bool:
        """Whether a view isn't there or its text isn't this query: what its model declares has
        changed, or its last run stopped before it wrote the view."""
        if view is None:
            return True
        (text,) = self._warehouse.session().sql(f"show create table {view.render()}").first()
        return "".join(sql.split()) not in "".join(text.split())

    def folded_sql(self, node: Node, history: History, reading: str) -> str:
        """SQL text, for a `from`, of a folded model's rows as its runs were at a snapshot.

        Args:
            history: with that snapshot as its head.
            reading: SQL text for a `from`: the runs at it.
        """
        fold = self.stored_fold(node, history)
        return f"(\n{fold.folded(reading, len(runs_in(history)))}\n)"

    def stored_fold(self, node: Node, history: History) -> Fold | Zipper:
        """The model's fold over the columns that its runs had at the history's head."""
        fold, columns = self.declared_fold(node), columns_in(history)
        named = {name for name, _ in columns}
        of_rows = [*columns, *map(list, fold.unseen_columns.items())]
        return self._bound(node, of_rows, fold.named_columns() - named)
