"""What a model reads of tables and views: pinned, or what is new since its last commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.edges import Context, Given, Graph, Json, Node
from dbt.adapters.sparksession.evaluation import choose_evaluation, reads_few
from dbt.adapters.sparksession.iceberg.history import appended
from dbt.adapters.sparksession.keyed.fitting import check_fits
from dbt.adapters.sparksession.keyed.tables import (
    FOLDED,
    KeyedTables,
    stored_table_of,
)
from dbt.adapters.sparksession.read_plans import (
    INPUT_PROPERTY,
    OwnCommits,
    Read,
    ReadPlan,
    gives_new_rows,
)
from dbt.adapters.sparksession.reading.called_macros import with_references
from dbt.adapters.sparksession.reading.clock_queries import problem_of_clock
from dbt.adapters.sparksession.reading.definitions import PARTIAL_RUNS, Definitions
from dbt.adapters.sparksession.reading.microbatch import (
    is_microbatch,
)
from dbt.adapters.sparksession.reading.news import (
    check_news_of,
    check_news_strategy,
    is_live,
    problem_found,
)
from dbt.adapters.sparksession.reading.view_marks import Readings, as_named
from dbt.adapters.sparksession.reading.zones import check_zone
from dbt.adapters.sparksession.session_values import values_asked
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.clients.jinja import get_template, render_template
from dbt_common.exceptions import CompilationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = AdapterLogger("Spark")

# materializations that are read by their own SQL over what they stand on. Of an ephemeral model a
# table may be left from a time when it was stored
WITHOUT_TABLE = {"view": "a view", "ephemeral": "an ephemeral model"}


@dataclass(frozen=True)
class Reading:
    """What a read of a relation found out.

    Attributes:
        text: SQL text of it, for a `from`.
        reads: the tables that it reads, without those that have no snapshot.
        is_rewrite: new rows were asked for, and all rows are read of what the model may have read.
    """

    text: str
    reads: tuple[Read, ...] = ()
    is_rewrite: bool = False


class TableReads:
    """Reads relations over the snapshots that the run has pinned."""

    def __init__(self, warehouse: Warehouse, keyed: KeyedTables, definitions: Definitions) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._definitions = definitions

    def pinned(self, model: Node, relation: Relation, context: Context) -> Relation:
        """`relation` as of the snapshot that this run pinned it to. In the SQL of a view, which
        reads what is there when it is read, the relation itself; as its reader reads it, where the
        view's SQL is rendered for one."""
        if relation.reading is not None or is_live(model):
            return relation
        return self.read(model, relation, "all", context)

    def new_rows(
        self,
        model: Node,
        relation: Relation,
        incremental: bool,
        context: Context,
    ) -> Relation:
        """The rows that `relation` got since the model's last commit.

        All rows where the model is rebuilt, reads the relation for the first time, or the
        relation was rewritten since: a reader has to bear a row that it has already.
        """
        if self._warehouse.credentials.offline:
            check_news_of(model, "new_rows")
            check_news_strategy(model, "new_rows")
            return relation
        text = self.read_news(model, relation, incremental, context).text
        if not text.startswith("("):  # a bare read of all rows has another text
            text = f"(select * from {text})"
        self._warehouse.inputs.note_news_text(model["unique_id"], text)
        return relation.replace(read_by_default=None, reading=text)

    def read_news(
        self,
        model: Node,
        relation: Relation,
        incremental: bool,
        context: Context,
    ) -> Reading:
        """What such a read found out."""
        check_news_of(model, "new_rows")
        plan = self._warehouse.inputs.note_news(model["unique_id"], is_asked=True)
        check_news_strategy(model, "new_rows")
        # "first" reads all, but refuses at once what the next run would refuse
        rebuilds = plan.rebuilds or not incremental
        return self.reading(model, relation, "first" if rebuilds else "new", context)

    def plan(self, model: Node) -> ReadPlan:
        """What the model's SQL, or its Python code, has read; to be asked for once it is compiled,
        or has run. In a macro: what the reads before have found."""
        return self._warehouse.inputs.plan(model["unique_id"])

    def reads_few(self, model: Node) -> bool:
        """Whether the model adds to few rows of its own, and reads few for that."""
        return reads_few(self.plan(model))

    def is_clone(self, relation: Relation) -> bool:
        """Whether a relation is a view that dbt clone made."""
        return self._warehouse.cloned(relation) is not None

    def note_context(self, model: Node, context: Context) -> None:
        """Keep the context that a Python model's views are rendered in, until it has read them."""
        self._warehouse.inputs.building(model["unique_id"]).context = context

    def record_inputs(self, model: Node) -> None:
        """Let the next commits name what the model's plan has by now. To be called behind the hooks
        that run before the model: what these commit isn't made of its inputs. What a SQL model asks
        of functions and variables that they have made may be another answer in each run.

        Raises:
            CompilationError: they have set a time zone that is wrong beside what it reads.
        """
        asked_in = self._warehouse.inputs.plan(model["unique_id"]).asked_in
        check_zone(self._warehouse.session(), model, asked_in)
        if model["language"] == "sql":
            for name in values_asked(self._warehouse.session(), model["compiled_code"]):
                self._warehouse.inputs.note_unpinned(model["unique_id"], name)
        plan = self._warehouse.inputs.plan(model["unique_id"])
        for key, value in plan.commit_properties.items():
            self._warehouse.set_snapshot_property(key, value)

    def nothing_new(self, model: Node, graph: Graph) -> bool:
        """Whether an incremental run of the model has nothing to add and need not commit.

        A SQL model runs that reads a relation without asking for it by a macro, or the clock, or
        whose hooks before it have written to its own table.
        """
        plan = self._warehouse.inputs.plan(model["unique_id"])
        if is_microbatch(model["config"]):  # dbt decides which batches there are to make
            return False
        if model["language"] == "python":
            return plan.python.nothing_new
        names = set()
        for unique_id in model["depends_on"]["nodes"]:
            node = graph["nodes"].get(unique_id) or graph["sources"].get(unique_id)
            if node is not None:
                names.add(self._warehouse.read_for(node, model).render())
        is_same = plan.unchanged and names <= plan.relations
        if is_same and model["config"].get("pre-hook") and plan.own is not None:
            table = plan.own.table
            is_same = table is None or self._warehouse.history(table).head == plan.own.history.head
        return is_same and not self._definitions.goes_by_clock(model)

    def as_read_by(
        self, model: Node, relation: Relation, reader: Given, context: Context
    ) -> Relation:
        """`relation` as `reader` read it for what the model reads of `reader`, or the run does.

        Tables that its commits don't name are read as of the run's pinned snapshot.
        """
        if self._warehouse.credentials.offline:
            return relation
        table = reader.name_only.render()
        history = self._warehouse.history(table)
        if history.head is not None:
            own = self._warehouse.inputs.plan(model["unique_id"]).reads.get(table)
            head = (
                own.pinned if own is not None else self._warehouse.inputs.pin(table, history.head)
            )
            history = history.at(head)

        def recorded(read: str) -> int | None:
            return int(history.recorded(INPUT_PROPERTY + read, table) or 0) or None

        return self.read(model, relation, "all", context, as_of=recorded)

    def read_pinned(self, model: Node, table: str) -> DataFrame:
        """DataFrame of `table` (schema.name) as of the run's pinned snapshot; of a view its own
        query over pinned tables."""
        context = self._warehouse.inputs.building(model["unique_id"]).context
        relation = self._warehouse.original_of(self._warehouse.relation_of(table), context["graph"])
        reading = self.read(model, relation, "all", context)
        return self._warehouse.session().sql(f"select * from {reading.render()}")

    def read_new_rows(self, model: Node, table: str, incremental: bool) -> DataFrame:
        """DataFrame of what `table` got since the model's last commit; all of it when not
        incremental."""
        check_news_strategy(model, "new_rows")
        self._warehouse.inputs.note_news(model["unique_id"], is_asked=True)
        relation = self._warehouse.original_of(
            self._warehouse.relation_of(table), self._warehouse.manifest().flat_graph
        )
        if self._warehouse.is_view(relation):
            raise CompilationError(
                f"new_rows: {table} is a view, and a Python model reads the new rows of tables "
                "only. Take them of the table below the view."
            )
        rows = self.read_table(model, relation, "new" if incremental else "all").text
        # not a query within a query: Spark knows where rows lie that come from a table alone
        query = rows[1:-1] if rows.startswith("(") else f"select * from {rows}"
        return self._warehouse.session().sql(query)

    def read(
        self,
        model: Node,
        relation: Relation,
        mode: str,
        context: Context,
        as_of: Callable[[str], int | None] | None = None,
        explicit: bool = True,
    ) -> Relation:
        """`relation` with the SQL text that reads it over the run's pinned snapshots, see
        reading."""
        if self._warehouse.credentials.offline:
            return relation
        reading = self.reading(model, relation, mode, context, as_of, explicit)
        return relation.replace(read_by_default=None, reading=reading.text)

    def reading(
        self,
        model: Node,
        relation: Relation,
        mode: str,
        context: Context,
        as_of: Callable[[str], int | None] | None = None,
        explicit: bool = True,
    ) -> Reading:
        """What a read of `relation` over the run's pinned snapshots finds out; the model's plan has
        it from then on.

        Args:
            mode: `all` rows, the `new` rows, or `first`: all, of what could give new rows.
            context: of the model; its graph, and what views are rendered in.
            as_of: stored table -> the snapshot of it that is read; where it gives none, the
                run's pinned one.
            explicit: whether the model asked for this read by a macro. Where it did so of all its
                inputs, it need not run while they are as they were.
        """
        relation = relation.replace(read_by_default=None)
        if explicit:
            name = f"{relation.schema}.{relation.identifier}"
            self._warehouse.inputs.note_relation(model["unique_id"], name)
        node = self._warehouse.node_of(relation, context["graph"])
        if node is not None and node["config"]["materialized"] == FOLDED:
            if mode != "all":
                raise CompilationError(
                    f"new_rows: {relation} is folded, its new rows change others. Take "
                    "new_changes(..) of it and not of a view over it, or pinned(..) for all rows."
                )
            return self._read_folded(model, node, relation, as_of)
        kind = node["config"]["materialized"] if node is not None else None
        if node is not None and kind in WITHOUT_TABLE:
            if mode != "all" and not node["config"].get("meta", {}).get("row_wise"):
                raise CompilationError(
                    f"new_rows: {relation} is {WITHOUT_TABLE[kind]} whose rows don't each come "
                    "from one row of its input. Take pinned(..) or changed_partitions(..), or, if "
                    "they do, set `meta: {row_wise: true}` in its config."
                )
            return self._render_view(model, node, mode, context, as_of)
        return self.read_table(model, relation, mode, as_of)

    def read_table(
        self, model: Node, relation: Relation, mode: str, as_of: Given = None
    ) -> Reading:
        """What a read of a table finds out, see reading."""
        table = relation.name_only.render()
        model_id, inputs = model["unique_id"], self._warehouse.inputs
        history = self._warehouse.input_history(table)
        if history.head is None:  # no commit, or no table of Iceberg's
            inputs.note_unpinned(model_id, table)
            if mode != "all" and self._warehouse.is_view(relation):
                of_views = inputs.plan(model_id).news.of_views | {table}
                inputs.note_news(model_id, of_views=of_views)
            return Reading(table)
        pinned = as_of(table) if as_of is not None else None
        if pinned is None:
            pinned = inputs.pin(table, history.head)
        own = inputs.plan(model_id).own
        if own is None:
            stored = stored_table_of(model)
            own = OwnCommits(stored, self._warehouse.history(stored))
            inputs.note(model_id, own=own)
        recorded = own.last_read(table, history.uuid)
        commits = history.between(recorded, pinned)
        if history.has_moved_columns(recorded, pinned):
            logger.info(f"{table}: a column has the name of another column since {recorded}")
            commits = None
        only_added = gives_new_rows(commits, model["config"].get("full_refresh") is False)
        if mode == "new" and only_added:
            rows = sum(
                commit.count("added-records")
                for commit in commits or ()
                if commit.operation == "append"
            )
            read = Read(table, recorded, pinned, rows, commits, history.uuid)
            self._note_read(model_id, read, mode)
            if recorded == pinned:
                return Reading(f"(select * from {table} version as of {pinned} limit 0)", (read,))
            if not inputs.may_read_range(model_id, table, recorded, pinned):
                raise CompilationError(
                    f"new_rows: {model['name']} reads other changes of {table} as well, and "
                    "Spark would read the new rows as if they were these; read the changes "
                    "behind the new rows, or in a model of their own."
                )
            return Reading(appended(table, recorded, pinned), (read,))
        total = None
        if pinned in history.snapshots:
            total = history.snapshots[pinned].count("total-records")
        read = Read(table, recorded, pinned, total, commits, history.uuid)
        self._note_read(model_id, read, mode)
        is_rewrite = mode == "new" and own.history.head is not None
        if mode == "new":
            inputs.note_news(model_id, reads_whole=True)
        if is_rewrite:
            logger.info(f"{table} was rewritten or renamed since {recorded}: reading all of it")
        return Reading(f"{table} version as of {pinned}", (read,), is_rewrite)

    def _note_read(self, model_id: str, read: Read, mode: str) -> None:
        plan = self._warehouse.inputs.note_read(model_id, read, mode)
        if not self._warehouse.inputs.is_noting:
            choose_evaluation(self._warehouse.session(), plan)

    def _read_folded(
        self,
        model: Node,
        node: Node,
        relation: Relation,
        as_of: Given = None,
    ) -> Reading:
        """The same of a folded model's rows over its pinned runs."""
        table = stored_table_of(node)
        runs = self._warehouse.relation_of(table)
        reading = self.read_table(model, runs, "all", as_of)
        if not reading.reads:  # there are no runs yet: Spark will report it
            return Reading(relation.render())
        history = self._warehouse.input_history(table).at(reading.reads[0].pinned)
        self._keyed.check_rebuilt(node, history)
        # a version's query of older rows is only compared, or is of runs that the version holds
        if as_of is None or "resource_type" in model:
            check_fits(self._keyed, node, history)
        return replace(reading, text=self._keyed.folded_sql(node, history, reading.text))

    def _render_view(
        self,
        model: Node,
        node: Node,
        mode: str,
        context: Context,
        as_of: Given = None,
    ) -> Reading:
        """The same of a view's own SQL over pinned inputs: a view has no snapshots, its inputs
        have. Nor has an ephemeral model.

        Its seeds are looked up, whole, also for new rows. A seed that changed may change any row.
        """

        if mode != "all" and any(
            macro.endswith(".pinned") for macro in node["depends_on"]["macros"]
        ):
            raise CompilationError(
                f"new_rows: {node['name']} is declared row-wise, and reads a relation by "
                "pinned(..), so that which of its rows are new is unknown; name the "
                "relation alone, or join what is looked up in the model that reads the new rows."
            )
        nodes = context["graph"]["nodes"]
        parents = [
            nodes[unique_id] for unique_id in node["depends_on"]["nodes"] if unique_id in nodes
        ]
        seeds = [parent for parent in parents if parent["resource_type"] == "seed"]
        parts = [
            self.reading(model, self._warehouse.read_for(seed, node), "all", context, as_of)
            for seed in seeds
        ]
        reads = [read for part in parts for read in part.reads]
        is_rewrite = False
        if mode == "new" and any(read.recorded != read.pinned for read in reads):
            logger.info(f"{node['name']}: a seed changed since the last commit: reading all rows")
            mode, is_rewrite = "all", any(read.recorded is not None for read in reads)
            self._warehouse.inputs.note_news(model["unique_id"], reads_whole=True)

        def read(parent: Node) -> Relation:
            relation = self._warehouse.read_for(parent, node)
            how = "all" if parent in seeds else mode
            parts.append(self.reading(model, relation, how, context, as_of))
            return relation.replace(reading=parts[-1].text)

        sql = self.rendered(node, context, read)
        if mode != "all" and not model["config"].get(PARTIAL_RUNS):
            news = [part.text for part in parts[len(seeds) :]]
            problem = problem_found(
                f"{node['name']}, which {model['name']} reads",
                partial(problem_of_clock, sql, news, node["raw_code"]),
            )
            if problem is not None:
                raise CompilationError(
                    f"new_rows: {node['name']} {problem}; or, if each run's result is meant by "
                    f"itself, say {PARTIAL_RUNS}=true in the config of {model['name']}."
                )
        reads = [read for part in parts for read in part.reads]
        is_rewrite = is_rewrite or any(part.is_rewrite for part in parts)
        return Reading(f"(\n{sql}\n)", tuple(reads), is_rewrite)

    def rendered(
        self,
        node: Node,
        context: Context,
        read: Callable[[Json], Relation],
    ) -> str:
        """A node's own SQL, with what `read` gives for each node that it refers to."""
        readings = Readings()

        def resolved(kind: str, parent_id: str | None, name: str) -> Relation:
            parent = context["graph"]["nodes" if kind == "ref" else "sources"].get(parent_id)
            if parent is None or parent_id not in node["depends_on"]["nodes"]:
                raise CompilationError(f"{node['name']}: {kind} to unknown {name!r}")
            return as_named(self._warehouse.relation_of_node(parent), read(parent), readings)

        def ref(*names: str, v: Given = None, version: Given = None) -> Relation:
            found = self._warehouse.referred(node, names, version or v)
            return resolved("ref", found, ".".join(names))

        def source(*names: str) -> Relation:
            found = self._warehouse.referred_source(node, names)
            return resolved("source", found, ".".join(names))

        # here, as dbt's contexts import adapters themselves
        from dbt.context.providers import RuntimeConfigObject

        own = with_references(self._context_of(node, context), ref=ref, source=source)
        # macros know of these what they know in the node that is built: their reads are its own
        own["config"] = RuntimeConfigObject(self._warehouse.manifest().nodes[node["unique_id"]])
        own |= {"model": node, "schema": node["schema"]}
        own["this"] = self._warehouse.relation_of_node(node)
        own["context"] = own
        return readings.resolved(render_template(get_template(node["raw_code"], own), own)).strip()

    def _context_of(self, node: Node, context: Context) -> Context:
        """The context that a node's SQL has the macros and vars of its package in.

        Args:
            context: of the node that reads it.
        """
        reader = context.get("model") or {}
        if reader.get("package_name") == node["package_name"]:
            return context
        # here, as dbt's contexts import adapters themselves
        from dbt.context.providers import generate_runtime_model_context

        manifest = self._warehouse.manifest()
        found: Context = generate_runtime_model_context(
            manifest.nodes[node["unique_id"]], self._warehouse.config, manifest
        )
        return found
