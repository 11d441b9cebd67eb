"""dbt's versions of a model (`versions:`): a public model changes its columns while readers of the
old columns go on, and each warehouse version holds both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT, make_raw

SOURCES = """
    version: 2
    sources: [{name: raw, schema: dw, tables: [{name: raw}]}]
"""
BEFORE = """
    version: 2
    models:
      - name: orders
        access: public
        config: {on_schema_change: fail, contract: {enforced: true}}
        columns: [{name: id, data_type: bigint}, {name: amount, data_type: "decimal(10,2)"}]
"""
# the table keeps its name and its rows; the new version has a name of its own
AFTER = """
    version: 2
    models:
      - name: orders
        access: public
        latest_version: 2
        config: {on_schema_change: fail, contract: {enforced: true}}
        columns:
          - {name: id, data_type: bigint}
          - {name: amount, data_type: "decimal(12,4)"}
          - {name: kind, data_type: string}
        versions:
          - v: 1
            defined_in: orders
            deprecation_date: 2099-01-01
            config: {alias: orders}
            columns:
              - {include: all, exclude: [amount, kind]}
              - {name: amount, data_type: "decimal(10,2)"}
          - v: 2
"""
V1 = """
    {{ config(materialized='incremental') }}
    select id, cast(id as decimal(10,2)) as amount from {{ new_rows(source('raw', 'raw')) }}
"""
V2 = """
    {{ config(materialized='incremental') }}
    select id, cast(id / 8 as decimal(12,4)) as amount, 'x' as kind
    from {{ new_rows(source('raw', 'raw')) }}
"""
OLD = "select sum(amount) as amount from {{ ref('orders') }}"
OLD_PINNED = "select sum(amount) as amount from {{ ref('orders', v=1) }}"
NEW = "select kind, sum(amount) as amount from {{ ref('orders') }} group by kind"


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    """Version 1 of the warehouse holds orders as it was, version 2 both."""
    project = make_project(
        {
            "dbt_project.yml": PROJECT,
            "models/_sources.yml": SOURCES,
            "models/_orders.yml": BEFORE,
            "models/orders.sql": V1,
            "models/old_reader.sql": OLD,
        }
    )
    make_raw(project)
    project.query("insert into dw.raw values (8), (16)")
    assert "Published as version 1" in project.run("build").log
    project.query("insert into dw.raw values (24)")
    project.write(
        {
            "models/_orders.yml": AFTER,
            "models/orders_v2.sql": V2,
            "models/old_reader.sql": OLD_PINNED,
            "models/new_reader.sql": NEW,
        }
    )
    assert "Published as version 2" in project.run("build").log
    return project


def test_both_versions_of_a_model_are_published_and_the_old_goes_on(
    project: DbtProject,
) -> None:
    old = project.query("select id, amount from published.orders order by id")
    assert [(row["id"], str(row["amount"])) for row in old] == [
        (8, "8.00"),
        (16, "16.00"),
        (24, "24.00"),
    ]
    new = project.query("select id, amount, kind from published.orders_v2 order by id")
    assert [(row["id"], str(row["amount"]), row["kind"]) for row in new] == [
        (8, "1.0000", "x"),
        (16, "2.0000", "x"),
        (24, "3.0000", "x"),
    ]
    # the old table was gone on with, not made again
    commits = project.column("select operation from dw.orders.snapshots order by committed_at")
    assert len(commits) == 2


def test_readers_choose_their_version_and_see_it_whole(project: DbtProject) -> None:
    assert [str(it) for it in project.column("select amount from published.old_reader")] == [
        "48.00"
    ]
    assert [str(it) for it in project.column("select amount from published.new_reader")] == [
        "6.0000"
    ]
    # the warehouse's own older version has the model as it was
    asked = "select sum(amount) as amount from {{ ref('orders', v=1) }}"
    shown = project.run("show", "--inline", asked, "--output", "json", vars={"as_of_version": 1})
    assert '"amount": 24.0' in shown.log
