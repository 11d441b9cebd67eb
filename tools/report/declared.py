"""What the project declares to be counted, and the tables that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment
from jinja2.exceptions import TemplateError

FOLDER = "counts"  # of the macros that declare what is counted
DAY = "cut_date"
PERIODS = ("cut_month", "cut_year")
SKETCHES = ("theta", "hll")  # binary: they say nothing to a reader


@dataclass(frozen=True)
class Counted:
    """A table that holds what one declaration counts.

    Attributes:
        table: name in the warehouse, schema.identifier.
        name: the model's name.
        count: the macro that declares it.
        measures: measures that can be added up or shown as they are; no sketches.
        dimensions: columns that a person can read: ids are left out.
        ids: columns of ids, of which the distinct ones can be counted.
        grains: lengths of the windows; () where the table has days or totals.
        sets: dimension set -> its one column, of those with one.
        has_days: whether it has a row per business day.
    """

    table: str
    name: str
    count: str
    measures: tuple[str, ...]
    dimensions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    grains: tuple[str, ...] = ()
    sets: Mapping[str, str] | None = None
    has_days: bool = False


class _Returned(Exception):
    """Carries what a macro returns out of its template."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _give_back(value: Any) -> None:
    raise _Returned(value)


def value_of(macro_sql: str, name: str, variables: Mapping[str, Any]) -> Any:
    """What a macro without arguments returns; None where it needs more than vars."""
    environment = Environment(extensions=["jinja2.ext.do"])
    template = f"{macro_sql}{{{{ {name}() }}}}"
    try:
        environment.from_string(template).render({"return": _give_back, "var": variables.get})
    except _Returned as returned:
        return returned.value
    except (TemplateError, TypeError):
        return None
    return None


def counted_tables(manifest: Mapping[str, Any], variables: Mapping[str, Any]) -> list[Counted]:
    """The tables of counts and metrics of a project, by the macros that their models call.

    Args:
        manifest: dbt's manifest.
        variables: the project's vars.
    """
    counts = {}
    for key, macro in manifest["macros"].items():
        if f"/{FOLDER}/" in macro["original_file_path"]:
            value = value_of(macro["macro_sql"], macro["name"], variables)
            if isinstance(value, Mapping) and "measures" in value:
                counts[key] = macro["name"], value
    found = []
    for node in manifest["nodes"].values():
        if node["resource_type"] != "model" or node["fqn"][1] != "dws":
            continue
        for key in node["depends_on"]["macros"]:
            if key in counts:
                found += _counted(node, *counts[key])
    return sorted(found, key=lambda one: (one.count, one.name))


def _counted(node: Mapping[str, Any], count: str, declared: Mapping[str, Any]) -> list[Counted]:
    columns = set(node["columns"])
    names = f"{node['schema']}.{node.get('alias') or node['name']}"
    shown = {
        name: measure["aggregate"]
        for name, measure in declared["measures"].items()
        if name in columns and measure["aggregate"] not in SKETCHES
    }
    if "grains" in declared:
        if not {"grain", "dimension_set", "window_start"} <= columns:
            return []
        sets = {
            name: of[0] for name, of in declared.get("dimension_sets", {}).items() if len(of) == 1
        }
        grains = tuple(declared["grains"])
        return [Counted(names, node["name"], count, tuple(shown), grains=grains, sets=sets)]
    # extremes of groups can't be added up
    measures = tuple(name for name, kind in shown.items() if kind in ("count", "sum"))
    if not measures or columns & set(PERIODS):
        return []
    dimensions = [name for name in declared["dimensions"] if name in columns]
    ids = tuple(name for name in dimensions if name.endswith("_id"))
    readable = tuple(name for name in dimensions if name not in ids and name != DAY)
    return [
        Counted(names, node["name"], count, measures, readable, ids, has_days=DAY in columns)
    ]
