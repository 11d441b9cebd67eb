"""Checks of what models declare in their `meta`; profiles/profiles.yml names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from python_udfs.ingestion.declared.lists import typed_models_problems
from python_udfs.ingestion.declared.table_settings import settings_problem, table_settings
from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.declared.topic_formats import problems_of
from python_udfs.ingestion.tables.source import TableSource


def check_sources(models: Sequence[Any], manifest: Any) -> Iterator[tuple[str | None, str]]:
    """What is wrong with the typed tables of a project, with the settings that they take from their
    log, and with the list of them.

    Args:
        models: dbt's nodes with `meta.source`.
        manifest: dbt's, of the whole project.

    Yields:
        Unique id of a model, None where it is the topics' formats or the list; the problem as a
        text.
    """
    sources: dict[str, TableSource] = {}
    for model in sorted(models, key=lambda model: model.name):
        logs = [manifest.nodes[node] for node in model.depends_on.nodes if node in manifest.nodes]
        of_log: dict[str, Any] = next(
            (log.config.meta for log in logs if "formats" in log.config.meta), {}
        )
        try:
            source = table_source(model.name, model.config.meta["source"])
            problem = settings_problem(model.name, table_settings(model.config.meta, of_log))
        except ValueError as exc:
            problem = str(exc)
        if problem:
            yield model.unique_id, problem
        else:
            sources[model.name] = source
    formats: dict[str, Any] = {}
    has_log = False
    for node in sorted(manifest.nodes.values(), key=lambda node: node.name):
        if node.resource_type == "model" and isinstance(node.config.meta.get("formats"), dict):
            formats |= node.config.meta["formats"]
            has_log = True
    if has_log:
        yield from ((None, problem) for problem in problems_of(sources, formats))
    yield from ((None, problem) for problem in typed_models_problems(models, manifest))
    yield from _retracting_problems(sources, manifest)


def _retracting_problems(
    sources: dict[str, TableSource], manifest: Any
) -> Iterator[tuple[str, str]]:
    """Models that make retract rows of a table whose changes may come without the row before them:
    these would take nulls away, and leave what they should take away."""
    partial = {
        node.unique_id: node.name
        for node in manifest.nodes.values()
        if node.resource_type == "model"
        and node.name in sources
        and sources[node.name].options.get("pre_images") == "any"
    }
    for node in sorted(manifest.nodes.values(), key=lambda node: node.name):
        # of a macro that isn't there dbt notes None
        macros = [macro for macro in node.depends_on.macros if macro is not None]
        if not any(macro.endswith(".retract_rows") for macro in macros):
            continue
        for read in sorted(partial.keys() & {*node.depends_on.nodes}):
            yield (
                node.unique_id,
                f"{node.name} makes retract rows of {partial[read]}, which takes updates and "
                "deletes without the document before them; set pre_images: required in the "
                f"options of {partial[read]}, which refuses those, or fold its rows by their "
                "known_columns",
            )
