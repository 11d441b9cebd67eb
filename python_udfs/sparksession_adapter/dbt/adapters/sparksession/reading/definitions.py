"""What a model's rows depend on beside its inputs: its SQL, macros, configs and vars.

The rows that an incremental model holds were made by its definition of then. Each commit records
that definition, so that a run by another definition is refused, or builds all rows again, instead
of mixing rows of two meanings.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml
from dbt.adapters.sparksession.clock import goes_by_clock
from dbt.adapters.sparksession.edges import Foreign, Given, Graph, Json, Node, Settings
from dbt.adapters.sparksession.inputs import sql_mark
from dbt.adapters.sparksession.keyed.tables import FOLDED, stored_table_of
from dbt.adapters.sparksession.python_code import parsed_code
from dbt.adapters.sparksession.reading.graph_marks import OF_A_BATCH, graph_mark
from dbt.adapters.sparksession.reading.imported_code import imported_code
from dbt.adapters.sparksession.reading.macro_calls import (
    ASKS_ADAPTER,
    ENGINE_PACKAGES,
    JINJA,
    called_by,
    handed_macros,
    passes_on,
    strategy_mark,
    used_macros,
)
from dbt.adapters.sparksession.reading.named_inputs import (
    moved_inputs,
    named_inputs,
    other_maker,
    other_tables,
)
from dbt.adapters.sparksession.reading.named_values import (
    ENV_VAR,
    asks_what_may_change,
    may_call_any_var,
    python_reads,
    shown,
    vars_called,
)
from dbt.adapters.sparksession.reading.package_vars import OF_VIEWS, OWN_VARS, vars_of_packages
from dbt.adapters.sparksession.reading.session_settings import profile_mark, session_mark
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.context import get_invocation_context
from dbt_common.exceptions import CompilationError

RECORDED_PROPERTY = "dbt.definition"
# how the engine's own reads and strategies make rows; to be raised when rows come out otherwise
ENGINE = 1
# a model's config for a changed definition
ON_CHANGE, REFUSE, REBUILD, ACCEPT = "on_definition_change", "refuse", "rebuild", "accept"
ACCEPT_VAR = "accept_definition"
PARTIAL_RUNS = "partial_runs"  # the config of a model whose runs' results are meant one by one
ADDS_ALL = "appends_all_rows"  # of a model that means to add all rows in each run
MERGING = "merge"
STORED_KINDS = ("table", "incremental", FOLDED)
# configs whose values no stored row depends on, or that are compared by themselves (fold, zipper)
OTHER_CONFIGS = frozenset(
    {
        *("access", "alias", "batch_size", "begin", "concurrent_batches", "contract", "database"),
        *(ADDS_ALL, "derived_config", PARTIAL_RUNS),
        *("docs", "enabled", "event_time", "file_format", "fold", "freshness", "full_refresh"),
        *("grants", "group", "lookback", "materialized", "meta", "on_configuration_change"),
        *("on_definition_change", "on_schema_change", "packages", "persist_docs", "post-hook"),
        *("pre-hook", "quoting", "schema", "sort_by", "static_analysis", "submission_method"),
        *("tags", "tblproperties", "zipper"),
    }
)
# vars that say what a command does, and change no row of what it builds
COMMAND_VARS = frozenset(
    {
        *("accept_definition", "allow_behind", "as_of_version"),
        *("compensate_days", "compensate_request"),
        *("hold_back", "join_lookup_bytes", "join_rows_per_key", "kafka_accept_gap"),
        *("merge_runs", "open_window_days", "publish_versions", "rebuild"),
        *("reconciliation_threshold", "reject_threshold"),
        *("test_again", "versions_days", "versions_kept"),
    }
)
LATER_VARS = frozenset({"batches"})  # that older adapters noted of no model
# the macro that declares what a model counts: that may change in what no row depends on, so it is
# compared by itself, see record_count
DECLARES_COUNT = re.compile(
    r"\b(?:daily_cut|roll_up|metric_rows)\(\s*(?:(?:count|metric)\s*=\s*)?(?P<macro>\w+)\(\)"
)
READS_META = re.compile(r"\.meta(?:_get|_require|_of)?\b|['\"]meta['\"]")
READS_CONFIG = re.compile(r"""\bconfig(?:\.(?:get|require)\(\s*['"]|\.|\[['"])(?P<name>\w+)""")
READS_NODE = re.compile(r"""(?<![.\w])model(?:\.|\[['"]|\.get\(\s*['"])(?P<name>\w+)""")
YAML_READ = frozenset({"columns", "description", "tags"})  # of a node, beside its config
READS_GRAPH = re.compile(r"(?<![.\w'\"])graph\b")
# parts of `meta` that make no row of a model
OTHER_META = frozenset({"published", "put_back", "reads_all", "row_wise", "utc_times"})
TARGET = re.compile(r"""\btarget(?:\.(?!get\b)|\[['"]|\.get\(\s*['"])(?P<name>\w+)""")
# what rows may go by where SQL hands the target on as a whole
PARTS_OF_TARGET = ("name", "target_name", "profile_name", "schema", "database", "type")
# parts of a definition that older adapters didn't note
LATER_KEYS = (
    *("meta", "read", "yaml", "graph", "handed", "imports", "all_vars", "hooks", "strategy"),
    OWN_VARS,
)


def default_strategy(config: Settings) -> str:
    """Strategy of an incremental model that names none: with a key its rows are updated."""
    return MERGING if config.get("unique_key") else "append"


def mark_of_vars(values: Settings) -> str:
    """A short hash of all vars that may make rows."""
    left_out = COMMAND_VARS | LATER_VARS
    known = {name: value for name, value in values.items() if name not in left_out}
    return mark_of(json.dumps(known, sort_keys=True, default=str))


def views_below(node: Node, nodes: Graph) -> list[Given]:
    """The views and ephemeral models between a node and the tables that it reads, by name."""
    waiting, seen = list(node["depends_on"]["nodes"]), set()
    while waiting:
        unique_id = waiting.pop()
        found = nodes.get(unique_id)
        if found is None or unique_id in seen or found.resource_type != "model":
            continue
        if found.config.materialized in ("view", "ephemeral"):
            seen.add(unique_id)
            waiting += found.depends_on.nodes
    return [nodes[unique_id] for unique_id in sorted(seen)]


def code_mark(code: str) -> str:
    """A short hash of a Python model's code; its config, comments and layout don't matter.

    >>> code_mark("dbt.config(tags=['a'])\\nx = 1  # one") == code_mark("x=1")
    True
    """

    class WithoutConfig(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
            call = node.value
            is_config = isinstance(call, ast.Call) and ast.unparse(call.func) == "dbt.config"
            return None if is_config else node

    return mark_of(ast.unparse(WithoutConfig().visit(parsed_code(code))))


def meta_mark(metas: Iterable[Settings]) -> str:
    """A short hash of what some models say of their rows in `meta`."""
    metas = [{key: meta[key] for key in meta.keys() - OTHER_META} for meta in metas]
    return mark_of(json.dumps(metas, sort_keys=True, default=str))


def _metas_of_columns(node: Node, views: Sequence[Foreign]) -> list[Json]:
    """YAML's `meta` of the columns of a node and of the views that it reads, and of these
    views themselves: macros make SQL of it, such as cleaning rules."""
    found = []
    for columns, config in (
        (node.get("columns") or {}, {}),
        *((view.to_dict()["columns"], view.config.get("meta") or {}) for view in views),
    ):
        of_columns = {
            column: {
                **(column_config.get("meta") or {}),
                **((column_config.get("config") or {}).get("meta") or {}),
            }
            for column, column_config in columns.items()
        }
        settings = {f"column {column}": meta for column, meta in of_columns.items() if meta}
        settings |= {key: value for key, value in config.items() if key not in OTHER_META}
        if settings:
            found.append(settings)
    return sorted(found, key=str)


def reads_graph(node: Node, macros: Settings, views: Sequence[Foreign] = ()) -> bool:
    """Whether a SQL model asks dbt's graph for something, itself or by a macro or view."""
    asking = (text for text in texts_of(node, macros, views) if "graph" in text)
    parts = (ASKS_ADAPTER.sub("", part) for text in asking for part in JINJA.findall(text))
    return any(map(READS_GRAPH.search, parts))


def definition_of(
    node: Node,
    macros: Settings,
    values: Settings,
    views: Sequence[Foreign] = (),
    metas: Sequence[Settings] = (),
    *,
    env: Mapping[str, str] | None = None,
    env_read: Iterable[str] = (),
    target: Settings | None = None,
) -> Json:
    """What a model's rows depend on beside its inputs.

    Args:
        node: the model, as the manifest has it.
        macros: id -> macro of the manifest; the texts of dbt's and the adapter's own are left out.
        values: name -> value of each var that is set.
        views: those that it reads its tables through, see views_below.
        metas: `meta` of the models that it refers to.
        env: the environment; of its values the definition has hashes alone, they may be secret.
        env_read: names of environment variables that dbt saw the model read, however they are
            named.
        target: the same of dbt's target.

    Returns:
        {"sql" or "code", "meta", "read", "yaml", "columns", "macros", "views", "all_vars",
        "hooks", "strategy": hashes, "engine": number, "config": config -> hash, "around":
        environment variable or part of the target -> hash, "vars": var -> value as text}; comments
        and white space don't matter.
    """
    used = used_macros(called_by(node, macros), macros)
    counts = {found["macro"] for found in DECLARES_COUNT.finditer(node["raw_code"])}
    own = [macro for macro in used if macro.package_name not in ENGINE_PACKAGES]
    own = [macro for macro in own if macro.name not in counts]
    used_by_views = used_macros([name for view in views for name in view.depends_on.macros], macros)
    of_views = [view.raw_code for view in views]
    of_views += [
        by_view.macro_sql
        for by_view in used_by_views
        if by_view.package_name not in ENGINE_PACKAGES
    ]
    is_python = node.get("language") == "python"
    texts = [] if is_python else [node["raw_code"], *(macro.macro_sql for macro in used)]
    texts += [*(view.raw_code for view in views), *(by_view.macro_sql for by_view in used_by_views)]
    reads = python_reads(node["raw_code"]) if is_python else None
    called = vars_called(texts) | dict.fromkeys(reads.vars if reads else ())
    if is_python:
        code = {"code": code_mark(node["raw_code"])}
        if READS_META.search(node["raw_code"]):
            code["meta"] = meta_mark([node["config"].get("meta") or {}, *metas])
    else:
        code = {"sql": sql_mark(node["raw_code"])}
        own_sql = [node["raw_code"], *(macro.macro_sql for macro in own)]
        jinja = [part for text in own_sql for part in JINJA.findall(text)]
        if any(map(READS_META.search, jinja)):
            code["meta"] = meta_mark([node["config"].get("meta") or {}])
        asked = {found["name"] for part in jinja for found in READS_CONFIG.finditer(part)}
        if asked := asked & (OTHER_CONFIGS - {"meta", "full_refresh", "materialized"}):
            read = {name: node["config"].get(name) for name in sorted(asked)}
            code["read"] = mark_of(json.dumps(read, sort_keys=True, default=str))
        named = {found["name"] for part in jinja for found in READS_NODE.finditer(part)}
        if named := named & YAML_READ:
            read = {name: node.get(name) for name in sorted(named)}
            code["yaml"] = mark_of(json.dumps(read, sort_keys=True, default=str))
        if handed := handed_macros(own_sql, used, macros):
            code["handed"] = mark_of("\0".join(sql_mark(macro.macro_sql) for macro in handed))
    if of_columns := _metas_of_columns(node, views):
        code["columns"] = meta_mark(of_columns)
    own_texts = texts_of(node, macros, views)
    around = {
        f"environment variable {name}": mark_of(str((env or {}).get(name)))
        for name in sorted({*env_read, *(reads.env if reads else ())})
    }
    for text in own_texts:
        for found in ENV_VAR.finditer(text):
            default = yaml.safe_load(found["default"]) if found["default"] else None
            value = (env or {}).get(found["name"], default)
            around[f"environment variable {found['name']}"] = mark_of(str(value))
        for found in TARGET.finditer(text):
            value = (target or {}).get(found["name"])
            around[f"target's {found['name']}"] = mark_of(str(value))
        if "target" in text and passes_on(text, "target"):
            values_of_target = {name: (target or {}).get(name) for name in PARTS_OF_TARGET}
            around["target"] = mark_of(json.dumps(values_of_target, sort_keys=True, default=str))
    if any(map(may_call_any_var, own_texts)) or (reads and reads.any_var):
        code["all_vars"] = mark_of_vars(values)
    code["hooks"] = session_mark(node, values, env or {})
    code["strategy"] = strategy_mark(node, macros)
    configs = dict(node["config"])
    names_none = not configs.get("incremental_strategy")
    if configs.get("materialized") == "incremental" and names_none and configs.get("unique_key"):
        configs["incremental_strategy"] = default_strategy(configs)
    return {
        **code,
        "macros": mark_of("\0".join(sql_mark(macro.macro_sql) for macro in own)),
        "views": mark_of("\0".join(sorted(map(sql_mark, of_views)))),
        "engine": ENGINE,
        "config": {
            key: mark_of(json.dumps(value, sort_keys=True, default=str))
            for key, value in sorted(configs.items())
            if key not in OTHER_CONFIGS
            and not key.startswith(OF_A_BATCH)
            and value not in (None, [], {})
        },
        **({"around": around} if around else {}),
        "vars": {
            name: shown(values.get(name, default))
            for name, default in sorted(called.items())
            if name not in COMMAND_VARS
        },
    }


def differences(stored: Settings, now: Settings) -> list[str]:
    """What differs between two definitions, each as a phrase.

    >>> old = {"sql": "1", "macros": "1", "engine": 1, "config": {}, "vars": {"zone": '"UTC"'}}
    >>> differences(old, old | {"sql": "2", "vars": {"zone": '"+08:00"'}})
    ['its SQL', 'var zone (was "UTC", is "+08:00")']
    """
    found = []
    for key, phrase in (
        ("sql", "its SQL"),
        ("code", "its code"),
        ("meta", "the meta that it reads"),
        ("read", "a config that its SQL reads"),
        ("yaml", "the YAML that its SQL reads"),
        ("graph", "dbt's graph, which its SQL reads"),
        ("handed", "the SQL of a macro that it has as a value"),
        ("imports", "the project's code that it imports"),
        ("columns", "meta of its columns or of a view that it reads"),
        ("macros", "the SQL of a macro that it calls"),
        ("views", "the SQL of a view that it reads"),
        ("engine", "how the adapter makes its rows"),
        ("all_vars", "the vars, of which it names one by an expression"),
        ("hooks", "what its pre_hook sets in its session"),
        ("strategy", "the SQL of its incremental_strategy's macro"),
        (OWN_VARS, "a var that its package declares"),
        (OF_VIEWS, "a var of another package's view that it reads, or how that view is read"),
    ):
        # code that reads these now did so before, or it is other code: an older adapter noted none
        is_noted = key not in LATER_KEYS or key in stored
        if is_noted and stored.get(key) != now.get(key):
            found.append(phrase)
    found += moved_inputs(stored.get("inputs", {}), now.get("inputs", {}))
    found += [f"config {name}" for name in _differing(stored.get("config", {}), now["config"])]
    around = stored.get("around", {})
    of_both = {name: value for name, value in now.get("around", {}).items() if name in around}
    found += [f"the {name}" for name in _differing(around, of_both)]
    # an older adapter noted no vars of the code that a model imports
    notes_all = "imports" in stored or "imports" not in now
    for name in _differing(stored.get("vars", {}), now["vars"]):
        is_later = name in LATER_VARS or not notes_all
        if is_later and name not in stored.get("vars", {}):
            continue
        values = (definition.get("vars", {}).get(name, "not used") for definition in (stored, now))
        found.append(f"var {name} (was {next(values)}, is {next(values)})")
    return found


def _differing(before: Settings, after: Settings) -> Iterable[str]:
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


def texts_of(node: Node, macros: Settings, views: Sequence[Foreign] = ()) -> list[str]:
    """The SQL of a node, of the views that it reads its tables through and of the project's macros
    that they call; of a Python model without its own."""
    called = called_by(node, macros)
    called += [name for view in views for name in view.depends_on.macros]
    own = [
        macro for macro in used_macros(called, macros) if macro.package_name not in ENGINE_PACKAGES
    ]
    texts = [*(view.raw_code for view in views), *(macro.macro_sql for macro in own)]
    return texts if node.get("language") == "python" else [node["raw_code"], *texts]


class Definitions:
    """Sees whether stored rows were made by the model as it is now."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def _definition(self, model: Node) -> Json | None:
        """The definition of a model that is a table, also one that isn't incremental by now; None
        of any other."""
        if model["config"].get("materialized") not in STORED_KINDS:
            return None
        # the rows of a log's table stand by its declaration, which its code compares itself
        if model.get("language") != "sql" and "source" in (model["config"].get("meta") or {}):
            return {"sql": model["language"]}
        manifest: Foreign = self._warehouse.manifest()
        values = self._warehouse.project_vars_of(model)
        views = views_below(model, manifest.nodes)
        parents = (manifest.nodes.get(node) for node in model["depends_on"]["nodes"])
        metas = [parent.config.get("meta") or {} for parent in parents if parent is not None]
        env = get_invocation_context().env
        target = self._warehouse.config.to_target_dict()
        files = [
            manifest.files.get(of.file_id) for of in (manifest.nodes[model["unique_id"]], *views)
        ]
        read = [name for file in files if file is not None for name in file.env_vars]
        now = definition_of(
            model,
            manifest.macros,
            values,
            views,
            metas,
            env=env,
            env_read=read,
            target=target,
        )
        given = self._warehouse.credentials.server_side_parameters
        now.setdefault("around", {})["profile's settings of answers"] = profile_mark(given)
        if inputs := named_inputs(self._warehouse, model, views):
            now["inputs"] = inputs
        if reads_graph(model, manifest.macros, views):
            now["graph"] = graph_mark({**manifest.nodes, **manifest.sources})
        if model.get("language") == "python":
            imported = imported_code(model["raw_code"], Path(self._warehouse.config.project_root))
            for text in imported.texts if imported else ():
                reads = python_reads(text)
                names = sorted(reads.vars - COMMAND_VARS)
                now["vars"] = {name: shown(values.get(name)) for name in names} | now["vars"]
                if reads.any_var:
                    now["all_vars"] = mark_of_vars(values)
                if READS_META.search(text):
                    now["meta"] = meta_mark([model["config"].get("meta") or {}, *metas])
            if imported:
                now["imports"] = imported.mark
        macros, called = manifest.macros, now["vars"]
        return now | vars_of_packages(self._warehouse, model, views, macros, called)

    def changes_of(self, model: Node) -> list[str]:
        """How a model is defined otherwise than when its stored rows were made, as phrases."""
        now = self._definition(model)
        return [] if now is None else self._changes(model, now)

    def _changes(self, model: Node, now: Json) -> list[str]:
        if "engine" not in now:
            return []
        table = stored_table_of(model)
        history = self._warehouse.history(table)
        if maker := other_maker(history, table):
            return [f"a {maker} of that name made them"]
        stored = json.loads(history.recorded(RECORDED_PROPERTY, table) or "{}")
        # a commit without the engine's number is ignored: a log's table, or a Python model of an
        # older adapter
        if "engine" not in stored:
            return []
        found = differences(stored, now)
        if model["config"].get(PARTIAL_RUNS):
            return found
        inputs = stored.get("inputs", {}), now.get("inputs", {})
        return found + other_tables(self._warehouse, model, *inputs)

    def goes_by_clock(self, model: Node) -> bool:
        """Whether a SQL model may make other rows while its inputs stay as they are, also by a
        macro or a view."""
        manifest: Foreign = self._warehouse.manifest()
        views = views_below(model, manifest.nodes)
        texts = texts_of(model, manifest.macros, views)
        if model.get("language") != "python" and any(map(asks_what_may_change, texts)):
            return True
        return any(map(goes_by_clock, [*texts, model.get("compiled_code")]))

    def changed_definition(self, model: Node, is_rebuild: bool) -> str:
        """Look at whether a model is defined as when its rows were made, and let its next commit
        record its definition.

        Args:
            is_rebuild: whether all its rows are made again in this run anyway.

        Returns:
            `rebuild` where all its rows have to be made again, `accept` where the author declares
            that the rows may stay, else an empty text.

        Raises:
            CompilationError: it is defined otherwise, and its config doesn't say what to do.
        """
        now = self._definition(model)
        if now is None:
            return ""
        self._warehouse.set_snapshot_property(
            RECORDED_PROPERTY, json.dumps(now, separators=(",", ":"))
        )
        changed = [] if is_rebuild else self._changes(model, now)
        if not changed:
            return ""
        names = self._warehouse.config.cli_vars.get(ACCEPT_VAR) or []
        if model["name"] in ([names] if isinstance(names, str) else names):
            return ACCEPT
        what = model["config"].get(ON_CHANGE) or REFUSE
        if what in (REBUILD, ACCEPT):
            return what
        if what != REFUSE:
            raise CompilationError(
                f"{ON_CHANGE} of {model['name']} must be {REFUSE}, {REBUILD} or {ACCEPT}, got "
                f"{what!r}."
            )
        raise CompilationError(
            f"{model['name']} ({model['original_file_path']}): its rows were made by another "
            f"definition: {'; '.join(changed)}. Run it with --full-refresh; or, where the rows "
            f"that it holds are right as they are, with --vars '{ACCEPT_VAR}: [{model['name']}]'."
        )
