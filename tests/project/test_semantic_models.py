"""The semantic models say what the project's own declarations of counts and metrics say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jinja2
import pytest
from dbt.adapters.sparksession.declared.count_plans import change_of

from tests.support.dbt_project import REPO, DbtProject

# semantic model -> macro that declares what its model counts
DECLARED_BY = {
    "order_changes": "user_status",
    "placed_orders": "placed_orders",
    "page_views": "page_views",
}
# what can be summed up again over days and users; the others can't: distinct numbers, sketches
ADDITIVE = ("count", "sum")
WINDOW = {"grain", "dimension_set", "window_start"}


class ReturnedError(Exception):
    """What a macro returned."""


def declaration(name: str) -> dict[str, Any]:
    """What a macro of macros/business/counts returns."""

    def give_back(value: Any) -> None:
        raise ReturnedError(value)

    text = (REPO / "macros" / "business" / "counts" / f"{name}.sql").read_text("utf-8")
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)
    environment.globals["return"] = give_back
    with pytest.raises(ReturnedError) as returned:
        environment.from_string(f"{text}{{{{ {name}() }}}}").render()
    return returned.value.args[0]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Any:
    project = DbtProject(REPO, tmp_path_factory.mktemp("semantic") / "warehouse")
    return project.run("parse", "--target", "ci", "--no-partial-parse").raw


@pytest.fixture(scope="module")
def models(manifest: Any) -> Mapping[str, Any]:
    return {model.name: model for model in manifest.semantic_models.values()}


def test_each_semantic_model_has_a_declaration(models: Mapping[str, Any]) -> None:
    assert models.keys() == DECLARED_BY.keys()


@pytest.mark.parametrize("name", DECLARED_BY)
def test_measures_and_dimensions_are_those_that_are_declared(
    name: str, models: Mapping[str, Any], manifest: Any
) -> None:
    model, declared = models[name], declaration(DECLARED_BY[name])
    (unique_id,) = model.depends_on.nodes
    node = manifest.nodes[unique_id]
    assert f"{DECLARED_BY[name]}()" in node.raw_code
    additive = {key for key, it in declared["measures"].items() if it["aggregate"] in ADDITIVE}
    # the days of a count hold net changes, the windows of a metric the numbers themselves
    column_of = (lambda key: key) if "grains" in declared else change_of
    columns = {column_of(key) for key in additive}
    assert {measure.expr for measure in model.measures} == columns
    assert {measure.agg.value for measure in model.measures} == {"sum"}
    assert {measure.name for measure in model.measures} == {f"{name}_{key}" for key in additive}
    given = {dimension.name for dimension in model.dimensions} - {"cut_date"}
    given |= {entity.expr for entity in model.entities}
    if "dimension_sets" in declared:
        sets = declared["dimension_sets"].values()
        assert given == WINDOW | {column for columns in sets for column in columns}
    else:
        assert given == set(declared["dimensions"])
    assert given | columns | {"cut_date"} <= node.columns.keys()


def test_a_metric_of_windows_counts_each_event_once(manifest: Any) -> None:
    """Each grain and each set of dimensions holds all events."""
    looked_at = set()
    for metric in manifest.metrics.values():
        measure = metric.type_params.measure.name
        name = next(name for name in DECLARED_BY if measure.startswith(f"{name}_"))
        declared = declaration(DECLARED_BY[name])
        if "grains" not in declared:
            assert metric.filter is None
            continue
        (where,) = [found.where_sql_template for found in metric.filter.where_filters]
        conditions = dict(re.findall(r"Dimension\('\w+__(\w+)'\) \}\} = '(\w+)'", where))
        assert conditions == {"grain": declared["grains"][0], "dimension_set": "all"}
        assert declared["dimension_sets"]["all"] == []
        looked_at.add(metric.name)
    assert looked_at == {"orders_placed", "gmv", "page_views"}


def test_every_measure_has_a_metric(manifest: Any, models: Mapping[str, Any]) -> None:
    used = {metric.type_params.measure.name for metric in manifest.metrics.values()}
    assert used == {measure.name for model in models.values() for measure in model.measures}


def test_standing_counts_are_the_sums_of_all_changes_up_to_a_day(manifest: Any) -> None:
    standing = [metric for metric in manifest.metrics.values() if metric.name.endswith("standing")]
    assert len(standing) == 2
    for metric in standing:
        assert metric.type.value == "cumulative"
        assert metric.type_params.window is None
