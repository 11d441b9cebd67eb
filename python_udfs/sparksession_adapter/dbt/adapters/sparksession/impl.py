"""The adapter: what dbt and the macros ask of Spark and Iceberg."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from dbt.adapters.base import PythonJobHelper
from dbt.adapters.base.meta import available
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark import SparkAdapter, SparkColumn, SparkRelation
from dbt.adapters.sparksession.connections import SparkSessionConnectionManager
from dbt.adapters.sparksession.declared.business_time import (
    DAY_COLUMN,
    takes_all_columns,
    utc_hours,
)
from dbt.adapters.sparksession.declared.joins import JoinModels
from dbt.adapters.sparksession.declared.key_filters import KeyFilters
from dbt.adapters.sparksession.declared.streams import StreamModels
from dbt.adapters.sparksession.declared.windows import WindowModels
from dbt.adapters.sparksession.flags import CutRuns, is_empty_run
from dbt.adapters.sparksession.iceberg.history import (
    MODEL_PROPERTY,
    SNAPSHOT_READ,
    TABLE_PROPERTY,
    History,
    Snapshot,
    kept_histories,
)
from dbt.adapters.sparksession.iceberg.metadata import loaded, metadata, put_to_now
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.interrupts import Interrupts
from dbt.adapters.sparksession.keyed.tables import (
    FOLDED,
    RUNS_SUFFIX,
    FoldedTables,
    stored_table,
    stored_table_of,
)
from dbt.adapters.sparksession.listed_models import ListedModels
from dbt.adapters.sparksession.progress import Progress
from dbt.adapters.sparksession.python_models import SessionJobHelper, find_code_of, result_view
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.default_reads import (
    DefaultReads,
    as_named,
    check_news_of,
    is_live,
    unrecorded_reads,
)
from dbt.adapters.sparksession.reading.definitions import Definitions, goes_by_clock
from dbt.adapters.sparksession.reading.inputs import (
    COUNTED_PROPERTY,
    INPUT_PROPERTY,
    PROPERTY_SETTING,
    Inputs,
    Read,
    sql_mark,
)
from dbt.adapters.sparksession.reading.microbatch import (
    Microbatches,
    called_macros,
    is_microbatch,
    microbatch_problem,
)
from dbt.adapters.sparksession.reading.named_reads import NamedReads
from dbt.adapters.sparksession.reading.partition_reads import PartitionReads, check_news_strategy
from dbt.adapters.sparksession.reading.ranges import ColumnRanges
from dbt.adapters.sparksession.reading.view_marks import Readings, without_marks
from dbt.adapters.sparksession.session import is_remote, let_go, own_session
from dbt.adapters.sparksession.sql import NO_SCHEMA, is_absent
from dbt.adapters.sparksession.versions.copies import Copies
from dbt.adapters.sparksession.versions.maintenance import Maintenance
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.publications import Publications
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.recovery import Recovery
from dbt.flags import get_flags
from dbt_common.clients.jinja import get_template, render_template
from dbt_common.exceptions import CompilationError, DbtRuntimeError
from dbt_common.invocation import get_invocation_id

logger = AdapterLogger("Spark")

DECLARED_PROPERTY = "dbt.declared"  # hash of what a seed or snapshot was declared as
# materializations that are read by their own SQL over what they stand on. Of an ephemeral model a
# table may be left from a time when it was stored
WITHOUT_TABLE = {"view": "a view", "ephemeral": "an ephemeral model"}


@dataclass(frozen=True, eq=False, repr=False)
class SparkSessionRelation(SparkRelation):
    """A relation; with `reading`, the SQL text that stands for it in a `from`.

    Attributes:
        reading: e.g. "dw.orders version as of 42"; None: the relation's own name.
        as_of: number or tag of the version that is read, by the var as_of_version.
        read_by_default: function that gives the SQL text where nothing asks for another reading,
            see DefaultReads; called once the text is wanted. None: there is none.
    """

    is_iceberg: bool | None = True
    reading: str | None = None
    as_of: str | None = None
    read_by_default: Any = None
    # the adapter's, (version, name) -> query
    text_as_of: ClassVar[Callable[[str, str], str | None]]

    def __post_init__(self) -> None:
        super().__post_init__()
        # dbt-spark replaces an iceberg relation in place, which a view can't be
        object.__setattr__(self, "is_iceberg", self.type != "view")

    @classmethod
    def create_from(cls, quoting: Any, relation_config: Any, **kwargs: Any) -> Any:
        if is_empty_run():  # nothing is written that its limit could be for, see flags.py
            kwargs["limit"] = None
        relation = super().create_from(quoting, relation_config, **kwargs)
        as_of = getattr(quoting, "cli_vars", {}).get("as_of_version")
        return relation if as_of is None else relation.replace(as_of=str(as_of))

    def render(self) -> str:
        if self.reading is not None:
            return self.reading
        if self.read_by_default is not None:
            return self.read_by_default()
        name = super().render()
        text = None if self.as_of is None else type(self).text_as_of(self.as_of, name)
        return name if text is None else f"(\n{text}\n)"

    @property
    def name_only(self) -> SparkSessionRelation:
        if self.reading is None and self.as_of is None and self.read_by_default is None:
            return self
        return self.replace(reading=None, as_of=None, read_by_default=None)


def _appended(table: str, first: Any, last: Any) -> str:
    """SQL text, for a `from`, of the rows appended after snapshot `first` up to `last`."""
    return (
        f"(select * from {table} with "
        f"(`start-snapshot-id` = '{first}', `end-snapshot-id` = '{last}'))"
    )


def _added_rows(table: str, commits: list[Snapshot]) -> str:
    """SQL text of the rows that the newest commits added, `commits` being newest first; of all
    rows where one of them made the table or did more than add."""
    first = commits[-1].parent if commits else None
    if first is None or not all(commit.adds_only for commit in commits):
        return table
    return _appended(table, first, commits[0].id)


def _last_read(own: History, table: str, stored: str) -> str | None:
    """The snapshot of `table` that a model's rows are made of, by its commits.

    None where it has read the table of that name in another schema since, as with --defer it may:
    its rows are made of that one now.

    Args:
        own: the model's commits.
        stored: schema.name of the table that holds its rows.
    """
    name = table.rpartition(".")[2]
    for commit in own.ancestry(own.head):
        if commit.summary.get(TABLE_PROPERTY, stored) != stored:
            continue
        if INPUT_PROPERTY + table in commit.summary:
            return commit.summary[INPUT_PROPERTY + table]
        if any(
            key.startswith(INPUT_PROPERTY) and key.rpartition(".")[2] == name
            for key in commit.summary
        ):
            return None
    return None


def _commits_of_run(history: History) -> list[Snapshot]:
    """The newest commits, newest first, as far as this run made them."""
    run = get_invocation_id()
    line = history.ancestry(history.head)
    return list(itertools.takewhile(lambda one: one.summary.get("dbt.run") == run, line))


def _cell_text(cell: Any) -> str | None:
    if cell is None:
        return None
    # `1e3` reads as Decimal("1E+3"), which Spark casts to no whole number
    return f"{cell:f}" if isinstance(cell, Decimal) else str(cell)


class _ConfigOf:
    """`config` in the SQL of a view that is rendered for another node: what it sets is known."""

    def __init__(self, config: dict) -> None:
        self._config = config

    def __call__(self, *_: Any, **__: Any) -> str:
        return ""

    def get(self, name: str, default: Any = None) -> Any:
        return self._config.get(name, default)


class SparkSessionAdapter(
    FoldedTables,
    DefaultReads,
    NamedReads,
    Definitions,
    ChangeReads,
    JoinModels,
    WindowModels,
    StreamModels,
    KeyFilters,
    PartitionReads,
    ColumnRanges,
    Versions,
    Maintenance,
    Publications,
    Copies,
    Recovery,
    Place,
    CutRuns,
    Microbatches,
    ListedModels,
    Interrupts,
    SparkAdapter,
):
    Relation = SparkSessionRelation
    ConnectionManager = SparkSessionConnectionManager

    def __init__(self, config: Any, mp_context: Any) -> None:
        # plain attribute, not a profile key: relative paths count from the project. `dbt debug`
        # gives the profile alone
        root = getattr(config, "project_root", None) or get_flags().PROJECT_DIR
        config.credentials.project_root = str(root)
        super().__init__(config, mp_context)
        self.inputs = Inputs()

    # ---- Python models -------------------------------------------------------------------

    @property
    def default_python_submission_method(self) -> str:
        return "session"

    @property
    def python_submission_helpers(self) -> dict[str, type[PythonJobHelper]]:
        helper: Any = functools.partial(SessionJobHelper, adapter=self)
        return {"session": helper}

    def read_pinned(self, model: dict, table: str) -> Any:
        """DataFrame of `table` (schema.name) as of the run's pinned snapshot; of a view its own
        query over pinned tables."""
        relation = self._relation_of(table)
        context = self.inputs.of(model["unique_id"]).context
        reading = self._read(model, relation, "all", context)
        return self._session().sql(f"select * from {reading.render()}")

    @available
    def note_context(self, model: dict, context: dict) -> None:
        """Keep the context that a Python model's views are rendered in, until it has read them."""
        self.inputs.of(model["unique_id"]).context = context

    def read_new_rows(self, model: dict, table: str, incremental: bool) -> Any:
        """DataFrame of what `table` got since the model's last commit; all of it when not
        incremental."""
        check_news_strategy(model, "new_rows")
        relation = self._relation_of(table)
        known = self.get_relation(None, relation.schema, relation.identifier)
        if known is not None and known.type == "view":
            raise CompilationError(
                f"new_rows: {table} is a view, and a Python model reads the new rows of tables "
                "only. Take them of the table below the view."
            )
        reading = self._read_table(model, relation, "new" if incremental else "all")
        return self._session().sql(f"select * from {reading}")

    def recorded_property(self, model: dict, key: str) -> str | None:
        """What the newest of the model's commits that speaks of `key` says."""
        table = stored_table_of(model)
        return self.history(table).recorded(key, table)

    def own_rows_since(self, model: dict, key: str) -> Any:
        """DataFrame of the rows that the model's commits added, from the newest one on that
        speaks of `key`. Where commits since then did more than add: the rows as they were at that
        one and as they are now, so that no row is missing which somebody has deleted."""
        table = stored_table_of(model)
        history = self.history(table)
        added: list[Snapshot] = []
        for commit in history.ancestry(history.head):
            added.append(commit)
            if key in commit.summary:
                break
        rows = _added_rows(table, added)
        only_added = all(commit.adds_only for commit in added)
        if added and key in added[-1].summary and not only_added:
            rows = (
                f"(select * from {table} version as of {added[-1].id} "
                f"union all select * from {table} version as of {history.head})"
            )
        return self._session().sql(f"select * from {rows}")

    def set_snapshot_property(self, key: str, value: str) -> None:
        """Let the node's next commit carry key = value."""
        self._session().conf.set(PROPERTY_SETTING + key, value)

    def _session(self) -> Any:
        return own_session(self.config.credentials).session

    def _loaded(self, table: str) -> Any:
        """Iceberg's own object of `table` (schema.name); None on a remote session."""
        return loaded(self._session(), self.config.credentials.catalog, table)

    def let_write(self, table: str) -> None:
        """Before a table is written: it lies in this warehouse, and a clock that was wrong doesn't
        keep it from being written.

        Raises:
            ForeignTableError: it lies elsewhere.
        """
        try:
            found = self._loaded(table)
        except Exception as exc:
            if not is_absent(exc):
                raise
            return
        if found is None:  # a remote session
            return
        self.check_files(table, found)
        ahead = put_to_now(self._session(), found)
        if ahead:
            logger.warning(
                f"{table}: its newest commit was dated {ahead:,.0f} s ahead of this machine's "
                "clock, which was wrong then or is now. It is dated now, so that the table can be "
                "written."
            )

    def _relation_of(self, table: str) -> SparkSessionRelation:
        schema, _, identifier = table.rpartition(".")
        return self.Relation.create(schema=schema, identifier=identifier)

    # ---- pinned inputs -------------------------------------------------------------------

    def history(self, table: str) -> History:
        """All snapshots of `table` (schema.name); an empty history where there is no table."""
        session = self._session()
        try:
            if not is_remote(session):
                found = self._loaded(table)
                location = found.operations().current().metadataFileLocation()
                return kept_histories.of(location, lambda: metadata(session, found))
            rows = session.sql(
                "select snapshots.snapshot_id, snapshots.parent_id, snapshots.operation, "
                f"snapshots.summary, (select max(snapshot_id) from {table}.refs "
                f"where name = 'main') as head from {table}.snapshots"
            ).collect()
        except Exception as exc:
            if is_absent(exc):
                return History(None, {})
            raise
        known = {
            row.snapshot_id: Snapshot(row.snapshot_id, row.parent_id, row.operation, row.summary)
            for row in rows
        }
        return History(rows[0].head if rows else None, known)

    def _input_history(self, table: str) -> History:
        return self.inputs.history(table, self.history)

    @available
    def pinned(self, model: dict, relation: SparkSessionRelation, context: dict) -> Any:
        """`relation` as of the snapshot that this run pinned it to. In the SQL of a view, which
        reads what is there when it is read, the relation itself; as its reader reads it, where the
        view's SQL is rendered for one."""
        if relation.reading is not None or is_live(model):
            return relation
        return self._read(model, relation, "all", context)

    @available
    def new_rows(
        self, model: dict, relation: SparkSessionRelation, incremental: bool, context: dict
    ) -> Any:
        """The rows that `relation` got since the model's last commit.

        All rows where the model is built anew, reads the relation for the first time, or the
        relation was rewritten since: a reader has to bear a row that it has already.
        """
        check_news_of(model, "new_rows")
        self.inputs.of(model["unique_id"]).asks_news = True
        check_news_strategy(model, "new_rows")
        # "first" reads all, but refuses at once what the next run would refuse
        anew = self.inputs.of(model["unique_id"]).anew or not incremental
        return self._read(model, relation, "first" if anew else "new", context)

    @available
    def tested_model(self, model: dict) -> dict:
        """A context's `model`; of a unit test the model that it tests, with columns and config."""
        tested = model.get("tested_node_unique_id")
        if tested is None:
            return model
        manifest: Any = self.get_macro_resolver()
        return manifest.nodes[tested].to_dict()

    @available
    def check_declarations(self, manifest: Any = None) -> None:
        """Look at all that models declare and that can be judged by itself: `meta.source`, folds
        and zippers.

        Args:
            manifest: None: the one that this run goes by.

        Raises:
            CompilationError: what is wrong with them, of each model all that is.
        """
        manifest = manifest or self.get_macro_resolver()
        models = sorted(
            (node for node in manifest.nodes.values() if node.resource_type == "model"),
            key=lambda node: node.name,
        )
        problems, sources, formats = [], {}, {}
        for model in models:
            try:
                if "source" in model.config.meta:
                    sources[model.name] = self._check_table(model, manifest)
                if isinstance(model.config.meta.get("formats"), dict):
                    formats |= model.config.meta["formats"]
                if model.config.materialized == FOLDED:
                    self.declared_fold({"name": model.name, "config": model.config})
                if is_microbatch(model.config):
                    called = called_macros(model, manifest.macros)
                    names = {manifest.macros[one].name for one in called}
                    problem = microbatch_problem(model.name, model.config, names)
                    if problem:
                        raise CompilationError(problem)
            except (ValueError, CompilationError) as exc:
                place = model.patch_path if "source" in model.config.meta else None
                file = (place or model.original_file_path).rpartition("://")[2]
                problems.append(f"{file}: {getattr(exc, 'msg', str(exc))}")
        problems += filter(None, (unrecorded_reads(one, manifest.macros) for one in models))
        if formats and sources:
            from python_udfs.ingestion.declared.topic_formats import problems_of

            problems += problems_of(sources, formats)
        if problems:
            raise CompilationError("\n".join(problems))

    @available
    def mixed_times(self) -> list[str]:
        """A sentence for each model that mixes hours of UTC with days of the business zone, see
        utc_hours; `meta: {utc_times: true}` in its config says that it means to."""
        nodes: Any = self.get_macro_resolver().nodes
        lines = []
        for node in sorted(nodes.values(), key=lambda one: one.name):
            if node.resource_type != "model" or node.config.meta.get("utc_times"):
                continue
            shows_all = node.language == "python" or takes_all_columns(node.raw_code)
            inputs = [nodes[one] for one in node.depends_on.nodes if one in nodes]
            has_days = any(map(DAY_COLUMN.search, (name for one in inputs for name in one.columns)))
            calls = list(utc_hours(node.raw_code, shows_all and has_days))
            if calls:
                lines.append(
                    f"{node.name}: {', '.join(calls)} goes by UTC, while its days are those of the "
                    "business zone. Give it {{ business_time('create_time') }} in the place of "
                    "create_time, or say meta: {utc_times: true} in its config."
                )
        return lines

    def _check_table(self, model: Any, manifest: Any) -> Any:
        """A typed table's declaration; the settings that it takes from its log are checked too.

        Raises:
            ValueError: what is wrong with it.
        """
        find_code_of(self.config.project_root)
        from python_udfs.ingestion.declared.table_settings import settings_problem, table_settings
        from python_udfs.ingestion.declared.table_source import table_source

        source = table_source(model.name, model.config.meta["source"])
        logs = [manifest.nodes[one] for one in model.depends_on.nodes if one in manifest.nodes]
        of_log = next((one.config.meta for one in logs if "formats" in one.config.meta), {})
        problem = settings_problem(model.name, table_settings(model.config.meta, of_log))
        if problem:
            raise ValueError(problem)
        return source

    def meta_of(self, table: str) -> dict:
        """Config `meta` of the model of a table (schema.name); {} where no model makes it."""
        manifest: Any = self.get_macro_resolver()
        for node in manifest.nodes.values():
            if node.resource_type == "model" and f"{node.schema}.{node.alias}" == table:
                return node.config.meta
        return {}

    @available
    def source_of(self, model_name: str) -> dict:
        """`meta.source` of the project's model of that name, nothing of a model without it. The
        graph of a unit test's context knows no model."""
        manifest: Any = self.get_macro_resolver()
        for node in manifest.nodes.values():
            if node.name == model_name and node.resource_type == "model":
                return node.config.meta.get("source", {})
        return {}

    @available
    def reads_whole(self, model: dict) -> bool:
        """Whether an incremental run of the model asked for new rows, and reads all rows of an
        input instead: it was rewritten since the model's last commit. Ask after new_rows(..)."""
        return self.inputs.of(model["unique_id"]).reads_whole

    @available
    def merged_rows(self, model: dict) -> dict[str, Any] | None:
        """How a Python model's rows take the place of others: {by, within, gone_when}; None: they
        don't."""
        inputs = self.inputs.of(model["unique_id"])
        if not inputs.merged_by:
            return None
        return {
            "by": list(inputs.merged_by),
            "within": list(inputs.merged_within),
            "gone_when": inputs.merged_gone,
        }

    @available
    def announce_count(self, model: dict, count: dict, incremental: bool) -> None:
        """Let the model's next commit say what its rows count.

        Args:
            count: what they depend on, of the count's declaration.

        Raises:
            CompilationError: what is stored was counted otherwise.
        """
        if self.config.credentials.offline:
            return
        inputs = self.inputs.of(model["unique_id"])
        count = count | {"sql": sql_mark(model["raw_code"])}
        if incremental:
            table = stored_table_of(model)
            stored = (inputs.own or self.history(table)).recorded(COUNTED_PROPERTY, table)
            if stored is not None and count not in json.loads(stored):
                raise CompilationError(
                    f"{model['name']}: what is stored was counted otherwise, by another "
                    f"declaration or another SQL of the model: it was {stored}, is "
                    f"{json.dumps(count)}. Run it with --full-refresh."
                )
        if count not in inputs.counts:
            inputs.counts.append(count)
        inputs.properties[COUNTED_PROPERTY] = json.dumps(inputs.counts)

    @available
    def commit_property(self, relation: Any, key: str) -> str | None:
        """What the newest of a table's commits that speaks of `key` says; of those that are read
        where the run has pinned the table, or the var as_of_version names a version."""
        if self.config.credentials.offline:
            return None
        table = relation.name_only.render()
        history = self.history(table)
        head = self._version_snapshot(table) or self.inputs.pinned(table)
        if relation.reading is None and relation.as_of is not None:
            head = self.snapshot_as_of(relation.as_of, table)
        return history.at(head or history.head).recorded(key)

    @available
    def as_read_by(self, model: dict, relation: Any, reader: Any, context: dict) -> Any:
        """`relation` as `reader` read it for what the model reads of `reader`, or the run does.

        Tables that its commits don't name are read as of the run's pinned snapshot.
        """
        if self.config.credentials.offline:
            return relation
        table = reader.name_only.render()
        history = self.history(table)
        if history.head is not None:
            own = self.inputs.of(model["unique_id"]).reads.get(table)
            head = own.pinned if own is not None else self.inputs.pin(table, history.head)
            history = history.at(head)

        def recorded(read: str) -> int | None:
            return int(history.recorded(INPUT_PROPERTY + read, table) or 0) or None

        return self._read(model, relation, "all", context, as_of=recorded)

    def _read(
        self,
        model: dict,
        relation: Any,
        mode: str,
        context: dict,
        as_of: Callable[[str], int | None] | None = None,
        explicit: bool = True,
    ) -> Any:
        """`relation` with the SQL text that reads it over the run's pinned snapshots.

        Args:
            mode: `all` rows, the `new` ones, or `first`: all, of what could give new ones.
            context: of the model; its graph, and what views are rendered in.
            as_of: stored table -> the snapshot of it that is read; where it gives none, the
                run's pinned one.
            explicit: whether the model asked for this read by a macro. Where it did so of all its
                inputs, it need not run while they are as they were.
        """
        if self.config.credentials.offline:
            return relation
        relation = relation.replace(read_by_default=None)
        if explicit:
            inputs = self.inputs.of(model["unique_id"])
            inputs.relations.add(f"{relation.schema}.{relation.identifier}")
        node = self._node_of(relation, context["graph"])
        if node is not None and node["config"]["materialized"] == FOLDED:
            if mode != "all":
                raise CompilationError(
                    f"new_rows: {relation} is folded, its new rows change others. "
                    "Take new_changes(..), or pinned(..) for all rows."
                )
            return relation.replace(reading=self._read_folded(model, node, relation, as_of))
        kind = node["config"]["materialized"] if node is not None else None
        if kind in WITHOUT_TABLE:
            if mode != "all" and not node["config"].get("meta", {}).get("row_wise"):
                raise CompilationError(
                    f"new_rows: {relation} is {WITHOUT_TABLE[kind]} whose rows don't each come "
                    "from one row of its input. Take pinned(..) or changed_partitions(..), or, if "
                    "they do, say `meta: {row_wise: true}` in its config."
                )
            sql = self._render_view(model, node, mode, context, as_of)
            return relation.replace(reading=f"(\n{sql}\n)")
        return relation.replace(reading=self._read_table(model, relation, mode, as_of))

    def _relation_of_node(self, node: dict) -> Any:
        identifier = node.get("alias") or node.get("identifier")
        return self.Relation.create(schema=node["schema"], identifier=identifier)

    @staticmethod
    def _node_of(relation: Any, graph: dict) -> dict | None:
        for node in graph["nodes"].values():
            if node.get("alias") == relation.identifier and node.get("schema") == relation.schema:
                return node
        return None

    def _render_view(
        self, model: dict, node: dict, mode: str, context: dict, as_of: Any = None
    ) -> str:
        """A view's own SQL over pinned inputs: a view has no snapshots, its inputs have. Nor has
        an ephemeral model.

        Its seeds are looked up, whole, also for new rows. A seed that changed may change any row.
        """

        if mode != "all" and any(one.endswith(".pinned") for one in node["depends_on"]["macros"]):
            raise CompilationError(
                f"new_rows: {node['name']} says that it is row-wise, and reads a relation by "
                "pinned(..), so that nobody can tell which of that one's rows are new; name the "
                "relation alone, or join what is looked up in the model that reads the new rows."
            )
        nodes = context["graph"]["nodes"]
        parents = [nodes[one] for one in node["depends_on"]["nodes"] if one in nodes]
        seeds = [one for one in parents if one["resource_type"] == "seed"]
        for seed in seeds:
            self._read(model, self._relation_of_node(seed), "all", context, as_of)
        inputs = self.inputs.of(model["unique_id"])
        reads = [inputs.reads.get(self._relation_of_node(seed).render()) for seed in seeds]
        if mode == "new" and any(one is not None and one.recorded != one.pinned for one in reads):
            logger.info(f"{node['name']}: a seed changed since the last commit: reading all rows")
            inputs.reads_whole, mode = True, "all"
            inputs.rewrites += any(one is not None and one.recorded is not None for one in reads)

        def read(parent: dict) -> Any:
            how = "all" if parent in seeds else mode
            return self._read(model, self._relation_of_node(parent), how, context, as_of)

        return self._rendered(node, context, read)

    def _rendered(self, node: dict, context: dict, read: Callable[[dict], Any]) -> str:
        """A node's own SQL, with what `read` gives for each node that it refers to."""
        readings = Readings()

        def resolve(kind: str, name: str) -> Any:
            known = context["graph"]["nodes" if kind == "ref" else "sources"]
            for unique_id in node["depends_on"]["nodes"]:
                parent = known.get(unique_id)
                if parent is not None and parent["name"] == name:
                    return as_named(self._relation_of_node(parent), read(parent), readings)
            raise CompilationError(f"{node['name']}: {kind} to unknown {name!r}")

        own = dict(context)
        own |= {
            "ref": lambda *names, **_: resolve("ref", names[-1]),
            "source": lambda *names: resolve("source", names[-1]),
            "config": _ConfigOf(node["config"]),
            "model": node,
        }
        own["context"] = own
        return readings.resolved(render_template(get_template(node["raw_code"], own), own)).strip()

    def _read_table(self, model: dict, relation: Any, mode: str, as_of: Any = None) -> str:
        table = relation.name_only.render()
        inputs = self.inputs.of(model["unique_id"])
        history = self._input_history(table)
        if history.head is None:  # no commit, or no table of Iceberg's
            inputs.unpinned.add(table)
            return table
        pinned = as_of(table) if as_of is not None else None
        if pinned is None:
            pinned = self.inputs.pin(table, history.head)
        if inputs.own is None:
            inputs.stored = stored_table_of(model)
            inputs.own = self.history(inputs.stored)
        recorded = _last_read(inputs.own, table, inputs.stored)
        read = Read(table, int(recorded) if recorded else None, pinned)
        inputs.reads[table] = read
        inputs.by_partition.note(table, mode)
        read.commits = history.between(read.recorded, pinned)
        if mode == "new":
            if read.commits is not None and all(commit.adds_only for commit in read.commits):
                read.rows = sum(
                    commit.count("added-records")
                    for commit in read.commits
                    if commit.operation == "append"
                )
                if read.recorded == pinned:
                    return f"(select * from {table} version as of {pinned} limit 0)"
                if not inputs.may_read_range(table, read.recorded, pinned):
                    raise CompilationError(
                        f"new_rows: {model['name']} reads other changes of {table} as well, and "
                        "Spark would read the new rows as if they were these; read the changes "
                        "behind the new rows, or in a model of their own."
                    )
                return _appended(table, recorded, pinned)
            inputs.reads_whole = True
            if inputs.own.head is not None:
                inputs.rewrites += 1
                logger.info(f"{table} was rewritten or renamed since {recorded}: reading all of it")
        if pinned in history.snapshots:
            read.rows = history.snapshots[pinned].count("total-records")
        return f"{table} version as of {pinned}"

    # ---- commits -------------------------------------------------------------------------

    def pre_model_hook(self, config: Any) -> Any:
        """Before a node's materialization: its commits say run, code and inputs."""
        node = config.model
        unique_id = getattr(node, "unique_id", None)
        if unique_id is None or self.config.credentials.offline:
            return None
        self.check_lease()
        own = own_session(self.config.credentials)
        inputs = self.inputs.of(unique_id)
        if node.resource_type == "test":  # it writes nothing and leaves nothing behind
            return None, Progress(own.session, node.name), inputs, unique_id
        self._take_reads_of_ephemeral(node)
        self.check_named_reads(node)
        self.note_retried_batches(node)
        table = stored_table(node.schema, node.alias, config.get("materialized"))
        if config.get("materialized") != "view":
            self.let_write(table)
        own.reset(but=inputs.kept)
        conf = own.session.conf
        checksum = getattr(getattr(node, "checksum", None), "checksum", "")
        properties = {
            "dbt.run": get_invocation_id(),
            MODEL_PROPERTY: unique_id,
            TABLE_PROPERTY: table,
            "dbt.code": f"{getattr(self.config, 'version', None) or '0'}+{checksum[:12]}",
        }
        for read in inputs.reads.values():
            properties[INPUT_PROPERTY + read.table] = str(read.pinned)
        for key, value in (properties | inputs.properties).items():
            conf.set(PROPERTY_SETTING + key, value)
        # where other tables are read too, it would put each of their partitions into one task
        if inputs.reads and all(table.endswith(RUNS_SUFFIX) for table in inputs.reads):
            self.group_reads()
        self.begin_building(unique_id, table)
        return table, Progress(own.session, node.name), inputs, unique_id

    def post_model_hook(self, config: Any, context: Any) -> None:
        if context is None:
            return
        # of a test dbt gives its whole context here, not the config
        table, progress, inputs, unique_id = context
        progress.stop()
        if table is None:
            return
        self.end_building(unique_id)
        self.inputs.built(table)
        for rows in inputs.kept.values():
            let_go(rows)
        inputs.kept.clear()
        inputs.context = None
        own_session(self.config.credentials).reset()

    def _take_reads_of_ephemeral(self, node: Any) -> None:
        """Let the node's commit record what the ephemeral models in its SQL read."""
        nodes = self.get_macro_resolver().nodes
        waiting, seen = [node], set()
        while waiting:
            for unique_id in waiting.pop().depends_on_nodes:
                parent = nodes.get(unique_id)
                if unique_id in seen or parent is None:
                    continue
                if parent.config.get("materialized") == "ephemeral":
                    seen.add(unique_id)
                    waiting.append(parent)
        model = {"unique_id": node.unique_id, "schema": node.schema, "alias": node.alias}
        model["config"] = {"materialized": node.config.get("materialized")}
        for unique_id in seen:
            for table in list(self.inputs.of(unique_id).reads):
                if table not in self.inputs.of(node.unique_id).reads:
                    self._read_table(model, self._relation_of(table), "all")

    @available
    def record_inputs(self, model: dict) -> None:
        """Let the commit name inputs that were pinned after the materialization began."""
        conf = self._session().conf
        for read in self.inputs.of(model["unique_id"]).reads.values():
            conf.set(f"{PROPERTY_SETTING}{INPUT_PROPERTY}{read.table}", str(read.pinned))

    @available
    def nothing_new(self, model: dict, graph: dict) -> bool:
        """Whether an incremental run of the model has nothing to add and need not commit.

        A SQL model runs that reads a relation without asking for it by a macro, or the clock.
        """
        inputs = self.inputs.of(model["unique_id"])
        if is_microbatch(model["config"]):  # dbt says which batches there are to make
            return False
        if model["language"] == "python":
            return inputs.nothing_new
        names = set()
        for unique_id in model["depends_on"]["nodes"]:
            node = graph["nodes"].get(unique_id) or graph["sources"].get(unique_id)
            if node is not None:
                names.add(self._relation_of_node(node).render())
        is_same = inputs.unchanged and names <= inputs.relations
        return is_same and not self._goes_by_clock(model)

    @available
    def commit_report(self, model: dict, relation: Any, changed: bool = True) -> dict:
        """What the model's run did, from the snapshots' own counters.

        Returns:
            {"message", "rows_read" (None: not known), "rows_added", "rows_removed"}
        """
        if is_microbatch(model["config"]):
            return self.batch_report(model)
        inputs = self.inputs.of(model["unique_id"])
        rows = [read.rows for read in inputs.reads.values()]
        rows_read = None if None in rows or not rows else sum(rows)
        added = removed = 0
        if changed:
            inputs.latest = self.history(relation.name_only.render())
            for snapshot in _commits_of_run(inputs.latest):
                added += snapshot.count("added-records")
                removed += snapshot.count("deleted-records")
        if inputs.replaces and inputs.predicate is not None:
            rows_read = self._partition_rows(inputs)
        message = f"+{added:,}" + (f" -{removed:,}" if removed else "") + " rows"
        if not added and not removed:
            message = "nothing new"
        return {
            "message": message,
            "rows_read": rows_read,
            "rows_added": added,
            "rows_removed": removed,
        }

    @available
    def rows_of_run(self, relation: Any, key: str | None = None, where: str = "true") -> str:
        """SQL text, for a `from`, of the rows that this run's commits added to `relation`.

        Args:
            key: a column that no two rows have the same of: where a commit did more than add, the
                rows are those whose key was not there before the run. Without it they are all then.
            where: SQL condition on the rows.
        """
        table = relation.name_only.render()
        added = _commits_of_run(self.history(table))
        if not added:
            return f"(select * from {table} limit 0)"
        before = added[-1].parent
        if key is None or before is None or all(one.adds_only for one in added):
            return f"(select * from {_added_rows(table, added)} where {where})"
        return (
            f"(select after.* from (select * from {table} where {where}) as after left anti join "
            f"(select {key} from {table} version as of {before} where {where}) as before "
            f"on after.{key} <=> before.{key})"
        )

    @available
    def run_only_added(self, relation: Any) -> bool:
        """Whether no commit of this run changed rows that a table held before it, or took them."""
        added = _commits_of_run(self.history(relation.name_only.render()))
        made_it = bool(added) and added[-1].parent is None
        return made_it or all(one.adds_only for one in added)

    @available
    def rows_of_last_append(self, relation: Any) -> str:
        """SQL text, for a `from`, of the rows that the newest commit added; compactions add none.

        All rows where that commit made the table.
        """
        table = relation.name_only.render()
        history = self.history(table)
        for one in history.ancestry(history.head):
            if one.operation != "replace" and one.count("added-records"):
                return _added_rows(table, [one])
        return f"(select * from {table} limit 0)"

    @available
    def partition_values(self, partition_by: str | list[str]) -> list[str]:
        """SQL expressions of a row's partition, from a model's `partition_by`."""
        given = [partition_by] if isinstance(partition_by, str) else partition_by
        try:
            return [Transform.read(one).value for one in given]
        except ValueError as exc:
            raise CompilationError(f"partition_by {exc}") from exc

    @available
    def result_view(self, model: dict) -> str:
        return result_view(model["alias"])

    # ---- seeds and snapshots -------------------------------------------------------------

    def _is_declared_so(self, node: dict, relation: Any, queries: Sequence[str] = ()) -> bool:
        """Whether the newest commit of a node's table was made by the same declaration, file and
        queries; the node's next commit will tell its own."""
        told = [node[key] for key in ("checksum", "config", "description", "columns", "raw_code")]
        told += queries
        text = json.dumps(told, sort_keys=True, default=str)
        declared = hashlib.sha256(text.encode()).hexdigest()
        self.set_snapshot_property(DECLARED_PROPERTY, declared)
        own = self.history(relation.name_only.render())
        self.inputs.of(node["unique_id"]).own = own
        newest = own.snapshots.get(own.head)
        return newest is not None and newest.summary.get(DECLARED_PROPERTY) == declared

    @available
    def snapshot_is_taken(self, model: dict, relation: Any, context: dict) -> bool:
        """Whether the snapshot's table has been compared with all inputs as they are now.

        Of inputs that are neither Iceberg tables nor views of the project nobody knows: no. Nor of
        queries that go by the clock.
        """
        inputs = self.inputs.of(model["unique_id"])
        graph = context["graph"]
        # vars may stand in them; which snapshots they name is looked at below
        queries = [SNAPSHOT_READ.sub(" ", without_marks(model["compiled_code"]))]
        for unique_id in model["depends_on"]["nodes"]:
            parent = graph["nodes"].get(unique_id) or graph["sources"][unique_id]
            reading = self._read(model, self._relation_of_node(parent), "all", context).render()
            queries.append(SNAPSHOT_READ.sub(" ", reading))
        same = self._is_declared_so(model, relation, queries)
        same = same and not any(map(goes_by_clock, queries))
        known = set(inputs.reads)
        for node in graph["nodes"].values():
            if node["config"].get("materialized") in ("view", FOLDED):
                known.add(f"{node['schema']}.{node['alias']}")
        self.record_inputs(model)
        if not (same and inputs.relations <= known and self.nothing_new(model, graph)):
            return False
        for read in inputs.reads.values():
            read.rows = 0
        return True

    @available
    def seed_is_loaded(self, model: dict, relation: Any) -> bool:
        """Whether the newest commit of the seed's table loaded the seed as it is now.

        dbt doesn't look into files above 1 MB: those are loaded again.
        """
        return self._is_declared_so(model, relation) and model["checksum"]["name"] != "path"

    @available
    def stage_seed(self, view: str, table: Any) -> None:
        """Make a temporary view of a seed's cells as text; empty cells are null.

        No cell becomes SQL, so any text comes through as it is.
        """
        names = list(table.column_names)
        rows = [[_cell_text(cell) for cell in row.values()] for row in table.rows]
        schema = ", ".join(f"`{name.replace('`', '``')}` string" for name in names)
        self._session().createDataFrame(rows, schema).createOrReplaceTempView(view)

    # ---- listing and docs ----------------------------------------------------------------

    def list_relations_without_caching(self, schema_relation: Any) -> list[Any]:
        """Tables and views of a schema: Spark lists them by two statements."""
        if self.config.credentials.offline:
            return []
        schema, found = schema_relation.schema, []
        for kind, sql in (("table", "show tables"), ("view", "show views")):
            try:
                _, rows = self.execute(f"{sql} in {schema}", fetch=True)
            except DbtRuntimeError as exc:
                if any(word in exc.msg for word in NO_SCHEMA):
                    return []
                raise
            for row in rows:
                if not row[2]:  # a temporary view
                    found.append(self.Relation.create(schema=schema, identifier=row[1], type=kind))
        views = {one.identifier for one in found if one.type == "view"}
        return [one for one in found if one.type == "view" or one.identifier not in views]

    def set_relations_cache(self, *args: Any, **kwargs: Any) -> None:
        if not self.config.credentials.offline:
            super().set_relations_cache(*args, **kwargs)

    def get_columns_in_relation(self, relation: Any) -> list[SparkColumn]:
        """Columns of a table, a view or a temporary view; none where there is no such thing."""
        name = getattr(relation, "name_only", relation)
        try:
            _, rows = self.execute(f"describe table {name}", fetch=True)
        except DbtRuntimeError as exc:
            if is_absent(exc):
                return []
            raise
        columns = []
        for index, row in enumerate(rows):
            if not row[0] or row[0].startswith("#"):
                break
            columns.append(
                SparkColumn(
                    table_schema=relation.schema,
                    table_name=relation.identifier,
                    table_type=relation.type,
                    column=row[0],
                    column_index=index,
                    dtype=row[1],
                )
            )
        return columns

    def _get_columns_for_catalog(self, relation: Any) -> Iterable[dict[str, Any]]:
        stats = self._stats(relation)
        for column in self.get_columns_in_relation(relation):
            yield {
                "table_database": None,
                "table_schema": relation.schema,
                "table_name": relation.identifier,
                "table_type": str(relation.type),
                "table_comment": None,
                "table_owner": None,
                "column_name": column.column,
                "column_index": column.column_index,
                "column_type": column.dtype,
                "column_comment": None,
            } | stats

    def _stats(self, relation: Any) -> dict[str, Any]:
        """dbt docs' figures: of a table from its snapshot's counters, of a view its columns."""
        if relation.type == "view":
            figures: dict[str, tuple[str, Any]] = {
                "columns": ("Columns", len(self.get_columns_in_relation(relation)))
            }
        else:
            history = self.history(relation.name_only.render())
            head = history.snapshots.get(history.head or 0)
            figures = {"snapshots": ("Snapshots", len(history.snapshots))}
            if head is not None:
                figures |= {
                    "rows": ("Rows", head.count("total-records")),
                    "bytes": ("Bytes", head.count("total-files-size")),
                    "files": ("Data files", head.count("total-data-files")),
                }
        entries: dict[str, Any] = {}
        for key, (label, value) in figures.items():
            entries |= {
                f"stats:{key}:label": label,
                f"stats:{key}:value": value,
                f"stats:{key}:description": "",
                f"stats:{key}:include": True,
            }
        return entries

    def _get_one_catalog(
        self, information_schema: Any, schemas: set[str], used_schemas: Any
    ) -> Any:
        import agate

        rows: list[dict[str, Any]] = []
        for schema in sorted(schemas):
            for relation in self.list_relations(information_schema.database, schema):
                rows.extend(self._get_columns_for_catalog(relation))
        # tables and views have other figures: every row needs every key
        keys: dict[str, None] = dict.fromkeys(key for row in rows for key in row)
        return agate.Table.from_object([{key: row.get(key) for key in keys} for row in rows])

    @available
    def is_offline(self) -> bool:
        return self.config.credentials.offline
