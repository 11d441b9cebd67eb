"""Lists of models that a project writes by hand, since dbt takes the names in `ref` literally.

`dbt parse` can't derive them: while dbt parses, the project's graph is still empty. So each list is
compared with what the models declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes

TYPED_MODELS = "typed_models"  # the macro that lists the models with `meta.source`
READS_ALL = "reads_all"  # in a model's `meta`: it reads all models of this kind and no others
KINDS = {
    "columns_of_interest": "declare columns_of_interest in meta.source",
    "cleaning": "have a column with meta.cleaning",
    "reconciles_with": "have the test reconciles_with",
}


def typed_models_problems(typed: Sequence[Any], manifest: Any) -> Iterator[str]:
    """Compare the macro `typed_models` with the models that declare a source table.

    Nothing is wrong in a project in which no model reads the list.

    Args:
        typed: dbt's nodes with `meta.source`.
        manifest: dbt's, of the whole project.

    Yields:
        One sentence for all missing models, one for all superfluous ones.
    """
    lists = {key: one for key, one in manifest.macros.items() if one.name == TYPED_MODELS}
    models = _models(manifest)
    readers = [one for one in models if lists.keys() & set(one.depends_on.macros)]
    if not readers:
        return
    listed = set.intersection(*(set(one.depends_on.nodes) for one in readers))
    (macro, *_) = lists.values()
    missing = [one.name for one in typed if one.unique_id not in listed]
    if missing:
        yield (
            f"{macro.original_file_path}: the macro {TYPED_MODELS} lacks {', '.join(missing)}, so "
            f"that {', '.join(one.name for one in readers)} would leave out what these models "
            f"declare in meta.source. Add {_refs(missing)} to its list"
        )
    with_source = {one.name for one in typed}
    more = [name for name in _named_by(macro.macro_sql) if name not in with_source]
    if more:
        yield (
            f"{macro.original_file_path}: the macro {TYPED_MODELS} lists {', '.join(more)}, "
            f"without meta.source in the YAML of the model. Take {_refs(more)} out of its list, "
            "or declare the source"
        )


def check_lists(readers: Sequence[Any], manifest: Any) -> Iterator[tuple[str, str]]:
    """Compare the inputs of models that say `meta.reads_all` with the models of that kind.

    Args:
        readers: dbt's nodes with `meta.reads_all`.
        manifest: dbt's, of the whole project.

    Yields:
        Unique id of a model; the problem as a text.
    """
    models = _models(manifest)
    names = {one.unique_id: one.name for one in models}
    for reader in sorted(readers, key=lambda one: one.name):
        kind = reader.config.meta[READS_ALL]
        if kind not in KINDS:
            known = ", ".join(KINDS)
            yield (
                reader.unique_id,
                f"{reader.name}: `meta.{READS_ALL}` must be one of {known}, got {kind!r}",
            )
            continue
        wanted = _of_kind(kind, models, manifest)
        read = {key for key in reader.depends_on.nodes if key in names}
        if missing := sorted(names[key] for key in wanted - read):
            yield (
                reader.unique_id,
                f"{reader.name}: it must read all models that {KINDS[kind]}, and it lacks "
                f"{', '.join(missing)}. Add {_refs(missing)} to {reader.original_file_path}",
            )
        if more := sorted(names[key] for key in read - wanted):
            yield (
                reader.unique_id,
                f"{reader.name}: it must read only models that {KINDS[kind]}, and it reads "
                f"{', '.join(more)}. Take {_refs(more)} out of {reader.original_file_path}",
            )


def _models(manifest: Any) -> list[Any]:
    found = (one for one in manifest.nodes.values() if one.resource_type == "model")
    return sorted(found, key=lambda one: one.name)


def _of_kind(kind: str, models: Sequence[Any], manifest: Any) -> set[str]:
    """Unique ids of the models of a kind of KINDS."""
    if kind == "reconciles_with":
        tests = (one for one in manifest.nodes.values() if one.resource_type == "test")
        return {
            one.attached_node
            for one in tests
            if one.attached_node and one.test_metadata and one.test_metadata.name == kind
        }
    if kind == "cleaning":
        return {
            one.unique_id
            for one in models
            if any(kind in column.meta for column in one.columns.values())
        }
    declared = ((one.unique_id, one.config.meta.get("source")) for one in models)
    return {key for key, source in declared if isinstance(source, dict) and source.get(kind)}


def _named_by(sql: str) -> list[str]:
    """Names of the models that the `ref`s of a macro name literally, in their order."""
    try:
        parsed = Environment(extensions=["jinja2.ext.do"]).parse(sql)
    except TemplateSyntaxError:  # with what dbt alone knows; dbt has parsed it
        return []
    refs = [
        one.args[-1].value
        for one in parsed.find_all(nodes.Call)
        if isinstance(one.node, nodes.Name) and one.node.name == "ref"
        if one.args and isinstance(one.args[-1], nodes.Const)
    ]
    return list(dict.fromkeys(str(one) for one in refs))


def _refs(names: Sequence[str]) -> str:
    return ", ".join(f"ref('{one}')" for one in names)
