"""Packages of dbt (packages.yml): their models, generic tests and macros run on the adapter.

dbt_utils itself is used where DBT_UTILS names a folder with a copy of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT

# a package as others are: macros by dispatch, a generic test, a model
PACKAGE = {
    "house_rules/dbt_project.yml": "name: house_rules\nversion: 1.0.0\nconfig-version: 2\n",
    "house_rules/macros/key_of.sql": """
        {% macro key_of(fields) %}
            {{ return(adapter.dispatch('key_of', 'house_rules')(fields)) }}
        {% endmacro %}
        {% macro default__key_of(fields) %}
            {{ dbt.hash(dbt.concat(fields)) }}
        {% endmacro %}
    """,
    "house_rules/macros/is_within.sql": """
        {% test is_within(model, column_name, lowest, highest) %}
            select {{ column_name }} from {{ model }}
            where {{ column_name }} not between {{ lowest }} and {{ highest }}
        {% endtest %}
    """,
    "house_rules/models/packaged.sql": "select 1 as id",
}
ORDERS = """
    {{ config(materialized='table') }}
    select * from values
        (1, 'a', 10.50, date '2026-03-01'), (2, 'b', 7.25, date '2026-03-02'),
        (3, 'b', 0.00, date '2026-03-03')
    as given(id, kind, amount, day)
"""


def test_a_package_gives_models_tests_and_macros(make_project: Callable[..., DbtProject]) -> None:
    project = make_project(
        PACKAGE
        | {
            "dbt_project.yml": PROJECT,
            "packages.yml": "packages: [{local: house_rules}]",
            "models/orders.sql": ORDERS,
            "models/keys.sql": """
                select {{ house_rules.key_of(["cast(orders.id as string)", "orders.kind"]) }} as k
                from {{ ref('orders') }} as orders cross join {{ ref('packaged') }} as packaged
            """,
            "models/_models.yml": """
                version: 2
                models:
                  - name: orders
                    columns:
                      - name: amount
                        data_tests:
                          - house_rules.is_within:
                              name: fits
                              arguments: {lowest: 0, highest: 11}
                          - house_rules.is_within:
                              name: is_wrong
                              arguments: {lowest: 1, highest: 11}
            """,
        }
    )
    project.run("deps")
    done = project.run("build", expect_ok=False)
    nodes = {name: got for name, got in done.statuses().items() if "on-run-" not in name}
    assert nodes == {
        "packaged": "success",
        "orders": "success",
        "keys": "skipped",
        "fits": "pass",
        "is_wrong": "fail",
    }
    assert done.results["is_wrong"].failures == 1
    project.run("run")
    assert project.column("select count(distinct k) from dw.keys") == [3]


UTILS = """
    version: 2
    models:
      - name: orders
        data_tests:
          - dbt_utils.unique_combination_of_columns:
              arguments: {combination_of_columns: [id, kind]}
          - dbt_utils.expression_is_true: {arguments: {expression: amount >= 0}}
          - dbt_utils.equal_rowcount: {arguments: {compare_model: ref('same')}}
          - dbt_utils.equality: {arguments: {compare_model: ref('same')}}
          - dbt_utils.recency:
              arguments: {datepart: day, field: day, interval: 100000}
          - dbt_utils.fewer_rows_than: {arguments: {compare_model: ref('twice')}}
        columns:
          - name: id
            data_tests:
              - dbt_utils.at_least_one
              - dbt_utils.not_constant
              - dbt_utils.sequential_values
              - dbt_utils.cardinality_equality: {arguments: {field: id, to: ref('same')}}
              - dbt_utils.relationships_where:
                  arguments: {to: ref('same'), field: id, from_condition: id > 0}
              - dbt_utils.not_null_proportion: {arguments: {at_least: 1}}
          - name: kind
            data_tests:
              - dbt_utils.not_empty_string
              - dbt_utils.not_accepted_values: {arguments: {values: [z]}}
          - name: amount
            data_tests:
              - dbt_utils.accepted_range: {arguments: {min_value: 0, max_value: 11}}
      - name: spans
        data_tests:
          - dbt_utils.mutually_exclusive_ranges:
              arguments: {lower_bound_column: first_day, upper_bound_column: last_day}
"""
MACROS = """
    select
        {{ dbt_utils.generate_surrogate_key(['id', 'kind']) }} as k,
        {{ dbt_utils.safe_divide('amount', 'id') }} as ratio,
        {{ dbt_utils.star(ref('orders'), except=['amount']) }}
    from ({{ dbt_utils.deduplicate(ref('twice'), 'id', 'day desc') }})
    union all
    select 'pivot', sum(a), null, null, null
    from (
        select {{ dbt_utils.pivot('kind', dbt_utils.get_column_values(ref('orders'), 'kind')) }}
        from {{ ref('orders') }}
    )
"""


@pytest.mark.skipif("DBT_UTILS" not in os.environ, reason="DBT_UTILS names no copy of dbt_utils")
def test_the_tests_and_macros_of_dbt_utils_run(make_project: Callable[..., DbtProject]) -> None:
    project = make_project(
        {
            "dbt_project.yml": PROJECT + "\n    models: {+materialized: table}\n",
            "packages.yml": f"packages: [{{local: {Path(os.environ['DBT_UTILS']).resolve()}}}]",
            "models/orders.sql": ORDERS,
            "models/same.sql": "select * from {{ ref('orders') }}",
            "models/twice.sql": "select * from {{ ref('orders') }} union all select * from "
            "{{ ref('orders') }}",
            "models/spans.sql": "select day as first_day, date_add(day, 1) as last_day from "
            "{{ ref('orders') }}",
            "models/macros.sql": MACROS,
            "models/spine.sql": "{{ dbt_utils.date_spine('day', \"date '2026-03-01'\", "
            "\"date '2026-03-11'\") }}",
            "models/_models.yml": UTILS,
        }
    )
    project.run("deps")
    statuses = project.run("build", expect_ok=None).statuses()
    assert {
        name: status for name, status in statuses.items() if status not in ("pass", "success")
    } == {}
    assert len([status for status in statuses.values() if status == "pass"]) == 16
    assert project.column("select count(*) from dw.spine") == [10]
    assert project.column("select count(*) from dw.macros") == [4]
