"""The project's low-frequency dimensions: seeds and a view, their snapshots, the versions."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.dbt_project import REPO, DbtProject

BUILD = ("build", "--select", "city+", "dwd_product__product_price_latest+")
FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: product}]
    """,
    # in the place of the project's own
    "models/dwd_product__product_price_latest.sql": "select * from {{ source('src', 'product') }}",
}
CITIES = "select city_code, city_name, is_current from dw.dim_city order by city_code, valid_from"
PRODUCTS = "select product_id, product_name, is_current from dw.dim_product order by 1, valid_from"


class Dimensions:
    """A project with the repository's seeds, snapshots and dimensions."""

    def __init__(self, make_project: Callable[..., DbtProject]) -> None:
        copied = [
            *(REPO / "seeds").iterdir(),
            *(REPO / "snapshots").iterdir(),
            *(REPO / "models" / "dwd" / "dim" / f"dim_{one}.sql" for one in ("city", "product")),
            REPO / "models" / "shared_columns.md",
        ]
        own = {path.relative_to(REPO).as_posix(): path.read_text("utf-8") for path in copied}
        self.project = make_project(own | FILES)
        self.seed: Path = self.project.root / "seeds" / "city.csv"
        self.project.query("create namespace if not exists src")

    def cities(self) -> list[dict[str, str]]:
        with self.seed.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def write_cities(self, cities: list[dict[str, str]]) -> None:
        with self.seed.open("w", encoding="utf-8", newline="") as file:
            lines = csv.DictWriter(file, list(cities[0]))
            lines.writeheader()
            lines.writerows(cities)

    def write_products(self, values: str) -> None:
        self.project.query(
            "create or replace table src.product using iceberg as "
            f"select * from values {values} as t(product_id, product_name, price)"
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.project.query(query)]


@pytest.fixture(scope="module")
def dimensions(make_project: Callable[..., DbtProject]) -> Dimensions:
    """Built once, then built again after changes of the cities and products."""
    found = Dimensions(make_project)
    found.write_products("(1, 'lamp', 10), (2, 'desk', 20), (3, 'chair', 30)")
    found.project.run(*BUILD)
    first = found.cities()
    assert found.rows(CITIES) == [(one["city_code"], one["city_name"], True) for one in first]

    changed = [one for one in first if one["city_code"] != "BR-SAO"]
    next(one for one in changed if one["city_code"] == "JP-TYO")["city_name"] = "Tokyo"
    for code, name in (("XX-PTH", "C:\\path"), ("XX-QUO", '"Quote" City')):
        changed.append({"city_code": code, "city_name": name, "country_code": "XX"})
    found.write_cities(changed)
    # a new name, a new price, gone
    found.write_products("(1, 'lamp, \"new\"', 10), (2, 'desk', 25)")
    found.project.run(*BUILD)
    return found


def test_a_changed_name_opens_a_version(dimensions: Dimensions) -> None:
    cities = [row for row in dimensions.rows(CITIES) if row[0] in ("JP-TYO", "CH-ZRH")]
    assert cities == [
        ("CH-ZRH", "Zürich", True),
        ("JP-TYO", "東京", False),
        ("JP-TYO", "Tokyo", True),
    ]
    assert [row for row in dimensions.rows(PRODUCTS) if row[0] < 3] == [
        (1, "lamp", False),
        (1, 'lamp, "new"', True),
        (2, "desk", True),
    ]


def test_a_version_ends_where_the_next_one_begins(dimensions: Dimensions) -> None:
    for table, key in (("dim_city", "'JP-TYO'"), ("dim_product", "'1'")):
        old, new = dimensions.rows(
            f"select valid_from, valid_to from dw.{table} "
            f"where {'city_code' if table == 'dim_city' else 'product_id'} = {key} "
            "order by valid_from"
        )
        assert old[0] < old[1] == new[0]
        assert new[1] is None


def test_what_was_deleted_has_no_current_version(dimensions: Dimensions) -> None:
    assert [row for row in dimensions.rows(CITIES) if row[0] == "BR-SAO"] == [
        ("BR-SAO", "São Paulo", False)
    ]
    assert dimensions.rows(PRODUCTS)[-1] == (3, "chair", False)


def test_names_with_quotes_and_backslashes_arrive_as_they_are(dimensions: Dimensions) -> None:
    names = [row[1] for row in dimensions.rows(CITIES) if row[0].startswith("XX")]
    assert names == ["C:\\path", '"Quote" City']


def test_another_run_changes_nothing(dimensions: Dimensions) -> None:
    tables = ("city", "city_versions", "product_versions")
    commits = "select snapshot_id from dw.{}.snapshots order by committed_at"
    before = [dimensions.rows(commits.format(table)) for table in tables]

    outcome = dimensions.project.run(*BUILD)

    assert [dimensions.rows(commits.format(table)) for table in tables] == before
    assert {outcome.results[table].message for table in tables} == {"nothing new"}
