"""Vars as packages see them: a package may declare some itself, and the project some for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from dbt.adapters.sparksession.edges import Foreign, Json, Node, Settings
from dbt.adapters.sparksession.reading.macro_calls import ENGINE_PACKAGES, used_macros
from dbt.adapters.sparksession.reading.named_values import vars_called
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.warehouse import Warehouse

OWN_VARS, OF_VIEWS = "package_vars", "package_views"  # parts of a definition


def vars_of_packages(
    warehouse: Warehouse,
    model: Node,
    views: Sequence[Foreign],
    macros: Settings,
    called: Iterable[str],
) -> Json:
    """What a model's definition has of vars that packages see otherwise than the project.

    Args:
        views: those that the model reads its tables through.
        macros: id -> macro of the manifest.
        called: vars that the model reads.

    Returns:
        OWN_VARS: a hash of those that the model's package declares itself, of a model of a package.
        OF_VIEWS: a hash of those that views of other packages read, where such a view calls macros
        or reads vars. Older adapters rendered it with the macros and vars of the model's package.
    """
    found: Json = {}
    if model["package_name"] != warehouse.config.project_name:
        own, others = warehouse.own_vars_of(model), warehouse.project_vars_of(model)
        read = {name: own[name] for name in called if name in own and name not in others}
        found[OWN_VARS] = _mark(read)
    of_views: Json = {}
    for view in views:
        if view.package_name == model["package_name"]:
            continue
        used = used_macros(view.depends_on.macros, macros)
        own_macros = [macro for macro in used if macro.package_name not in ENGINE_PACKAGES]
        read = vars_called([view.raw_code, *(macro.macro_sql for macro in used)])
        if own_macros or read or "this" in view.raw_code:
            values = warehouse.vars_of({"package_name": view.package_name})
            of_views[view.unique_id] = {
                name: values.get(name, default) for name, default in read.items()
            }
    if of_views:
        found[OF_VIEWS] = _mark(of_views)
    return found


def _mark(values: Json) -> str:
    return mark_of(json.dumps(values, sort_keys=True, default=str))
