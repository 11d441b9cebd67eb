"""What a bare `ref` or `source` of a model reads: the run's pinned snapshot, like `pinned(..)`.

A table is written into the model's SQL as its pinned snapshot. A view has no snapshot: the SQL
names it with a mark behind it, see view_marks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.edges import Context, Foreign, Given, Node, Settings
from dbt.adapters.sparksession.read_plans import INDEX_PROPERTY, GivenRows, News, ReadPlan
from dbt.adapters.sparksession.reading.chosen_queries import problem_of_choice
from dbt.adapters.sparksession.reading.clock_queries import BATCH_BY_CLOCK, problem_of_clock
from dbt.adapters.sparksession.reading.definitions import (
    ADDS_ALL,
    ENGINE_PACKAGES,
    MERGING,
    PARTIAL_RUNS,
    used_macros,
)
from dbt.adapters.sparksession.reading.fold_queries import (
    ALL_AGAIN,
    counts_rows,
    problem_of_all_rows,
    problem_of_fold,
)
from dbt.adapters.sparksession.reading.given_queries import (
    GIVEN,
    problem_of_given,
    problem_of_index,
    with_given_rows,
)
from dbt.adapters.sparksession.reading.macro_calls import is_from_outside
from dbt.adapters.sparksession.reading.microbatch import MICROBATCH, PINNED_READ, cut_reads
from dbt.adapters.sparksession.reading.named_reads import CTE_PREFIX
from dbt.adapters.sparksession.reading.news import (
    ADDING,
    OVERWRITING,
    REPLACING,
    REPLACING_ALL,
    STORED,
    asks_for_news,
    is_live,
    problem_found,
    replaces_by_a_part,
)
from dbt.adapters.sparksession.reading.news_queries import (
    problem_of,
    problem_of_unseen,
)
from dbt.adapters.sparksession.reading.own_conditions import asks_newest, asks_which_run
from dbt.adapters.sparksession.reading.partition_queries import problem_of_partitions
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.reading.taken_back import is_of_join
from dbt.adapters.sparksession.reading.view_marks import as_named, compiled_readings, statement_of
from dbt.adapters.sparksession.sql_texts import without_comments
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt.flags import get_flags
from dbt_common.exceptions import CompilationError

logger = AdapterLogger("Spark")

# macros that look into the model's own table for the rows that it doesn't have: what a query makes
# of these rows is looked at as with new rows
FIND_NEW_ROWS = ("unseen_rows", "_looked_up")


def reads_itself(node: Foreign, macros: Settings) -> bool:
    """Whether a SQL model or a macro of the project that it calls names the model's own table, so
    that it may tell by itself what is new.

    Args:
        node: the model, as the manifest has it.
        macros: id -> macro of the manifest.
    """
    return _names_itself(node.raw_code) or _is_read_by_macros(node, macros)


def _is_read_by_macros(node: Foreign, macros: Settings) -> bool:
    """Whether a macro of the project that a SQL model calls names the model's own table."""
    return any(map(_names_itself, _texts_of_macros(node, macros)))


def _texts_of_macros(node: Foreign, macros: Settings) -> list[str]:
    """The macros of the project that a SQL model calls, as they are written."""
    return [
        macro.macro_sql
        for macro in used_macros(node.depends_on.macros, macros)
        if macro.package_name not in ENGINE_PACKAGES and macro.name not in FIND_NEW_ROWS
    ]


def _names_itself(text: str) -> bool:
    return is_from_outside(without_comments(text), "this")


def may_add_all(model: Node) -> bool:
    """Whether each run of a model may add all that it reads: it has no inputs, or means it."""
    config = model["config"]
    means_it = config.get(ADDS_ALL) or config.get("full_refresh") is False
    return means_it or not model["depends_on"]["nodes"]


def _check_recorded(model: Node, news: News) -> None:
    """Refuse a model that would add what is new in a view outside of the project.

    Raises:
        CompilationError: no commit records what it has read of the view.
    """
    config = model["config"]
    means_it = config.get(ADDS_ALL) or config.get(PARTIAL_RUNS)
    if news.of_views and not news.unseen_by and not means_it:
        raise CompilationError(
            f"{model['name']} asks what is new in {', '.join(sorted(news.of_views))}, a view that "
            "isn't of the project, so that no commit records what was read of it and each run "
            "would add all its rows again; declare the table below it as the source, make the view "
            "a model with `meta: {row_wise: true}`, or let unseen_rows(..) find the rows that are "
            f"new; or, if all rows are meant, set {ADDS_ALL}=true in its config."
        )


