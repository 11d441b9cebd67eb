"""What a bare `ref` or `source` of a model reads: the run's pinned snapshot, like `pinned(..)`.

A table is written into the model's SQL as its pinned snapshot. A view has no snapshot: the SQL
names it with a mark behind it, see view_marks.
"""

from __future__ import annotations

import re

from dbt.adapters.sparksession.edges import Context, Foreign, Node, Settings
from dbt.adapters.sparksession.reading.definitions import ENGINE_PACKAGES, used_macros
from dbt.adapters.sparksession.reading.news import STORED, is_live
from dbt.adapters.sparksession.reading.table_reads import TableReads
from dbt.adapters.sparksession.reading.view_marks import as_named, compiled_readings
from dbt.adapters.sparksession.sql_texts import without_comments
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.exceptions import CompilationError

# strategies that only add
ADDING = ("append", "append_new_rows", "append_or_merge")
ADDS_ALL = "appends_all_rows"  # the config of a model that means to add all rows in each run
CTE_PREFIX = "__dbt__cte__"
THIS = re.compile(r"\bthis\b")


def reads_itself(node: Foreign, macros: Settings) -> bool:
    """Whether a SQL model or a macro of the project that it calls names the model's own table, so
    that it may tell by itself what is new.

    Args:
        node: the model, as the manifest has it.
        macros: id -> macro of the manifest.
    """
    used = used_macros(node.depends_on.macros, macros)
    texts = [macro.macro_sql for macro in used if macro.package_name not in ENGINE_PACKAGES]
    return any(THIS.search(without_comments(text)) for text in (node.raw_code, *texts))


class DefaultReads:
    """Reads what a bare ref or source names."""

    def __init__(self, warehouse: Warehouse, reads: TableReads) -> None:
        self._warehouse = warehouse
        self._reads = reads

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

    def check_added_rows(self, model: Node, strategy: str) -> None:
        """Look at whether a SQL model that only adds to its rows reads what is new.

        Raises:
            CompilationError: each run would add all rows of its inputs again.
        """
        config, plan = model["config"], self._warehouse.inputs.plan(model["unique_id"])
        means_it = config.get(ADDS_ALL) or config.get("full_refresh") is False
        reads_news = plan.news.is_asked or not model["depends_on"]["nodes"]
        if strategy not in ADDING or means_it or reads_news:
            return
        manifest: Foreign = self._warehouse.manifest()
        if reads_itself(manifest.nodes[model["unique_id"]], manifest.macros):
            return
        raise CompilationError(
            f"{model['name']}: strategy '{strategy}' adds all that its query gives to what it "
            "holds, and the query reads nothing by new_rows(..) or new_changes(..), so that each "
            "run would add all rows again; read what is new by new_rows(..), or, if all rows are "
            f"meant, set {ADDS_ALL}=true in its config."
        )

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
