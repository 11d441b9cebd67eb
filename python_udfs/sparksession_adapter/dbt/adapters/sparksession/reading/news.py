"""Which models may ask for what is new since their last commit."""

from __future__ import annotations

from collections.abc import Callable

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.edges import Foreign, Node, Settings
from dbt.adapters.sparksession.reading.definitions import (
    PARTIAL_RUNS,
    default_strategy,
    used_macros,
)
from dbt.adapters.sparksession.reading.macro_calls import CALLED, JINJA, READS_OF_NEWS
from dbt.adapters.sparksession.reading.query_parts import UnreadableQuery
from dbt.adapters.sparksession.sql_texts import without_comments
from dbt_common.exceptions import CompilationError

logger = AdapterLogger("Spark")
# resource types whose SQL makes rows that are stored
STORED = ("model", "snapshot")
LIVE_KINDS = ("view", "materialized_view")
REPLACING, OVERWRITING = "replace_partitions", "insert_overwrite"
REPLACING_ALL = "replace_all"
ADDING = ("append", "append_new_rows", "append_or_merge")  # they only add


def problem_found(name: str, problem_of_query: Callable[[], str | None]) -> str | None:
    """What a look at a query has found, None where nothing; of a query that can't be parsed a
    warning is printed.

    Args:
        name: what the query is of.
        problem_of_query: looks at it, and may raise UnreadableQuery.
    """
    try:
        return problem_of_query()
    except UnreadableQuery as exc:
        logger.warning(
            f"{name}: sqlglot can't parse its query, so nobody has looked at whether its runs add "
            f"up to what all rows give: {str(exc).splitlines()[0]}"
        )
        return None


def unrecorded_reads(node: Foreign, macros: Settings) -> str | None:
    """Error text for a view or an ephemeral model that asks for what is new, else None.

    Such a model has no commits that could record what it has read: each run would read all rows.
    A view may call a macro that asks for it in stored models alone.

    Args:
        node: a model of the manifest.
        macros: id -> macro of the manifest.
    """
    kind, called = node.config.get("materialized"), node.depends_on.macros
    if kind == "ephemeral":
        used = used_macros(called, macros)
    elif kind in LIVE_KINDS:
        used = [macros[unique_id] for unique_id in called if unique_id in macros]
    else:
        return None
    asked = sorted({macro.name for macro in used} & READS_OF_NEWS)
    if not asked:
        return None
    return _unrecorded(f"{node.name} ({node.original_file_path})", kind, asked[0])


def _unrecorded(name: str, kind: str, macro: str) -> str:
    named = "ephemeral" if kind == "ephemeral" else f"a {kind.replace('_', ' ')}"
    return (
        f"{name} is {named}, so no commit records what it has read and {macro} would read all rows "
        f"in each run. Call {macro} in the model that is stored, or store this model."
    )


def models_read_as_sources(manifest: Foreign) -> list[str]:
    """Error texts for models that read a table which the project makes as a source: dbt wouldn't
    build it before them, so that they would read what an earlier run left.

    Seeds may be read so, as in dbt's own examples: their rows are those of a file, and change with
    it alone.
    """
    made = {
        f"{node.schema}.{node.alias}".lower(): node.name
        for node in manifest.nodes.values()
        if node.resource_type in ("model", "snapshot")
        and node.config.get("materialized") != "ephemeral"
    }
    sources = {
        unique_id: (source, made[name])
        for unique_id, source in manifest.sources.items()
        if (name := f"{source.schema}.{source.identifier}".lower()) in made
    }
    found = []
    for node in sorted(manifest.nodes.values(), key=lambda item: item.name):
        if node.resource_type in STORED and sources:
            for unique_id in sorted(sources.keys() & set(node.depends_on.nodes)):
                source, model = sources[unique_id]
                found.append(
                    f"{node.original_file_path}: source('{source.source_name}', '{source.name}') "
                    f"is the table of {model}, which dbt wouldn't build first; write "
                    f"ref('{model}') instead."
                )
    return found


def asks_for_news(sql: str) -> str | None:
    """Name of a macro by which SQL with Jinja asks for what is new in any branch, else None.

    >>> asks_for_news("{% if a %}x{% else %}{{ new_rows(ref('x')) }}{% endif %}")
    'new_rows'
    >>> asks_for_news("x {# {{ new_rows(ref('x')) }} #}")
    """
    jinja = JINJA.findall(without_comments(sql))
    called = {name for part in jinja for name in CALLED.findall(part)}
    return min(called & READS_OF_NEWS, default=None)


def is_live(model: Node) -> bool:
    """Whether a context's `model` is a view, whose rows are read again by each reader."""
    kind = (model.get("config") or {}).get("materialized")
    return model.get("resource_type") == "model" and kind in LIVE_KINDS


def check_news_of(model: Node, macro: str) -> None:
    """Refuse a view that asks for what is new.

    Raises:
        CompilationError: it has no commits that could record what it has read.
    """
    if is_live(model):
        raise CompilationError(_unrecorded(model["name"], model["config"]["materialized"], macro))


def strategy_of(model: Node) -> str | None:
    """Strategy of an incremental model, None of any other."""
    config = model.get("config") or {}
    if config.get("materialized") != "incremental":
        return None
    return config.get("incremental_strategy") or default_strategy(config)


def check_news_strategy(model: Node, macro: str) -> None:
    """Refuse a model that reads what is new and overwrites whole partitions with it, and a Python
    model that replaces all its rows with it; SQL is looked at once it is compiled.

    Raises:
        CompilationError: of each partition, or of all, only the newest rows would be left.
    """
    if strategy_of(model) == REPLACING_ALL and model.get("language") == "python":
        partial = (model.get("config") or {}).get(PARTIAL_RUNS)
        if "this" not in model["raw_code"] and not partial:
            raise CompilationError(replaces_by_a_part(model["name"]))
    if strategy_of(model) == OVERWRITING:
        raise CompilationError(
            f"{macro}: strategy '{OVERWRITING}' of {model['name']} would overwrite a partition's "
            f"rows with its new rows alone; read it through changed_partitions(..) under "
            f"strategy '{REPLACING}', or add the rows by strategy 'append_new_rows'"
        )


def replaces_by_a_part(name: str) -> str:
    """Error text for a model that replaces all its rows, and reads a part of its inputs for it."""
    return (
        f"{name}: strategy '{REPLACING_ALL}' leaves the rows alone that a run gives, and this "
        "model reads what is new or has changed alone, so that the rows of earlier runs would go; "
        "read all rows by pinned(..), add to its own rows (this), or take strategy "
        f"'append_new_rows' or 'merge'; or, if each run's result is meant by itself, say "
        f"{PARTIAL_RUNS}=true in its config."
    )
