"""The project's low-frequency dimensions: seeds and a view, their snapshots, the versions."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.dbt_project import REPO, DbtProject

BUILD = ("build", "--select", "city+", "holiday+", "dwd_product__product_price_latest+")
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
HOLIDAYS = (
    "select string(holiday_date), holiday_name, string(dbt_valid_from), dbt_valid_to is null "
    "from dw.holiday_versions where holiday_date in ('2026-09-25', '2026-10-02', '2026-10-03') "
    "order by holiday_date, dbt_valid_from"
)
ANNOUNCED = "2025-11-04 00:00:00"
PRODUCTS = "select product_id, product_name, is_current from dw.dim_product order by 1, valid_from"


class Dimensions:
    """A project with the repository's seeds, snapshots and dimensions."""

    def __init__(self, make_project: Callable[..., DbtProject]) -> None:
        copied = [
            *(REPO / "seeds").iterdir(),
            *(REPO / "snapshots").iterdir(),
            *(REPO / "models" / "dwd" / "dim" / f"dim_{item}.sql" for item in ("city", "product")),
            REPO / "models" / "shared_columns.md",
        ]
        own = {path.relative_to(REPO).as_posix(): path.read_text("utf-8") for path in copied}
        test = "current_versions_equal.sql"
        own[f"macros/{test}"] = (REPO / "tests/dbt/generic" / test).read_text("utf-8")
        self.project = make_project(own | FILES)
        self.seeds: Path = self.project.root / "seeds"
        self.project.query("create namespace if not exists src")

    def seed(self, name: str) -> list[dict[str, str]]:
        with (self.seeds / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def write_seed(self, name: str, rows: list[dict[str, str]]) -> None:
        with (self.seeds / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            lines = csv.DictWriter(file, list(rows[0]))
            lines.writeheader()
            lines.writerows(rows)

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
    first = found.seed("city")
    assert found.rows(CITIES) == [(row["city_code"], row["city_name"], True) for row in first]

    changed = [row for row in first if row["city_code"] != "BR-SAO"]
    next(row for row in changed if row["city_code"] == "JP-TYO")["city_name"] = "Tokyo"
    for code, name in (("XX-PTH", "C:\\path"), ("XX-QUO", '"Quote" City')):
        changed.append({"city_code": code, "city_name": name, "country_code": "XX"})
    found.write_seed("city", changed)
    days = [row for row in found.seed("holiday") if row["holiday_date"] != "2026-09-25"]
    days[-1] |= {"holiday_name": "National Holiday", "announced_at": "2025-12-01 00:00:00"}
    found.write_seed("holiday", days)
    # a new name, a new price, gone
    found.write_products("(1, 'lamp, \"new\"', 10), (2, 'desk', 25)")
    found.project.run(*BUILD)
    return found


@pytest.mark.in_turn
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
    tables = ("city", "city_versions", "holiday_versions", "product_versions")
    commits = "select snapshot_id from dw.{}.snapshots order by committed_at"
    before = [dimensions.rows(commits.format(table)) for table in tables]

    outcome = dimensions.project.run(*BUILD)

    assert [dimensions.rows(commits.format(table)) for table in tables] == before
    assert {outcome.results[table].message for table in tables} == {"nothing new"}


def test_a_day_off_has_versions_from_when_they_were_announced(dimensions: Dimensions) -> None:
    autumn = ("2026-09-25", "Mid-Autumn Festival")
    before = [
        (*autumn, ANNOUNCED, False),
        ("2026-10-02", "National Day", ANNOUNCED, True),
        ("2026-10-03", "National Day", ANNOUNCED, False),
        ("2026-10-03", "National Holiday", "2025-12-01 00:00:00", True),
    ]
    assert dimensions.rows(HOLIDAYS) == before

    # a row is back as it was; another was changed without a time
    days = dimensions.seed("holiday")
    days[-2]["holiday_name"] = "Golden Week"
    days.append({"holiday_date": autumn[0], "holiday_name": autumn[1], "announced_at": ANNOUNCED})
    dimensions.write_seed("holiday", days)
    outcome = dimensions.project.run("build", "--select", "holiday+", expect_ok=False)

    failed = [name for name, status in outcome.statuses().items() if status == "fail"]
    assert failed == ["a_day_off_that_changed_was_announced_later"]
    (gone,) = dimensions.project.column(
        "select string(dbt_valid_to) from dw.holiday_versions "
        f"where holiday_date = '{autumn[0]}' and dbt_valid_to is not null"
    )
    after = dimensions.rows(HOLIDAYS)
    assert after[:1] + after[2:] == before
    assert after[1][:2] == autumn
    assert after[1][2] > gone
    assert after[1][3]
