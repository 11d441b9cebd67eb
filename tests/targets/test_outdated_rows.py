"""Rows of a store that were right, and aren't any more: they go, or are reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from dbt.adapters.sparksession.versions import publication_records

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT
from tools.report.facts import queries

# the clock of the view: what Java answers, which the test sets
CLOCK = "cast(java_method('java.lang.System', 'getProperty', 'test.day') as int)"
FILES = {
    "dbt_project.yml": PROJECT,
    "models/offers.sql": """
        {{ config(materialized='incremental') }}
        select id, last_day from {{ new_rows(source('raw', 'given')) }}
    """,
    "models/open_offers.sql": f"""
        select id, last_day from {{{{ ref('offers') }}}} where last_day >= {CLOCK}
    """,
    "models/_models.yml": """
        version: 2
        sources:
          - name: raw
            schema: dw
            tables: [{name: given}]
        exposures:
          - name: open_offers_in_serving
            type: application
            owner: {name: data}
            depends_on: [ref('open_offers')]
            config: {meta: {publish: {target: serving, key: [id]}}}
    """,
}


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    """A project that publishes, on day 1."""
    made = make_project(FILES, publish_targets="serving=iceberg")
    made.query("create namespace if not exists dw")
    made.query("create table dw.given (id int, last_day int) using iceberg")
    set_day(made, 1)
    return made


def set_day(project: DbtProject, day: int) -> None:
    setting = f"'setProperty', 'test.day', '{day}'"
    project.query(f"select java_method('java.lang.System', {setting})")


def test_rows_that_a_view_leaves_out_by_the_clock_leave_the_store(project: DbtProject) -> None:
    def held() -> list[int]:
        return sorted(project.column("select id from serving.open_offers"))

    project.query("insert into dw.given values (1, 1), (2, 9), (3, 2)")
    project.run("build")
    assert held() == [1, 2, 3]

    # with the next version
    set_day(project, 2)
    project.query("insert into dw.given values (4, 9)")
    project.run("build")
    assert held() == [2, 3, 4]

    # without one
    set_day(project, 3)
    project.run("run-operation", "publish_to")
    assert held() == [2, 4]


@pytest.mark.in_turn
def test_a_table_that_no_exposure_names_any_more_is_reported(project: DbtProject) -> None:
    project.query("insert into dw.given values (1, 1)")
    assert "no exposure publishes it" not in project.run("build").log
    path = project.root / "models" / "_models.yml"
    text = path.read_text().replace("key: [id]", "key: [id], table: open_now")
    path.write_text(text)

    project.query("insert into dw.given values (2, 2)")
    log = project.run("build").log

    assert "open_offers: no exposure publishes it any more; it stays as of version 1" in log
    assert project.column("select count(*) from serving.open_now") == [2]
    assert project.column("select count(*) from serving.open_offers") == [1]
    project.query("drop table serving.open_offers")
    assert "no exposure publishes it" not in project.run("run-operation", "publish_to").log


@pytest.mark.in_turn
def test_rows_of_a_view_that_is_no_model_are_those_of_now(
    make_project: Callable[..., DbtProject],
) -> None:
    """Such a view has no snapshot: a version has whatever it gives when it is read."""
    files = {
        "dbt_project.yml": PROJECT,
        "models/prices.sql": "select id, price from {{ source('other', 'prices') }}",
        "models/_models.yml": """
            version: 2
            sources:
              - name: other
                tables: [{name: prices}]
            exposures:
              - name: prices_in_serving
                type: application
                owner: {name: data}
                depends_on: [ref('prices')]
                config: {meta: {publish: {target: serving, key: [id]}}}
        """,
    }
    project = make_project(files, publish_targets="serving=iceberg")
    project.query("create namespace other")
    project.query("create table other.rows (id int, price int) using iceberg")
    project.query("create view other.prices as select id, price from other.rows")

    def held() -> dict[int, int]:
        return {row["id"]: row["price"] for row in project.query("select * from serving.prices")}

    project.query("insert into other.rows values (1, 10), (2, 20)")
    project.run("build")
    assert held() == {1: 10, 2: 20}
    project.query("update other.rows set price = 11 where id = 1")
    project.query("delete from other.rows where id = 2")
    project.run("run-operation", "publish_to")
    assert held() == {1: 11}
    project.query("insert into other.rows values (3, 30)")
    project.run("build")
    assert held() == {1: 11, 3: 30}


def test_the_newest_publication_counts_also_behind_a_clock_that_was_ahead(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.query("insert into dw.given values (1, 9)")
    with monkeypatch.context() as patch:
        ahead = publication_records.utc_now() + timedelta(days=1)
        patch.setattr(publication_records, "utc_now", lambda: ahead)
        project.run("build")
    for version in (2, 3):
        project.query(f"insert into dw.given values ({version}, 9)")
        project.run("build")
        (row,) = project.query(queries("dw")["publications"])
        assert row["version"] == version
    assert project.column("select count(distinct published_at) from dw.meta_publication") == [3]
