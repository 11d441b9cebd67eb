"""Tables that the hooks before a model write to, where the model would lack or lose rows by it."""

from __future__ import annotations

import re
import threading

from dbt.adapters.sparksession.edges import Context, Foreign, Node
from dbt.adapters.sparksession.keyed.tables import stored_table_of
from dbt.adapters.sparksession.reading.definitions import PARTIAL_RUNS
from dbt.adapters.sparksession.reading.macro_calls import READS_OF_NEWS
from dbt.adapters.sparksession.reading.news import STORED, is_live
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.warehouse import Warehouse, named_table
from dbt.flags import get_flags
from dbt_common.exceptions import CompilationError

# a table on a line of a parsed plan that the statement writes to, and what it may do there
WRITTEN = re.compile(
    r"'UnresolvedRelation \[(?P<name>[^\]]*)\], "
    r"\[[^\]]*__required_write_privileges__=(?P<rights>[A-Z,]+)"
)
# the same of statements that take all rows, or a partition's
EMPTIED = re.compile(
    r"^[ :+|-]*'(?:TruncateTable|TruncatePartition|DropPartitions|ReplaceTable)[^\n]*\n"
    r"[ :+|-]*'Unresolved(?:Table|Identifier) \[(?P<name>[^\]]*)\]",
    re.MULTILINE,
)
ONLY_READS = re.compile(r"\s*(?:select|show|describe|desc|explain)\b", re.IGNORECASE)
ADDING_PROCEDURE = "add_files"
# Iceberg's procedures that change which rows a table has
PROCEDURES = (
    ADDING_PROCEDURE,
    *("cherrypick_snapshot", "fast_forward", "migrate", "publish_changes", "register_table"),
    *("rollback_to_snapshot", "rollback_to_timestamp", "set_current_snapshot", "snapshot"),
)
TABLE_ARGUMENT = re.compile(r"\btable\s*+=>\s*+'([^']++)'", re.IGNORECASE)
TEXT = re.compile(r"'([^']++)'")
CALL = re.compile(r"\s*+call\b", re.IGNORECASE)
INSERT = "INSERT"  # the only right of a statement that adds rows, and changes none


def tables_written(session: Foreign, sql: str) -> dict[tuple[str, ...], bool]:
    """Tables that a statement writes to, names part by part -> whether it only adds rows. Nothing
    on a remote session, which has no parser here, and of what can't be parsed."""
    if ONLY_READS.match(sql):  # what a model asks most often
        return {}
    if CALL.match(sql):
        return table_called(sql)
    if is_remote(session):
        return {}
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(sql).treeString()
    except Exception:  # Spark reports the error where the SQL is run
        return {}
    found = {
        tuple(match["name"].split(", ")): match["rights"] == INSERT
        for match in WRITTEN.finditer(plan)
    }
    return found | {tuple(match["name"].split(", ")): False for match in EMPTIED.finditer(plan)}


def table_called(sql: str) -> dict[tuple[str, ...], bool]:
    """The same of a `call` of a procedure; nothing of another statement."""
    if not CALL.match(sql):
        return {}
    head, _, arguments = sql.partition("(")
    procedure = head.split(".")[-1].split()[-1].strip("`").lower()
    table = TABLE_ARGUMENT.search(arguments) or TEXT.search(arguments)
    if procedure not in PROCEDURES or table is None:
        return {}
    name = table[1].replace("`", "").split(".")
    return {tuple(name): procedure == ADDING_PROCEDURE}


class HookWrites:
    """Looks at the statements of hooks that run before a model is built, and at those that it runs
    while it is compiled."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._thread = threading.local()

    def note_hooks(self, is_before: bool | None) -> None:
        """Take note of the hooks that this thread runs.

        Args:
            is_before: whether they run before the model is built; None where they have ended.
        """
        self._thread.is_before = is_before

    def check_asked(self, model: Node, sql: str, context: Context) -> None:
        """The same as check_pre_hook of what a model that is stored, or a hook before it, runs by
        run_query(..)."""
        is_behind = getattr(self._thread, "is_before", None) is False
        if model.get("resource_type") not in STORED or is_live(model) or is_behind:
            return
        if not self._warehouse.credentials.offline:
            self.check_pre_hook(model, sql, "pre_hook" if context.get("sql") else "run_query")

    def check_pre_hook(self, model: Node, sql: str, by: str = "pre_hook") -> None:
        """Look at what a hook before a model would write, before it does.

        Args:
            sql: the hook's statement.
            by: what runs it.

        Raises:
            CompilationError: it writes to an input of the model, whose query reads that as it was
                before the hook; or it changes rows of the model, which doesn't read again what
                these were made of.
        """
        catalog = self._warehouse.credentials.catalog
        for parts, only_adds in tables_written(self._warehouse.session(), sql).items():
            name = ".".join(parts[1:] if parts[0] == catalog else parts).lower()
            if name == stored_table_of(model).lower():
                if not only_adds:
                    self._check_own_rows(model, name, by)
            elif name in self._inputs(model):
                raise CompilationError(
                    f"{model['name']}: its {by} writes to {name}, which the model reads as it "
                    "was before, so that it would lack what the statement brings; let a model of "
                    f"its own make {name}, or let on-run-start write to it."
                )

    def _inputs(self, model: Node) -> set[str]:
        """Tables that a model's query reads, or that another model has read in this run: of these
        a Python model would read the rows of then."""
        plan, manifest = self._warehouse.inputs.plan(model["unique_id"]), self._warehouse.manifest()
        found = {*plan.reads, *plan.unpinned}
        if model.get("language") == "python":
            for unique_id in model["depends_on"]["nodes"]:
                node: Foreign = manifest.nodes.get(unique_id) or manifest.sources.get(unique_id)
                table = named_table(node)
                if self._warehouse.inputs.pinned(table) is not None:
                    found.add(table)
        return {name.lower() for name in found}

    def _check_own_rows(self, model: Node, table: str, by: str) -> None:
        config, plan = model["config"], self._warehouse.inputs.plan(model["unique_id"])
        keeps = config.get("full_refresh")
        if config.get(PARTIAL_RUNS) or keeps is False or (keeps or get_flags().FULL_REFRESH):
            return
        reads_part = plan.news.is_asked or bool(plan.news.given) or plan.replaced is not None
        if reads_part or any(macro in model["raw_code"] for macro in READS_OF_NEWS):
            raise CompilationError(
                f"{model['name']}: its {by} takes or changes rows of {table}, and the model reads "
                "what is new alone, so that they would not come again; let a post_hook do it, as "
                "then a full refresh does it too, or, if each run's result is meant by itself, "
                f"say {PARTIAL_RUNS}=true in its config."
            )
