"""Relations that a model names by hand, past dbt: no commit would record what it reads of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from dbt.adapters.sparksession.edges import Context, Foreign, Node
from dbt.adapters.sparksession.keyed.tables import stored_table, stored_table_of
from dbt.adapters.sparksession.python_code import parsed_code
from dbt.adapters.sparksession.reading.news import STORED, is_live
from dbt.adapters.sparksession.reading.relations_named import (
    Named,
    moving_reads,
    relations_named,
)
from dbt.adapters.sparksession.reading.view_marks import statement_of
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.session_values import MAKES_VALUES
from dbt.adapters.sparksession.sql_texts import without_comments
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import CompilationError

CTE = re.compile(r"(?<!\w)(\w++)`?(?:\s*+\([^()]*+\))?\s*+\bas\s*+\(", re.IGNORECASE)
CTE_PREFIX = "__dbt__cte__"  # of an ephemeral model's name in SQL
UNKNOWN = "what the session reads by itself"
PATH = re.compile(r"[/:*?\\]")  # in the second part of parquet.`/data/day.parquet`
# behind a table's name: its rows under another name. What else stands there is metadata
OF_ROWS = ("branch_main", "changes")
# what stands for a ref or source in compiled SQL, with what can't stand behind it
PAST_THE_READ = re.compile(
    r"(?<!\w)(?P<name>\w++\.\w++) version as of \d++\s*+"
    r"(?P<behind>\.\w++|(?:version|timestamp)\s++as\s++of|for\s++system_\w++)",
    re.IGNORECASE,
)


def without_reads_before(sql: str) -> str:
    """The SQL of a view with the names of tables alone before what can't stand behind a pinned
    read: metadata, or rows of a time, which a view reads as they are.

    >>> without_reads_before("select * from dw.x version as of 42.snapshots")
    'select * from dw.x.snapshots'
    """
    return PAST_THE_READ.sub(
        lambda found: (
            f"{found['name']}{'' if found['behind'].startswith('.') else ' '}{found['behind']}"
        ),
        sql,
    )


@dataclass(frozen=True)
class SessionReads:
    """What a Python model's code reads by the session, not by dbt.

    Attributes:
        tables: names that it gives to `table(..)`.
        statements: texts that it gives to `sql(..)`.
        others: whether it reads by anything else, or by names that only its run knows.
    """

    tables: tuple[str, ...]
    statements: tuple[str, ...]
    others: bool


def session_reads(code: str, this: str) -> SessionReads:
    """Look through a Python model's code for reads by its session.

    Args:
        this: name of the model's own table, which the code has as dbt.this.

    >>> session_reads("def model(dbt, spark):\\n    return spark.table('dw.x')", "dw.own").tables
    ('dw.x',)
    >>> session_reads("def rows(s):\\n    return s.table('dw.x')", "dw.own").tables
    ('dw.x',)
    """
    tree = parsed_code(code)
    sessions = {"session", "spark"}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "model" and len(node.args.args) > 1:
            sessions.add(node.args.args[1].arg)
    tables, statements, others = [], [], False
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _base(node) in sessions and node.attr == "read":
            others = True
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in ("table", "sql"):
            continue
        text = _text(node.args[0], this) if node.args else None
        if text is None:  # of what isn't called a session it may be anything
            others = others or _base(node.func) in sessions
        elif node.func.attr == "table":
            tables.append(text)
        else:
            statements.append(text)
    return SessionReads(tuple(tables), tuple(statements), others)


def _base(attribute: ast.Attribute) -> str | None:
    """Name that a chain of attributes and calls begins with."""
    found: ast.AST = attribute
    while isinstance(found, (ast.Attribute, ast.Call)):
        found = found.value if isinstance(found, ast.Attribute) else found.func
    return found.id if isinstance(found, ast.Name) else None


def _text(value: ast.AST, this: str) -> str | None:
    """A text that the code spells out, with the model's own name in it; None of any other."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "str" and value.args:
        value = value.args[0]
    if isinstance(value, ast.Attribute) and value.attr == "this":
        return this
    if isinstance(value, ast.JoinedStr):
        parts = [
            _text(piece.value if isinstance(piece, ast.FormattedValue) else piece, this)
            for piece in value.values
        ]
        return None if None in parts else "".join(filter(None, parts))
    return None