class DefaultReads:
    """Reads what a bare ref or source names."""

    def __init__(self, warehouse: Warehouse, reads: TableReads) -> None:
        self._warehouse = warehouse
        self._reads = reads
        self._not_in_version: set[str] = set()  # what this run has named

    def check_news_of_cte(self, model: Node, relation: Relation, macro: str) -> None:
        """Refuse a stored model that asks for what is new in an ephemeral one. In a unit test all
        inputs are texts in its query.

        Raises:
            CompilationError: nobody records what the model has read of it.
        """
        if model.get("resource_type") in STORED:
            name = relation.identifier.removeprefix(CTE_PREFIX)
            raise CompilationError(
                f"{macro}: {name} is ephemeral, so which of its rows are new is unknown; "
                f"take {macro}(..) of the tables that it reads, or store it."
            )

    def check_added_rows(
        self, model: Node, strategy: str, sql: str, is_rebuild: bool = False
    ) -> None:
        """Look at whether what the runs of a model add to its rows, or merge into them, is together
        what its query gives for all rows of its inputs. Of a Python model, whose frames can't be
        looked at, whether it may be: it asks for what is new, or for what it holds.

        Args:
            sql: a SQL model's query.
            is_rebuild: whether the run makes all rows.

        Raises:
            CompilationError: it isn't.
        """
        config, plan = model["config"], self._warehouse.inputs.plan(model["unique_id"])
        is_sql = model["language"] == "sql"
        if strategy == REPLACING and is_sql and not config.get(PARTIAL_RUNS):
            self._check_partitions(model, plan, sql)
        if strategy == MICROBATCH and is_sql and not config.get(PARTIAL_RUNS):
            self._check_batch(model, sql)
        chooses = is_sql and not (plan.news.is_asked or config.get(PARTIAL_RUNS))
        if chooses and strategy in (*ADDING, MERGING, OVERWRITING, REPLACING_ALL):
            self._check_own_conditions(model, strategy)
        if strategy not in (*ADDING, MERGING, REPLACING_ALL) or plan.python.nothing_new:
            return
        asks_itself = self._asks_itself(model, plan)
        if strategy == REPLACING_ALL:
            reads_part = plan.news.is_asked or plan.replaced is not None
            if reads_part and not (asks_itself or config.get(PARTIAL_RUNS)):
                raise CompilationError(replaces_by_a_part(model["name"]))
            return
        if strategy in ADDING and not asks_itself:
            _check_recorded(model, plan.news)
        if plan.news.is_asked:
            if not is_sql or config.get(PARTIAL_RUNS):
                return
            if not asks_itself:
                self._check_clock(model, plan, sql)
            if plan.news.given:
                self._check_given(model, plan, sql, strategy in ADDING)
            elif not (asks_itself and (is_rebuild or self._reads_own_table(model, sql))):
                self._check_results_of_runs(model, plan, sql, strategy in ADDING)
            return
        if is_sql and not is_rebuild and not config.get(PARTIAL_RUNS):
            untaken = asks_for_news(model["raw_code"])
            if untaken:
                raise CompilationError(
                    f"{model['name']}: its SQL calls {untaken} in a branch that this run doesn't "
                    "take, and what the run reads is recorded as read, so that no later run would "
                    f"read what came; call {untaken} before the branch, or, if each run's result "
                    f"is meant by itself, say {PARTIAL_RUNS}=true in its config."
                )
        if strategy == MERGING or asks_itself or may_add_all(model):
            return
        raise CompilationError(
            f"{model['name']}: strategy '{strategy}' adds all that it gives to what it holds, and "
            "it reads nothing by new_rows(..) or new_changes(..), so that each run would add all "
            "rows again; read what is new by new_rows(..), or, if all rows are meant, set "
            f"{ADDS_ALL}=true in its config."
        )

    def check_folded_rows(self, model: Node, fold: Given, sql: str) -> None:
        """Look at whether a keyed table's fold makes of the rows of its runs what its query gives
        for all rows of its inputs. Macros of joins, streams and beliefs repair what they read.

        Args:
            fold: bound to the columns of the model's rows.
            sql: a SQL model's query.

        Raises:
            CompilationError: it doesn't.
        """
        config, plan = model["config"], self._warehouse.inputs.plan(model["unique_id"])
        news = plan.news
        if config.get(PARTIAL_RUNS):
            return
        asks_itself = self._asks_itself(model, plan)
        if model["language"] == "sql" and not asks_itself:
            self._check_clock(model, plan, sql)
        if counts_rows(fold) and not asks_itself:
            _check_recorded(model, news)
        if news.given:
            self._check_given(model, plan, sql, adds=False)
        if INDEX_PROPERTY in plan.properties:
            self._check(model, partial(problem_of_index, sql, news.texts))
        if news.tolerates_replay or news.is_repaired:
            return
        if asks_itself or any(map(is_of_join, plan.properties)):
            return
        if news.is_asked:
            if model["language"] != "sql":
                return
            self._check(model, partial(problem_of_fold, sql, news.texts, fold))
            self._check(model, partial(problem_of_choice, sql, news.texts, fold.key))
            return
        if counts_rows(fold) and not may_add_all(model):
            raise CompilationError(
                f"{model['name']} {ALL_AGAIN}; or, if all rows are meant, set {ADDS_ALL}=true in "
                "its config."
            )
        if model["language"] == "sql" and model["depends_on"]["nodes"]:
            self._check(model, partial(problem_of_all_rows, sql, fold))

    def _asks_itself(self, model: Node, plan: ReadPlan) -> bool:
        if model["language"] != "sql":
            return plan.python.asks_itself
        manifest: Foreign = self._warehouse.manifest()
        return reads_itself(manifest.nodes[model["unique_id"]], manifest.macros)

    def _reads_own_table(self, model: Node, sql: str) -> bool:
        """Whether a model that names its own table reads it in this run, and doesn't only ask for
        its columns, say; a macro may read it in a query of its own."""
        manifest: Foreign = self._warehouse.manifest()
        if _is_read_by_macros(manifest.nodes[model["unique_id"]], manifest.macros):
            return True
        own = f"{model['schema']}.{model['alias']}".lower()
        return own in without_comments(sql).replace("`", "").lower()

    def given_by(self, model: Node, macro: str, sql: str, key: Sequence[str] | None = None) -> str:
        """The text of rows that a macro gives a model's query and makes right by itself: what the
        query makes of them is looked at.

        Args:
            key: columns by which the macro looks into the model's own table.
        """
        given = GivenRows(sql, macro, tuple(key or ()))
        self._warehouse.inputs.note_given(model["unique_id"], given)
        return sql

    def _check_given(self, model: Node, plan: ReadPlan, sql: str, adds: bool) -> None:
        news = plan.news
        self._check(model, partial(problem_of_given, sql, news.given, news.texts, adds))

    def _check_clock(self, model: Node, plan: ReadPlan, sql: str) -> None:
        news, raw_code = plan.news, without_comments(model["raw_code"])
        query, texts = with_given_rows(sql, news.given), [*news.texts, GIVEN]
        self._check(model, partial(problem_of_clock, query, texts, raw_code))

    def _check_batch(self, model: Node, sql: str) -> None:
        raw_code = without_comments(model["raw_code"])
        of_batch = cut_reads(sql)
        looked_at = {sql: of_batch}
        for text in map(statement_of, of_batch):  # a view may choose them
            looked_at[text] = PINNED_READ.findall(text)

        def problem() -> str | None:
            asks = (problem_of_clock(*item, raw_code) for item in looked_at.items())
            return BATCH_BY_CLOCK if any(asks) else None

        self._check(model, problem)

    def _check_partitions(self, model: Node, plan: ReadPlan, sql: str) -> None:
        reading = plan.by_partition
        for macro, *arguments in reading.calls:
            if macro == "changed_partitions":
                by = arguments[0].removeprefix("by='").removesuffix("'")
                problem = partial(problem_of_partitions, sql, reading.texts, by)
                self._check(model, problem)

    def _check_results_of_runs(self, model: Node, plan: ReadPlan, sql: str, adds: bool) -> None:
        self._check(model, partial(problem_of, sql, plan.news.texts, adds))
        if plan.news.unseen_by:
            self._check(
                model, partial(problem_of_unseen, sql, plan.news.texts, plan.news.unseen_by)
            )
        unique_key: Given = model["config"].get("unique_key") or []
        key = [unique_key] if isinstance(unique_key, str) else list(unique_key)
        self._check(model, partial(problem_of_choice, sql, plan.news.texts, key))

    @staticmethod
    def _check(model: Node, problem_of_query: Callable[[], str | None]) -> None:
        problem = problem_found(model["name"], problem_of_query)
        if problem is not None:
            raise CompilationError(
                f"{model['name']} {problem}; or, if each run's result is meant by itself, say "
                f"{PARTIAL_RUNS}=true in its config."
            )

    def _check_own_conditions(self, model: Node, strategy: str) -> None:
        """Look at what a model leaves out of its later runs by itself. What a condition on the
        newest row that it holds leaves out, or a branch of is_incremental(), is warned of.

        Raises:
            CompilationError: a later run would replace all its rows by those of such a branch.
        """
        manifest: Foreign = self._warehouse.manifest()
        node = manifest.nodes[model["unique_id"]]
        texts = [node.raw_code, *_texts_of_macros(node, manifest.macros)]
        if asks_newest(texts):
            logger.warning(
                f"{model['name']}: what lies behind its newest row is taken for read, so that a "
                "row which comes late never gets into it; read what is new by new_rows(..), or, "
                f"if that is meant, say {PARTIAL_RUNS}=true in its config."
            )
        elif asks_which_run(node.raw_code) and not reads_itself(node, manifest.macros):
            if strategy == REPLACING_ALL:
                raise CompilationError(replaces_by_a_part(model["name"]))
            if strategy not in ADDING:
                logger.warning(
                    f"{model['name']}: its later runs read what a branch of is_incremental() lets "
                    "in, so that a row behind it which comes late or changes never gets in, and a "
                    "key's sum may be that of a part of its rows; read what is new by "
                    "new_rows(..) or changed_partitions(..), or, if that is meant, say "
                    f"{PARTIAL_RUNS}=true in its config."
                )

    def _check_in_version(self, model: Node, relation: Relation, context: Context) -> None:
        """Look at whether the version that the var as_of_version names has what a ref names, which
        is read as it is now elsewhere.

        Raises:
            CompilationError: it hasn't, and what is asked would show rows of two times.
        """
        node = self._warehouse.node_of(relation, context["graph"])
        name = relation.name_only.render()
        if node is None or self._warehouse.credentials.offline:  # no node: a source
            return
        if relation.render() != name:  # the query of its rows in the version
            return
        problem = (
            f"version {relation.as_of} has no {name}, which came later, was stored under another "
            "name or is in no version (meta: published: false)"
        )
        kind = model.get("resource_type")
        if kind == "sql_operation" or (get_flags().WHICH == "show" and kind == "model"):
            raise CompilationError(
                f"ref('{node['name']}'): {problem}; name a version that has it, or ask without "
                "as_of_version."
            )
        if (
            node["config"].get("meta", {}).get("published", True)
            and name not in self._not_in_version
        ):
            self._not_in_version.add(name)
            logger.warning(f"{problem[0].upper()}{problem[1:]}: it is read as it is now.")

    def read_by_default(self, model: Node, relation: Relation, context: Context) -> Relation:
        """`relation` as the model reads it where its SQL asks for nothing else.

        Args:
            model: the context's.
            relation: what dbt's own ref(..) or source(..) gives.

        Returns:
            The relation, whose text is a read of its pinned snapshot, noted among the model's
            inputs once the text is wanted; the relation itself where nothing is stored of what is
            read (a view, a test, an operation), in a unit test, in a hook, and where a version is
            read.
        """
        if getattr(relation, "as_of", None) is not None:
            self._check_in_version(model, relation, context)
        if (
            self._warehouse.credentials.offline
            or getattr(relation, "is_cte", False)
            or getattr(relation, "as_of", None) is not None
            or getattr(relation, "reading", None) is not None
            or model.get("resource_type") not in STORED
            or model.get("language") == "python"  # it reads them by dbt.ref(..)
            or is_live(model)
            or context.get("sql") is not None  # a hook: the model is compiled by now
        ):
            return relation
        relation = self._warehouse.original_of(relation, context["graph"])

        def text() -> str:
            read = self._reads.read(model, relation, "all", context, explicit=False)
            return as_named(relation, read, compiled_readings).render()

        return relation.replace(read_by_default=text)
