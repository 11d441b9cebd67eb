"""What changed in a model between two of its versions, as retract rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Context, Foreign, Given, Json, Node
from dbt.adapters.sparksession.iceberg.history import History
from dbt.adapters.sparksession.iceberg.partitions import touched_partitions
from dbt.adapters.sparksession.keyed.fitting import check_fits
from dbt.adapters.sparksession.keyed.keys import declared_key
from dbt.adapters.sparksession.keyed.tables import (
    FOLDED,
    KeyedTables,
    columns_in,
    only_adds_runs,
    stored_table_of,
)
from dbt.adapters.sparksession.read_plans import ReadPlan, gives_new_rows
from dbt.adapters.sparksession.reading.commits import sharing
from dbt.adapters.sparksession.reading.definitions import (
    ACCEPT_VAR,
    ADDS_ALL,
    MERGING,
    PARTIAL_RUNS,
)
from dbt.adapters.sparksession.reading.news import ADDING, check_news_of, check_news_strategy
from dbt.adapters.sparksession.reading.ranges import ColumnRanges, values_of
from dbt.adapters.sparksession.reading.retract_sql import (
    ROW_KIND,
    SIGN,
    changed_keys,
    changed_rows,
    same_rows,
)
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.reading.taken_back import TakenBack
from dbt.adapters.sparksession.reading.view_marks import statement_of
from dbt.adapters.sparksession.sql import is_absent, literal, quoted
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.exceptions import CompilationError

# strategies under which rows that are read again take the place of what was made of them
REPLACING_STRATEGIES = ("replace_all", "replace_partitions", "replace_windows", "microbatch")
OVERWRITING = "insert_overwrite"  # the partitions that its query gives take the place of others


@dataclass(frozen=True)
class KeyOfChanges:
    """By which columns changes are found.

    Attributes:
        by: a column or columns; None for those of the relation's unique_key.
        alone: nothing but they is read of the changes, and some may be of rows that are as they
            were: what a folded model's new rows hold needs no comparison then.
    """

    by: Given
    alone: bool = False


class ChangeReads:
    """Reads what changed between two versions of a table."""

    def __init__(
        self,
        warehouse: Warehouse,
        keyed: KeyedTables,
        ranges: ColumnRanges,
        reads: TableReads,
        taken_back: TakenBack,
    ) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._ranges = ranges
        self._reads = reads
        self._taken_back = taken_back

    def new_changes(
        self,
        model: Node,
        relation: Relation,
        by: Given,
        incremental: bool,
        context: Context,
        keys_only: bool = False,
    ) -> Relation:
        """`relation`, to be read as the changes since the model's last commit.

        All rows as +I where the model is rebuilt, or reads the relation for the first time.

        Args:
            by, keys_only: see KeyOfChanges.
        """
        if self._warehouse.credentials.offline:
            return relation
        writes, key = self._ranges.writes(context["flags"]), KeyOfChanges(by, keys_only)
        return self._new_changes(model, relation, key, incremental, context, writes)

    def read_new_changes(self, model: Node, table: str, by: Given, incremental: bool) -> Foreign:
        """DataFrame of the same, for a Python model, of `table` (schema.name)."""
        graph = self._warehouse.manifest().flat_graph
        relation = self._warehouse.original_of(self._warehouse.relation_of(table), graph)
        node = self._warehouse.node_of(relation, graph)
        is_view = node is not None and node["config"]["materialized"] == "view"
        if is_view or (node is None and self._warehouse.is_view(relation)):
            raise CompilationError(
                f"new_changes: {table} is a view, and a Python model reads the changes of tables "
                "and folded models only. Take them of the table below the view."
            )
        context = {"graph": graph}
        key = KeyOfChanges(by)
        reading = self._new_changes(model, relation, key, incremental, context, writes=True)
        return self._warehouse.session().sql(f"select * from {reading.render()}")

    def _new_changes(
        self,
        model: Node,
        relation: Relation,
        key: KeyOfChanges,
        incremental: bool,
        context: Context,
        writes: bool,
    ) -> Relation:
        check_news_of(model, "new_changes")
        inputs, model_id = self._warehouse.inputs, model["unique_id"]
        inputs.note_news(model_id, is_asked=True)
        check_news_strategy(model, "new_changes")
        node = self._warehouse.node_of(relation, context["graph"])
        kind = node["config"]["materialized"] if node is not None else "table"
        has_kind = kind != "view" and ROW_KIND in self.columns_at(relation.name_only.render())
        if has_kind and kind == FOLDED:
            raise CompilationError(
                f"new_changes: {relation.name_only.render()} has a column {ROW_KIND}, which each "
                "of its changes has too; give its own column another name, or list it in "
                "fold.hidden_columns."
            )
        if has_kind or kind == "view":
            reading = self._reads.read_news(model, relation, incremental, context)
            if reading.is_rewrite:
                inputs.note_news(model_id, is_replayed=True)
            rows = self._as_changes(relation.replace(read_by_default=None, reading=reading.text))
            inputs.note_news_text(model_id, rows.render())
            return rows
        inputs.note_relation(model_id, f"{relation.schema}.{relation.identifier}")
        stored = self._stored_relation(relation, node)
        reading = self._reads.read_table(model, stored, "all")
        by_partition = inputs.plan(model_id).by_partition.with_added(stored.render())
        plan = inputs.note(model_id, by_partition=by_partition)
        if not reading.reads:
            return self._of_no_commit(model_id, relation, stored)
        (read,) = reading.reads
        history = self._warehouse.input_history(read.table)
        if node is not None and kind == FOLDED:
            self._keyed.check_rebuilt(node, history.at(read.pinned))
            check_fits(self._keyed, node, history.at(read.pinned))
        first = None if plan.rebuilds or not incremental else read.recorded
        if first is not None and (
            first not in history.snapshots
            or history.has_moved_columns(first, read.pinned)
            # what is taken back would lack the column that it was given with
            or history.has_lost_columns(first, read.pinned)
            or (
                node is not None
                and kind == FOLDED
                and self._keyed.declared_otherwise(node, history, first, read.pinned)
            )
        ):
            inputs.note_news(model_id, reads_whole=True, is_replayed=True)
            first = None
        elif (
            first is None
            and incremental
            and not plan.rebuilds
            and plan.own is not None
            and plan.own.history.head is not None
        ):
            # what it holds may come of this input under another name
            inputs.note_news(model_id, reads_whole=True, is_replayed=True)
        inputs.note_news(model_id, asks_ranges=writes)
        changes = self._changes(model_id, relation, node, history, first, read.pinned, key=key)
        text = changes.render()
        inputs.note_news_text(model_id, text, may_remove="'-D'" in text, of_table=first is not None)
        return changes

    def _of_no_commit(self, model_id: str, relation: Relation, stored: Relation) -> Relation:
        """What changed in a table without a commit: its rows, once it has some. Where there is no
        table at all, Spark reports that.

        Args:
            stored: the table that holds the relation's rows.

        Raises:
            CompilationError: it is a view that isn't of the project.
        """
        known = self._warehouse.get_relation(None, stored.schema, stored.identifier)
        if known is None:
            return relation
        if known.type == "view":
            raise CompilationError(
                f"new_changes: {stored.render()} is a view that isn't of the project, so what "
                "changed in it is unknown; take the changes of the table below it, or make the "
                "view a model."
            )
        rows = self._as_changes(relation.replace(read_by_default=None, reading=stored.render()))
        self._warehouse.inputs.note_news_text(model_id, rows.render())
        return rows

    def changes_between(
        self,
        model: Node,
        relation: Relation,
        first: Given,
        last: Given,
        by: Given,
        context: Context,
    ) -> Relation:
        """`relation`, to be read as the changes from one of its snapshots to another.

        Args:
            first: snapshot id; None for an empty table, so that all rows are +I.
            last: snapshot id; None for the newest.
            by: columns of the key; None for those of its unique_key.

        Raises:
            CompilationError: a snapshot that the table doesn't know.
        """
        if self._warehouse.credentials.offline:
            return relation
        node = self._warehouse.node_of(relation, context["graph"])
        table = self._stored_relation(relation, node).render()
        history = self._warehouse.history(table)
        unknown = [
            snapshot
            for snapshot in (first, last)
            if snapshot is not None and snapshot not in history.snapshots
        ]
        if unknown:
            raise CompilationError(
                f"changes_between: {table} has no snapshot {unknown[0]}; it may have expired. "
                f"select snapshot_id, committed_at from {table}.snapshots lists them."
            )
        end, model_id = last or history.head, model["unique_id"]
        if node is not None and node["config"]["materialized"] == FOLDED:
            for snapshot in filter(None, (first, end)):
                check_fits(self._keyed, node, history.at(snapshot))
        key = KeyOfChanges(by)
        return self._changes(model_id, relation, node, history, first, end, key=key)

    def replaces_all_rows(self, model: Node, plan: ReadPlan, strategy: str, sql: str) -> bool:
        """Whether what is stored gives way to what the model makes of all rows of its inputs: of an
        input it can't read the new rows or changes alone any more. A model that leaves out what it
        has (unseen_rows) adds to its rows all the same; windows that are touched are found among
        all rows anyway.

        Args:
            sql: the query of the rows that are written.
        """
        # such a model keeps what may be nowhere else any more
        keeps = model["config"].get("full_refresh") is False
        if strategy == "append_new_rows" and plan.news.reads_whole and not keeps:
            return True
        # a typed table leaves out by itself what it holds, and takes a correction in its place
        is_typed = "source" in (model["config"].get("meta") or {})
        if plan.news.tolerates_replay or plan.rebuilds or is_typed:
            return False
        if plan.news.reads_whole and strategy not in REPLACING_STRATEGIES:
            if not keeps:
                return True
            self.check_keeps(model, plan, strategy)
        if not model["config"].get(PARTIAL_RUNS):
            if strategy == MERGING and self._taken_back.is_of_merge(model, plan, sql):
                return True
            adds = strategy in ADDING and model["language"] == "sql"
            if adds and not keeps and self._taken_back.is_of_log(model, plan, sql):
                return True
        return plan.news.is_replayed and strategy != "replace_windows"

    def check_keeps(self, model: Node, plan: ReadPlan, strategy: str = "") -> None:
        """A model that keeps its rows (full_refresh: false) reads all rows of an input: one that
        was rewritten, or one that it reads for the first time and may know under another name.

        Args:
            strategy: of an incremental model.

        Raises:
            CompilationError: all its rows would be added again, or take the place of those that
                are kept.
        """
        newest = plan.own.history.newest if plan.own is not None else None
        if plan.own is None or newest is None or not newest.count("total-records"):
            return
        asked = plan.by_partition.added & plan.reads.keys()
        known = sorted(table for table in asked if plan.reads[table].recorded is not None)
        rewritten = [
            table for table in known if not gives_new_rows(plan.reads[table].commits, keeps=True)
        ]
        is_meant = model["config"].get(PARTIAL_RUNS) or model["config"].get(ADDS_ALL)
        if rewritten and is_meant and plan.news.is_replayed:
            raise CompilationError(
                f"{model['name']}: what changed in {', '.join(rewritten)} since its last commit "
                "can't be known any more, and each row would come again beside those that it keeps "
                "(full_refresh: false); to make it again, set full_refresh=true for a run."
            )
        if rewritten and not is_meant and strategy not in (MERGING, OVERWRITING):
            raise CompilationError(
                f"{model['name']}: rows of {', '.join(rewritten)} have changed since its last "
                "commit, so that all rows would be read again, beside those that the model keeps "
                "(full_refresh: false); read what changed by new_changes(..), or, if each run's "
                f"rows are meant by themselves, set {PARTIAL_RUNS}=true in its config."
            )
        # where every input that it has read is still read, the others are tables that are new
        if not plan.own.reads_no_more(plan.reads.values()):
            return
        names = self._warehouse.config.cli_vars.get(ACCEPT_VAR) or []
        if model["name"] in ([names] if isinstance(names, str) else names):
            return
        unread = sorted(table for table in asked if plan.reads[table].recorded is None)
        if unread:
            raise CompilationError(
                f"{model['name']}: no commit of it has read {', '.join(unread)}, of which all rows "
                "would be added to those that it keeps (full_refresh: false); where it read them "
                "under another name, give the input that name back by alias= and schema=, else run "
                f"it once with --vars '{ACCEPT_VAR}: [{model['name']}]'."
            )

    def rendered_as_first(self, model: Node, context: Context) -> str:
        """The model's SQL once more, as it reads when it is built for the first time."""
        # macros look it up here as well
        is_incremental = context["is_incremental"]
        context["is_incremental"] = lambda: False
        try:
            return self._keyed.rendered_for_rebuild(model, context)
        finally:
            context["is_incremental"] = is_incremental

    def _as_changes(self, rows: Relation) -> Relation:
        """The new rows of a relation as retract rows: where it doesn't say what a row is, it was
        added.

        Raises:
            CompilationError: of its rows only a sign is known.
        """
        try:
            columns = self.columns_at(rows.render())
        except Exception as exc:
            if not is_absent(exc):
                raise
            return rows  # Spark will report it, once it is read
        if ROW_KIND in columns and SIGN in columns:
            return rows
        if SIGN in columns:
            raise CompilationError(
                f"new_changes: {rows.name_only.render()} has a column {SIGN} but no {ROW_KIND}, "
                "and changes have both or get both; give it a row_kind (+I, -U, +U, -D), or "
                "another name for its sign."
            )
        # a column of the data that has this name by chance
        wrong = literal(
            f"{rows.name_only.render()}: its column {ROW_KIND} has to hold +I, -U, +U or -D; where "
            "it is a column of the data, give it another name in a table or keyed table of the "
            "rows, and read the changes of that. Got "
        )
        kind_and_sign = (
            f"case when {ROW_KIND} in ('+I', '+U') then 1 when {ROW_KIND} in ('-U', '-D') then -1 "
            f"else raise_error(concat({wrong}, coalesce(cast({ROW_KIND} as string), 'null'))) "
            f"end as {SIGN}"
        )
        if ROW_KIND not in columns:
            kind_and_sign = f"'+I' as {ROW_KIND}, 1 as {SIGN}"
        return rows.replace(reading=f"(\nselect *, {kind_and_sign} from {rows.render()}\n)")

    def _stored_relation(self, relation: Relation, node: Node | None) -> Relation:
        if node is None or node["config"]["materialized"] != FOLDED:
            return relation.name_only
        return self._warehouse.relation_of(stored_table_of(node))

    def _changes(
        self,
        model_id: str,
        relation: Relation,
        node: Node | None,
        history: History,
        first: int | None,
        last: int | None,
        *,
        key: KeyOfChanges,
    ) -> Relation:
        by = [key.by] if isinstance(key.by, str) else key.by
        if node is not None and node["config"]["materialized"] == FOLDED:
            keys = by if key.alone else None
            sql = self.folded_changes(model_id, node, history, first, last, keys)
        else:
            own = declared_key(node) if node is not None else None
            table = relation.name_only.render()
            sql = self.table_changes(model_id, table, history, first, last, by or own)
        return relation.replace(reading=f"(\n{sql}\n)")

    def folded_changes(
        self,
        model_id: str,
        node: Node,
        history: History,
        first: int | None,
        last: int | None,
        keys: Sequence[str] | None = None,
    ) -> str:
        """Query of what changed in a folded model: of the keys that its new runs hold.

        Args:
            keys: columns; where they are of its key, only they are given, and uncompared.
        """
        table = stored_table_of(node)
        after = f"{table} version as of {last}"
        if first is None:
            whole = self._keyed.folded_sql(node, history.at(last), after)
            return f"select *, '+I' as row_kind, 1 as sign from {whole}"
        before = f"{table} version as of {first}"
        commits = history.between(first, last)
        fold = self._keyed.declared_fold(node)
        if first == last:
            commits, after = [], before
        adds_only = commits is not None and only_adds_runs(commits)
        if adds_only and self._warehouse.inputs.may_read_range(model_id, table, first, last):
            names = ", ".join(map(quoted, fold.touched_key))
            # over compactions such a read passes without a word, which is what is wanted here
            appended = (
                f"select distinct {names} from {table} with "
                f"(`start-snapshot-id` = '{first}', `end-snapshot-id` = '{last}')"
                if commits
                else f"select {names} from {before} limit 0"
            )
            if keys is not None and {*keys} <= {*fold.touched_key}:
                return f"select distinct {', '.join(map(quoted, keys))} from ({appended})"
            near = "true"
            if commits and self._warehouse.inputs.plan(model_id).news.asks_ranges:
                kinds = dict(columns_in(history.at(last)))
                wanted = [
                    values_of(name, kinds[name], column=f"held.{quoted(name)}")
                    for name in fold.touched_key
                ]
                near = self._ranges.pruning_condition(f"({appended})", wanted)["condition"]
            before, after = (
                sharing(state, appended, fold.touched_key, near) for state in (before, after)
            )
        # the columns are those of the newer state: an older state has no others of that name
        old = self._keyed.folded_sql(node, history.at(first), before)
        new = self._keyed.folded_sql(node, history.at(last), after)
        return self.compared(old, new, fold.reader_key)

    def table_changes(
        self,
        model_id: str,
        table: str,
        history: History,
        first: int | None,
        last: int | None,
        by: Sequence[str] | None,
    ) -> str:
        after = f"{table} version as of {last}"
        if first is None:
            return f"select *, '+I' as row_kind, 1 as sign from {after}"
        commits = history.between(first, last)
        if first == last:
            return f"select *, '+I' as row_kind, 1 as sign from {after} limit 0"
        adds_only = commits is not None and all(commit.adds_only for commit in commits)
        if adds_only and self._warehouse.inputs.may_read_range(model_id, table, first, last):
            return (
                f"select *, '+I' as row_kind, 1 as sign from {table} with "
                f"(`start-snapshot-id` = '{first}', `end-snapshot-id` = '{last}')"
            )
        before = f"{table} version as of {first}"
        if commits is not None:
            _, condition = touched_partitions(commits, self.kinds_at(before))
            before = f"(select * from {before} where {condition})"
            after = f"(select * from {after} where {condition})"
        return self.compared(before, after, by)

    def compared(self, before: str, after: str, key: Sequence[str] | None) -> str:
        """Query of the changes between two states; a column that one lacks is null in it."""
        kinds, known = self.kinds_at(after), self.columns_at(before)
        columns = list(kinds)
        parts = ", ".join(
            quoted(name) if name in known else f"null as {quoted(name)}" for name in columns
        )
        old = before if known == columns else f"(select {parts} from {before})"
        if not key:
            return changed_rows(old, after, columns)
        return changed_keys(old, after, columns, key, same=same_rows(kinds))

    def columns_at(self, reading: str) -> list[str]:
        return list(self.kinds_at(reading))

    def kinds_at(self, reading: str) -> Json:
        """Column -> type."""
        schema = (
            self._warehouse.session().sql(statement_of(f"select * from {reading} limit 0")).schema
        )
        return {field.name: field.dataType for field in schema}