class NamedReads:
    """Looks for relations that a model names by hand."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def check_named_reads(self, node: Foreign) -> None:
        """Look at what the SQL of a node that is stored names. What isn't of the warehouse, a file
        for one, counts as an input of which nobody knows whether it changed.

        Raises:
            CompilationError: a table or view that exists, read as it is now while the model's other
                inputs are pinned; or a view outside of the project over a table whose new rows the
                model reads, all of whose rows Spark would take for the new rows.
        """
        kind = node.config.get("materialized")
        if node.resource_type not in STORED or kind in ("view", "ephemeral"):
            return
        if node.language != "sql" or not node.compiled_code:
            return
        plan = self._warehouse.inputs.plan(node.unique_id)
        own = {stored_table(node.schema, node.alias, kind), f"{node.schema}.{node.alias}"}
        sql = statement_of(node.compiled_code)
        _check_behind_reads(node, sql)
        named = self._note_others(node.unique_id, own, sql)
        for name in self._warehouse_names(own, named):
            if name in plan.unpinned:
                self._check_outer_view(node.name, name, plan.ranges)
            elif self._is_there(name):
                raise self._by_hand(node.name, node.original_file_path, name)
            else:
                self._warehouse.inputs.note_unpinned(node.unique_id, name)

    def note_named_reads(self, model: Node, sql: str) -> None:
        """Note what a part of a model's query reads that isn't of the warehouse, or that hooks make
        before it is run, before the model decides by that what it reads."""
        own = _own_names(model)
        for name in self._warehouse_names(
            own, self._note_others(model["unique_id"], own, statement_of(sql))
        ):
            if not self._is_there(name):
                self._warehouse.inputs.note_unpinned(model["unique_id"], name)
        made_by = [hook.get("sql") for hook in model["config"].get("pre-hook") or ()]
        made_by.append(model["config"].get("sql_header"))
        if any(text and MAKES_VALUES.search(text) for text in made_by):
            self._warehouse.inputs.note_unpinned(model["unique_id"], "what its hooks make")

    def check_asked(self, model: Node, sql: str, context: Context) -> None:
        """Look at what a model that is stored asks by run_query(..) while it is compiled.

        Raises:
            CompilationError: it names a table or view that exists, see check_named_reads.
        """
        is_hook = context.get("sql") is not None
        if model.get("resource_type") not in STORED or is_live(model) or is_hook:
            return
        if self._warehouse.credentials.offline:
            return
        own = _own_names(model)
        unpinned = self._warehouse.inputs.plan(model["unique_id"]).unpinned
        statement = statement_of(sql)
        named = relations_named(self._warehouse.session(), statement)
        self._note_moving(model["unique_id"], own, named, statement)
        for name in self._warehouse_names(own, named):
            if name in unpinned:
                continue
            if self._is_there(name):
                raise self._by_hand(model["name"], model["original_file_path"], name)
            self._warehouse.inputs.note_unpinned(model["unique_id"], name)

    def _by_hand(self, model: str, path: str, name: str) -> CompilationError:
        return CompilationError(
            f"{model} ({path}) names {name} by hand, so that it isn't read as of the run's pinned "
            f"snapshot and no commit records it; write {self._dbt_name(name)} instead."
        )

    def check_session_reads(self, model: Node) -> None:
        """Look at what a Python model reads by its session; where only its run can tell, it counts
        as an input of which nobody knows whether it changed.

        Raises:
            CompilationError: it names a table or view of the warehouse.
        """
        this = f"{model['schema']}.{model['alias']}"
        own, reads = {this, stored_table_of(model)}, session_reads(model["raw_code"], this)
        statements = [*reads.statements, *(f"select * from {table}" for table in reads.tables)]
        names: set[str] = set()
        for sql in statements:
            named = relations_named(self._warehouse.session(), sql)
            self._note_moving(model["unique_id"], own, named, sql)
            names |= {*self._warehouse_names(own, named)}
        for name in names:
            if self._is_there(name):
                raise CompilationError(
                    f"{model['name']} ({model['original_file_path']}) reads {name} by its session, "
                    "so that it isn't read as of the run's pinned snapshot and no commit records "
                    f"it; write dbt.{self._dbt_name(name)} instead."
                )
            self._warehouse.inputs.note_unpinned(model["unique_id"], name)
        if reads.others:
            self._warehouse.inputs.note_unpinned(model["unique_id"], UNKNOWN)

    def _temporary_names(self, unique_id: str, sql: str, named: Named) -> Iterator[str]:
        """Names of one part that a node's SQL reads and that are neither its CTEs nor rows that are
        kept for it: temporary views, as a hook or its sql_header makes them."""
        known = {name.lower() for name in CTE.findall(sql)}
        known |= {name.lower() for name in self._warehouse.inputs.building(unique_id).kept}
        for parts in sorted(named):
            name = parts[0].lower()
            if len(parts) == 1 and name not in known and not name.startswith(CTE_PREFIX):
                yield parts[0]

    def _note_others(self, unique_id: str, own: Collection[str], sql: str) -> Named:
        """Note what a statement reads beside tables and views as they are; the names of all that it
        reads."""
        named = relations_named(self._warehouse.session(), sql)
        for name in self._temporary_names(unique_id, sql, named):
            self._warehouse.inputs.note_unpinned(unique_id, name)
        self._note_moving(unique_id, own, named, sql)
        return named

    def _note_moving(self, unique_id: str, own: Collection[str], named: Named, sql: str) -> None:
        """Note what a statement reads past the rows that tables have now, of which nobody knows
        whether it changed: a table's metadata, a branch, the rows of a time, a table of another
        catalog, a relation whose name is a value."""
        moving = moving_reads(self._warehouse.session(), sql)
        for parts in named:
            in_catalog = self._in_catalog(parts)
            if len(in_catalog) > 2 and in_catalog[-1].lower() not in OF_ROWS:
                moving[".".join(parts)] = parts
        for text, parts in moving.items():
            if ".".join(self._in_catalog(parts)[:2]) not in own:
                self._warehouse.inputs.note_unpinned(unique_id, text)

    def _in_catalog(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """A name, part by part, without the warehouse's catalog."""
        return parts[1:] if parts[:1] == (self._warehouse.credentials.catalog,) else parts

    def _warehouse_names(self, own: Collection[str], named: Named) -> Iterator[str]:
        """Names (schema.name) of tables and views, whether there are such or not, that a
        statement reads as they are now, but for the node's own."""
        for parts in sorted(named):
            in_catalog = self._in_catalog(parts)
            if len(in_catalog) == 3 and in_catalog[2].lower() in OF_ROWS:
                in_catalog = in_catalog[:2]
            name = ".".join(in_catalog)
            if len(in_catalog) == 2 and name not in own:
                yield name

    def _is_there(self, name: str) -> bool:
        """Whether there is a table with commits, or a view, of that name."""
        if PATH.search(name):
            return False
        if self._warehouse.input_history(name).head is not None:
            return True
        relation = self._warehouse.relation_of(name)
        known = self._warehouse.get_relation(None, relation.schema, relation.identifier)
        return known is not None and known.type == "view"

    def _dbt_name(self, name: str) -> str:
        """How a model refers to a table or view."""
        manifest: Foreign = self._warehouse.manifest()
        for node in manifest.nodes.values():
            table = stored_table(node.schema, node.alias, node.config.get("materialized"))
            if name in (table, f"{node.schema}.{node.alias}"):
                return f"ref('{node.name}')"
        for source in manifest.sources.values():
            if f"{source.schema}.{source.identifier}" == name:
                return f"source('{source.source_name}', '{source.name}')"
        return "source(..) of it, once it is declared as one,"

    def _check_outer_view(
        self, model: str, view: str, ranges: Mapping[str, tuple[int | None, int | None]]
    ) -> None:
        if not ranges or is_remote(self._warehouse.session()):
            return
        plan = self._warehouse.session().table(view)._jdf.queryExecution().analyzed().treeString()
        for table in ranges:
            if re.search(rf"[ .\[]{re.escape(table)}(?![\w.])", plan):
                raise CompilationError(
                    f"{model}: {view} is a view over {table}, whose new rows the model reads too, "
                    "and Spark would read the new rows alone through the view as well; make it a "
                    "view of the project, which is read over pinned tables."
                )


def _own_names(model: Node) -> set[str]:
    """schema.name of a model's table and of what its readers name."""
    return {stored_table_of(model), f"{model['schema']}.{model['alias']}"}


def _check_behind_reads(node: Foreign, sql: str) -> None:
    """Refuse what can't stand behind a ref or source: Spark would name the place alone.

    Raises:
        CompilationError: a metadata table, or a time, of what is read as of the run's snapshot.
    """
    found = PAST_THE_READ.search(without_comments(sql))
    if found is None:
        return
    name, behind = found["name"], found["behind"]
    raise CompilationError(
        f"{node.name} ({node.original_file_path}), or a view that it reads, has '{behind}' behind "
        f"a ref or source of {name}, which stands for its rows as of the run's pinned snapshot; "
        f"write {name}{'' if behind.startswith('.') else ' '}{behind} by its name, which is read "
        "as it is in each run."
    )
