"""Column lineage of the project as it is compiled without a warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dbt_project import REPO, DbtProject
from tools.lineage.queries import Origin
from tools.lineage.warehouse import UNKNOWN, Lineage


@pytest.fixture(scope="module")
def lineage(tmp_path_factory: pytest.TempPathFactory) -> Lineage:
    project = DbtProject(REPO, tmp_path_factory.mktemp("lineage") / "warehouse")
    project.run("compile", "--target", "ci", "--select", "fqn:*", "--write-json")
    return Lineage.read(project.target)


@pytest.mark.in_turn
def test_every_documented_column_ends_at_its_source_or_at_a_reason(lineage: Lineage) -> None:
    """A model that can't be followed stands in `unknown`, with the reason."""
    assert lineage.unknown() == {}
    figures = lineage.figures
    assert figures["columns"] == sum(n for name, n in figures.items() if name != "columns")
    # all end at a source column or at a reason; in whole percent, which a new column leaves as
    # they are. Whoever changes where columns come from looks at what is behind another share
    assert figures["columns"] > 1000
    assert {name: round(100 * n / figures["columns"]) for name, n in figures.items()} == {
        "columns": 100,
        "resolved": 53,
        "log": 35,
        "changes": 1,
        "commits": 2,
        "run": 3,
        "count": 2,
        "constant": 4,
        "unknown": 0,
    }


@pytest.mark.parametrize(
    ("column", "sources", "reasons"),
    [
        # a typed column, its previous image, the day by its cut column
        ("ods_shop__order_info.amount", {"shop.order_info.amount"}, set()),
        ("ods_shop__order_info.cut_date", {"shop.order_info.update_time"}, {"log"}),
        ("ods_shop__order_info.binlog_position", set(), {"log"}),
        ("ods_shop__order_info.load_id", set(), {"run"}),
        # a retract row has its value from either image, by the kind of change
        ("dwd_trade__order_changelog.amount", {"shop.order_info.amount"}, {"log"}),
        # sums, counts, totals
        ("dws_trade__user_status_1d.amount_sum_change", {"shop.order_info.amount"}, {"log"}),
        ("dws_trade__user_status_1d.order_count_change", set(), {"log"}),
        ("dws_trade__user_status_td.amount_sum", {"shop.order_info.amount"}, {"log"}),
        ("dws_trade__user_status_td.order_count", set(), {"log"}),
        # a seed by a join, a version by the column that dates it
        ("dwd_trade__order_detail.start_country_code", {"city.country_code"}, set()),
        ("dim_product_price_zip.valid_to", set(), {"log"}),
        ("dim_product_price_bizip.valid_to", set(), {"changes", "log"}),
        (
            "dim_product_price_bizip.price",
            {"shop.product_price.price", "shop.product_price.product_id"},
            {"changes", "log"},
        ),
        ("dim_product_price_bizip.known_to", set(), {"run"}),
        # the rows that a derived fold gives, and a snapshot's
        (
            "dim_user_customer_zip.customer_kind",
            {f"shop.order_info.{name}" for name in ("create_time", "decision_time", "user_id")}
            | {"shop.order_info.order_id"},
            {"log"},
        ),
        ("dim_city.city_name", {"city.city_name"}, set()),
        # runs, commits, counts and constants
        ("dwd_trade__order_price.commit_number", set(), {"run"}),
        ("meta_lineage.input_table", set(), {"commits"}),
        ("meta_topic_volume.message_count", set(), {"count"}),
        ("meta_quality.check_name", set(), {"constant"}),
        ("dqc_trade__user_status_at_source.amount_sum", {"shop.order_info.amount"}, set()),
    ],
)
def test_a_column_comes_from(
    lineage: Lineage, column: str, sources: set[str], reasons: set[str]
) -> None:
    roots = lineage.roots(*column.split("."))
    assert {f"{table}.{name}" for table, name in roots.columns} == sources
    assert roots.reasons - {"constant"} == reasons - {"constant"}
    assert roots.verdict != UNKNOWN


def test_a_column_that_another_model_drops_is_unknown(lineage: Lineage) -> None:
    assert lineage.roots("dws_trade__user_status_td", "nothing").verdict == UNKNOWN


@pytest.mark.parametrize("hidden", ["AT", ["at"]])
def test_columns_that_a_fold_hides_are_none(hidden: str | list[str]) -> None:
    columns = {name: Origin() for name in ("id", "at", "kind", "v")}
    fold = {"sequence": "at", "row_kind": "kind", "hidden_columns": hidden}
    seen = Lineage.__new__(Lineage)._of_config({"config": {"fold": fold}}, columns)
    assert list(seen) == ["id", "v"]


def test_without_compiled_queries_the_columns_are_unknown_and_say_why(tmp_path: Path) -> None:
    node = {
        "resource_type": "model",
        "language": "sql",
        "name": "orders",
        "schema": "dw",
        "unique_id": "model.small.orders",
        "fqn": ["small", "orders"],
        "columns": {"id": {}},
        "config": {"materialized": "view"},
    }
    found = Lineage({"sources": {}, "nodes": {node["unique_id"]: node}})
    assert found.unknown() == {"orders.id": "The model wasn't compiled."}
    assert found.figures["unknown"] == 1
