"""News that no read of a model shows is no reason to leave rows as they are."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.small_source import project_with_source


@pytest.fixture
def project(make_project):
    return partial(project_with_source, make_project)


def test_rows_of_a_temporary_view_may_be_others_in_each_run(project):
    makes = "create or replace temporary view newest as select max(v) as v from src.x"
    model = (
        "{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id',"
        " {}) }}}} select id, newest.v from {{{{ pinned(source('src', 'plain_view')) }}}}"
        " cross join newest"
    )
    small = project(
        {
            "models/of_hook.sql": model.format(f"pre_hook='{makes}'"),
            "models/of_header.sql": model.format(f"sql_header='{makes};'"),
        },
        "create table src.plain_view (id int) using iceberg",
        "insert into src.plain_view values (1)",
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.query("insert into src.x values (2, 2)")
    small.run("run")
    assert small.column("select v from dw.of_hook") == [2]
    assert small.column("select v from dw.of_header") == [2]


ASKED = """
    {{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
    ASK
    select id, {{ v or 0 }} as v from {{ pinned(source('src', 'plain_view')) }}
"""
ASKS = {
    "of_statement": """
        {% call statement('asked', fetch_result=true) %}select max(v) from src.x{% endcall %}
        {% set v = load_result('asked').table.columns[0].values()[0] if execute %}
    """,
    "of_adapter": """
        {% set sql = 'select max(v) from src.x' %}
        {% set v = adapter.execute(sql, fetch=true)[1].columns[0].values()[0] if execute %}
    """,
}


def test_what_a_model_asks_past_run_query_may_be_another_answer_in_each_run(project):
    small = project(
        {f"models/{name}.sql": ASKED.replace("ASK", ask) for name, ask in ASKS.items()},
        "create table src.plain_view (id int) using iceberg",
        "insert into src.plain_view values (1)",
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.query("insert into src.x values (2, 2)")
    small.run("run")
    for name in ASKS:
        assert small.column(f"select v from dw.{name}") == [2], name


def test_rows_that_a_hook_has_taken_from_the_model_come_again(project):
    takes = "{% if is_incremental() %} delete from {{ this }} where id = 1 {% endif %}"
    small = project(
        {
            "models/kept.sql": "{{ config(materialized='incremental', unique_key='id',"
            f" pre_hook=\"{takes}\") }}}} select id, v from {{{{ pinned(source('src', 'x')) }}}}"
        },
        "insert into src.x values (1, 1), (2, 2)",
    )
    small.run("run")
    small.run("run")
    assert sorted(small.column("select id from dw.kept")) == [1, 2]


REPLACES = "{{ config(materialized='incremental', incremental_strategy='replace_all') }}"


def test_a_model_that_replaces_all_rows_by_those_that_are_new_is_refused(project):
    python = """
        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="replace_all")
            return dbt.new_rows(dbt.source("src", "x"))
    """
    small = project(
        {
            "models/rows.sql": REPLACES + "select id from {{ new_rows(source('src', 'x')) }}",
            "models/changes.sql": REPLACES
            + "select id from {{ new_changes(source('src', 'x'), by='id') }}",
            "models/partitions.sql": REPLACES
            + "select id from {{ changed_partitions(source('src', 'x'), by='id') }}",
            "models/in_python.py": python,
            "models/meant.sql": REPLACES.replace("') }}", "', partial_runs=true) }}")
            + "select id from {{ new_rows(source('src', 'x')) }}",
        },
        "insert into src.x values (1, 1)",
    )
    results = small.run("run", expect_ok=False).results
    for name in ("rows", "changes", "partitions", "in_python"):
        assert "the rows of earlier runs would go" in results[name].message, name
    small.query("insert into src.x values (2, 1)")
    small.run("run", "-s", "meant")
    assert small.column("select id from dw.meant") == [2]
