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
        One sentence for all missing models, one for all superfluous models.
    """
    lists = {key: macro for key, macro in manifest.macros.items() if macro.name == TYPED_MODELS}
    models = _models(manifest)
    readers = [model for model in models if lists.keys() & set(model.depends_on.macros)]
    if not readers:
        return
    listed = set.intersection(*(set(reader.depends_on.nodes) for reader in readers))
    (macro, *_) = lists.values()
    missing = [node.name for node in typed if node.unique_id not in listed]
    if missing:
        yield (
            f"{macro.original_file_path}: the macro {TYPED_MODELS} lacks {', '.join(missing)}, so "
            f"that {', '.join(reader.name for reader in readers)} would leave out what these "
            f"models declare in meta.source. Add {_refs(missing)} to its list"
        )
    with_source = {node.name for node in typed}
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
    names = {model.unique_id: model.name for model in models}
    for reader in sorted(readers, key=lambda reader: reader.name):
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
    found = (node for node in manifest.nodes.values() if node.resource_type == "model")
    return sorted(found, key=lambda node: node.name)


def _of_kind(kind: str, models: Sequence[Any], manifest: Any) -> set[str]:
    """Unique ids of the models of a kind of KINDS."""
    if kind == "reconciles_with":
        tests = (node for node in manifest.nodes.values() if node.resource_type == "test")
        return {
            test.attached_node
            for test in tests
            if test.attached_node and test.test_metadata and test.test_metadata.name == kind
        }
    if kind == "cleaning":
        return {
            model.unique_id
            for model in models
            if any(kind in column.meta for column in model.columns.values())
        }
    declared = ((model.unique_id, model.config.meta.get("source")) for model in models)
    return {key for key, source in declared if isinstance(source, dict) and source.get(kind)}


def _named_by(sql: str) -> list[str]:
    """Names of the models that the `ref`s of a macro name literally, in their order."""
    try:
        parsed = Environment(extensions=["jinja2.ext.do"]).parse(sql)
    except TemplateSyntaxError:  # with what dbt alone knows; dbt has parsed it
        return []
    refs = [
        call.args[-1].value
        for call in parsed.find_all(nodes.Call)
        if isinstance(call.node, nodes.Name) and call.node.name == "ref"
        if call.args and isinstance(call.args[-1], nodes.Const)
    ]
    return list(dict.fromkeys(str(ref) for ref in refs))


def _refs(names: Sequence[str]) -> str:
    return ", ".join(f"ref('{name}')" for name in names)
