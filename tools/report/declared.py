"""What the project declares to be counted, and the tables that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.sparksession.declared.count_plans import change_of
from dbt.adapters.sparksession.warehouse import scoped_vars
from jinja2.exceptions import TemplateError
from jinja2.sandbox import SandboxedEnvironment

LAYER = "dws"  # of the tables that hold counts
DAY = "cut_date"
PERIODS = ("cut_month", "cut_year")
SKETCHES = ("theta", "hll")  # binary: a reader can't use them
OF_WINDOWS = {"grain", "dimension_set", "window_start"}  # columns of a summary by windows


@dataclass(frozen=True)
class Counted:
    """A table that holds what one declaration counts.

    Attributes:
        table: name in the warehouse, schema.identifier.
        name: the model's name.
        count: the macro that declares it.
        measures: measure -> its aggregate; no sketches.
        dimensions: columns that a person can read: ids are left out.
        ids: columns of ids, of which the distinct values can be counted.
        grains: lengths of the windows; () where the table has days or totals.
        sets: dimension set -> its one column, of the sets with one.
        has_days: whether it has a row per business day.
        columns: measure -> the table's column of it, where that has another name: the days hold net
            changes.
    """

    table: str
    name: str
    count: str
    measures: Mapping[str, str]
    dimensions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    grains: tuple[str, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    has_days: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)

    def sum_of(self, measure: str) -> str:
        """SQL of a measure's sum over rows of the table."""
        return f"sum({self.columns.get(measure, measure)})"


class _Returned(Exception):
    """Carries the value that a macro returns out of its template."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _return(value: Any) -> None:
    raise _Returned(value)


def value_of(macro_sql: str, name: str, variables: Mapping[str, Any]) -> Any:
    """The value that a macro without arguments returns; None where it needs more than vars.

    >>> value_of("{% macro two() %}{% do return(var('n') + 1) %}{% endmacro %}", "two", {"n": 1})
    2
    >>> value_of("{% macro rows() %}{{ ref('a') }}{% endmacro %}", "rows", {}) is None
    True
    """
    environment = SandboxedEnvironment(extensions=["jinja2.ext.do"])
    template = f"{macro_sql}{{{{ {name}() }}}}"
    try:
        environment.from_string(template).render({"return": _return, "var": variables.get})
    except _Returned as returned:
        return returned.value
    except (TemplateError, TypeError, ValueError):
        return None
    return None


def vars_of(project: Mapping[str, Any]) -> dict[str, Any]:
    """The vars that a project's own models see: those of its name before those of all packages.

    Args:
        project: its dbt_project.yml.

    >>> vars_of({"name": "shop", "vars": {"zone": "UTC", "shop": {"zone": "+08:00"}}})["zone"]
    '+08:00'
    """
    return scoped_vars(project.get("vars") or {}, project["name"])


def counted_tables(manifest: Mapping[str, Any], variables: Mapping[str, Any]) -> list[Counted]:
    """The tables of counts and metrics of a project, by the macros that their models call.

    Args:
        manifest: dbt's manifest.
        variables: the project's vars.
    """
    project = manifest["metadata"]["project_name"]
    values: dict[str, Any] = {}
    found = []
    for node in manifest["nodes"].values():
        if node["resource_type"] != "model" or node["fqn"][1] != LAYER:
            continue
        for key in node["depends_on"]["macros"]:
            macro = manifest["macros"].get(key)
            if macro is None or macro["package_name"] != project:
                continue
            if key not in values:
                values[key] = value_of(macro["macro_sql"], macro["name"], variables)
            if isinstance(values[key], Mapping) and "measures" in values[key]:
                found += _counted(node, macro["name"], values[key])
    return sorted(found, key=lambda counted: (counted.count, counted.name))


def _counted(node: Mapping[str, Any], count: str, declared: Mapping[str, Any]) -> list[Counted]:
    columns = set(node["columns"])
    table = f"{node['schema']}.{node.get('alias') or node['name']}"
    changes = {name: change_of(name) for name in declared["measures"] if change_of(name) in columns}
    shown = {
        name: measure["aggregate"]
        for name, measure in declared["measures"].items()
        if changes.get(name, name) in columns and measure["aggregate"] not in SKETCHES
    }
    if "grains" in declared:
        if not columns >= OF_WINDOWS:
            return []
        sets = declared.get("dimension_sets") or {}
        return [
            Counted(
                table,
                node["name"],
                count,
                shown,
                grains=tuple(declared["grains"]),
                sets={name: names[0] for name, names in sets.items() if len(names) == 1},
            )
        ]
    # extremes of groups can't be added up
    measures = {name: kind for name, kind in shown.items() if kind in ("count", "sum")}
    if not measures or columns & set(PERIODS):
        return []
    dimensions = [name for name in declared["dimensions"] if name in columns]
    ids = tuple(name for name in dimensions if name.endswith("_id"))
    readable = tuple(name for name in dimensions if name not in ids and name != DAY)
    has_days = DAY in columns
    return [
        Counted(
            table,
            node["name"],
            count,
            measures,
            readable,
            ids,
            has_days=has_days,
            columns=changes,
        )
    ]
