"""dbt's own features: unit tests, data tests, docs, show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from dbt.adapters.sparksession import building

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT

FILES = {
    "models/orders.sql": """
        {{ config(materialized='table') }}
        select * from values (1, 'paid', 10.50), (2, 'open', 2.25), (3, 'paid', 1.00)
            as t(id, status, amount)
    """,
    "models/totals.sql": """
        {{ config(materialized='incremental', unique_key='status', incremental_strategy='merge') }}
        select
            o.status,
            sum(o.amount) {% if is_incremental() %} + max(coalesce(t.total, 0)) {% endif %} as total
        from {{ new_rows(ref('orders')) }} as o
        {% if is_incremental() %} left join {{ this }} as t on t.status = o.status {% endif %}
        group by o.status
    """,
    "models/paid.sql": """
        {{ config(materialized='view') }}
        select * from {{ ref('orders') }} where status = 'paid'
    """,
    "models/cheap.sql": """
        {{ config(materialized='ephemeral') }}
        select id from {{ ref('paid') }} where amount < 5
    """,
    "models/newest.sql": """
        {{ config(
            materialized='folded',
            unique_key='status',
            fold={'sequence': 'id'},
            contract={'enforced': true},
            persist_docs={'relation': true, 'columns': true},
        ) }}
        select id, status, amount from {{ new_rows(ref('orders')) }}
    """,
    "models/models.yml": """
        models:
          - name: newest
            description: The newest order of each status, whatever it's called.
            columns:
              - {name: status, data_type: string, description: "What's come of it."}
              - {name: id, data_type: int}
              - {name: amount, data_type: "decimal(4,2)"}
          - name: orders
            columns:
              - name: id
                data_type: int
                data_tests: [unique, not_null]
              - name: status
                data_type: string
                data_tests:
                  - accepted_values: {arguments: {values: [paid, open]}}
                  - accepted_values:
                      name: only_paid
                      arguments: {values: [paid]}
              - {name: amount, data_type: "decimal(4,2)"}
          - name: paid
            columns: [{name: id}, {name: status, data_type: string}, {name: amount}]
          - name: totals
            columns:
              - {name: total, data_type: "decimal(14,2)"}
              - name: status
                data_type: string
                data_tests:
                  - relationships: {arguments: {to: ref('orders'), field: status}}
        unit_tests:
          - name: paid_orders_only
            model: paid
            given:
              - input: ref('orders')
                rows:
                  - {id: 1, status: paid, amount: 1.5}
                  - {id: 2, status: "it's"}
            expect:
              rows: [{id: 1, status: paid, amount: 1.5}]
          - name: totals_from_nothing
            model: totals
            overrides: {macros: {is_incremental: false}}
            given:
              - input: ref('orders')
                rows: [{id: 1, status: a, amount: 1}, {id: 2, status: a, amount: 2}]
            expect:
              rows: [{status: a, total: 3}]
          - name: totals_go_on
            model: totals
            overrides: {macros: {is_incremental: true}}
            given:
              - input: ref('orders')
                rows: [{id: 1, status: a, amount: 1}, {id: 2, status: b, amount: 2}]
              - input: this
                rows: [{status: a, total: 10}]
            expect:
              rows: [{status: a, total: 11}, {status: b, total: 2}]
          - name: nothing_goes_on
            model: totals
            overrides: {macros: {is_incremental: true}}
            given:
              - {input: ref('orders'), rows: []}
              - {input: this, rows: []}
            expect: {rows: []}
          - name: cheap_ones
            model: cheap
            given:
              - {input: ref('paid'), rows: [{id: 1, amount: 4}, {id: 2, amount: 6}]}
            expect: {rows: [{id: 1}]}
          - name: totals_wrong
            model: totals
            overrides: {macros: {is_incremental: false}}
            given:
              - input: ref('orders')
                rows: [{id: 1, status: a, amount: 1}]
            expect:
              rows: [{status: a, total: 77}]
    """,
    "tests/nothing_is_free.sql": "select * from {{ ref('orders') }} where amount <= 0",
    "tests/nothing_is_dear.sql": "select * from {{ ref('orders') }} where amount > 10",
    "tests/breaks.sql": """
        select id from {{ ref('orders') }} where cast(status as int) = id
    """,
}

RIGHT = ("paid_orders_only", "totals_from_nothing", "totals_go_on", "nothing_goes_on")


@pytest.fixture(scope="module")
def unbuilt(make_project):
    return make_project(FILES)


@pytest.fixture(scope="module")
def tested_unbuilt(unbuilt):
    """The unit tests before any table is there."""
    return unbuilt.run("test", "--select", "test_type:unit", expect_ok=False)


@pytest.fixture(scope="module")
def project(unbuilt, tested_unbuilt):
    unbuilt.run("run")
    return unbuilt


@pytest.fixture(scope="module")
def tested(project):
    return project.run("test", expect_ok=False)


def test_unit_tests_run_before_their_tables_are_built(tested_unbuilt):
    statuses = tested_unbuilt.statuses()
    assert {name: statuses[name] for name in RIGHT} == dict.fromkeys(RIGHT, "pass")
    assert statuses["totals_wrong"] == "fail"


def test_unit_test_names_the_columns_without_a_type(tested_unbuilt):
    result = tested_unbuilt.results["cheap_ones"]
    assert result.status == "error"
    assert (
        "dw.paid, an input of the unit test, isn't built yet, and its columns amount, id have no "
        "data_type in YAML: build it first, or declare all its columns with their data_type."
    ) in result.message


def test_debug_connects_to_the_warehouse_of_the_profile(project):
    assert "All checks passed!" in project.run("debug").log


def test_generic_tests_say_pass_and_fail(tested):
    statuses = tested.statuses()
    assert statuses["unique_orders_id"] == "pass"
    assert statuses["not_null_orders_id"] == "pass"
    assert statuses["accepted_values_orders_status__paid__open"] == "pass"
    assert statuses["relationships_totals_status__status__ref_orders_"] == "pass"
    assert (statuses["only_paid"], tested.results["only_paid"].failures) == ("fail", 1)


def test_singular_tests_say_pass_and_fail(tested):
    assert tested.statuses()["nothing_is_free"] == "pass"
    assert tested.statuses()["nothing_is_dear"] == "fail"


def test_a_test_that_cannot_run_gives_its_reason_without_a_java_stack(tested):
    result = tested.results["breaks"]
    assert result.status == "error"
    assert "[CAST_INVALID_INPUT]" in result.message
    assert "scala:" not in tested.log and ".java:" not in tested.log


@pytest.mark.parametrize("name", [*RIGHT, "cheap_ones"])
def test_unit_tests_pass(tested, name):
    assert tested.statuses()[name] == "pass"


def test_unit_test_fails_with_the_difference(tested):
    assert tested.statuses()["totals_wrong"] == "fail"
    assert "77" in tested.results["totals_wrong"].message


def test_the_query_of_a_unit_test_is_not_compiled(project, tested, monkeypatch):
    left = []
    monkeypatch.setattr(building, "leave_uncompiled", left.append)
    assert project.run("test", "--select", "paid_orders_only").statuses()["paid_orders_only"]
    assert len(left) == 1


def test_tests_leave_nothing_behind(project, tested):
    tables = {row["tableName"] for row in project.query("show tables in dw")}
    assert tables == {"orders", "totals", "newest__runs"}
    assert {row["viewName"] for row in project.query("show views in dw")} == {"paid", "newest"}
    # a test pins its reads too: it must not pass for the model's own
    assert project.run("run", "--select", "totals").results["totals"].message == "nothing new"


def test_docs_know_columns_and_figures(project):
    project.run("docs", "generate")
    catalog = json.loads((project.target / "catalog.json").read_text(encoding="utf-8"))
    nodes = catalog["nodes"]
    assert catalog["errors"] is None
    assert set(nodes) == {f"model.small.{name}" for name in ("orders", "totals", "paid", "newest")}
    assert {
        name: column["type"] for name, column in nodes["model.small.orders"]["columns"].items()
    } == {
        "id": "int",
        "status": "string",
        "amount": "decimal(4,2)",
    }
    assert nodes["model.small.orders"]["metadata"]["type"] == "table"
    assert nodes["model.small.paid"]["metadata"]["type"] == "view"
    figures = {
        name: {key: stat["value"] for key, stat in node["stats"].items() if key != "has_stats"}
        for name, node in nodes.items()
    }
    assert figures["model.small.orders"]["rows"] == 3
    assert figures["model.small.orders"]["files"] >= 1
    assert figures["model.small.orders"]["bytes"] > 0
    assert figures["model.small.paid"] == {"columns": 3}
    assert nodes["model.small.newest"]["metadata"]["type"] == "view"
    assert nodes["model.small.newest"]["columns"].keys() == {"id", "status", "amount"}


def described(project, name):
    """Column -> comment of a relation, and its own as that of None."""
    rows = project.query(f"describe table extended dw.{name}")
    comments = {row["col_name"]: row["comment"] for row in rows[:3]}
    own = next((row["data_type"] for row in rows if row["col_name"] == "Comment"), None)
    return comments | {None: own}


def test_a_folded_model_keeps_its_contract_and_its_docs(project):
    comments = described(project, "newest")
    assert comments["status"] == "What's come of it."
    assert comments[None].startswith("The newest order of each status, whatever it's")
    commits = project.query("select snapshot_id from dw.newest__runs.snapshots")
    text = FILES["models/models.yml"]
    project.write({"models/models.yml": text.replace("What's come of it.", "How it stands.")})
    assert project.run("run", "-s", "newest").results["newest"].message == "nothing new"
    assert described(project, "newest")["status"] == "How it stands."
    project.write({"models/models.yml": text.replace("data_type: int", "data_type: bigint")})
    outcome = project.run("run", "-s", "newest", "--full-refresh", expect_ok=False)
    project.write({"models/models.yml": text})
    assert "an enforced contract that failed" in outcome.results["newest"].message
    assert project.query("select snapshot_id from dw.newest__runs.snapshots") == commits


def test_show_is_exact(project):
    sql = (
        "select cast(18446744073709551615 as decimal(20, 0)) as whole, "
        "cast('12345678901234567.89' as decimal(20, 2)) as money, "
        "cast(9007199254740993 as bigint) as big, cast(null as decimal(20, 0)) as missing"
    )
    outcome = project.run("show", "--inline", sql, "--output", "json", "--quiet")
    assert json.loads(outcome.log) == {
        "show": [
            {
                "whole": 18446744073709551615,
                "money": "12345678901234567.89",
                "big": 9007199254740993,
                "missing": None,
            }
        ]
    }


def test_times_are_shown_in_utc_whatever_zone_the_machine_is_in(project, monkeypatch):
    """Also those of an hour that comes twice, or never, in that zone."""
    sql = (
        "select timestamp'2026-03-08 07:30:00' as spring, timestamp'2026-11-01 06:30:00' as autumn,"
        " timestamp_ntz'2026-03-08 02:30:00' as local, cast(null as timestamp) as missing"
    )
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "America/New_York")
        time.tzset()
        outcome = project.run("show", "--inline", sql, "--output", "json", "--quiet")
    time.tzset()
    assert json.loads(outcome.log) == {
        "show": [
            {
                "spring": "2026-03-08T07:30:00",
                "autumn": "2026-11-01T06:30:00",
                "local": "2026-03-08T02:30:00",
                "missing": None,
            }
        ]
    }


def test_show_may_have_no_rows(project):
    outcome = project.run(
        "show", "--inline", "select 1.5 as n where false", "--output", "json", "--quiet"
    )
    assert json.loads(outcome.log) == {"show": []}


def test_error_of_a_model_is_sparks_own_message(project):
    project.write({"models/broken.sql": "select nowhere from {{ ref('orders') }}"})
    outcome = project.run("run", "--select", "broken", expect_ok=False)
    (project.root / "models" / "broken.sql").unlink()
    message = outcome.results["broken"].message
    assert "[UNRESOLVED_COLUMN.WITH_SUGGESTION]" in message and "`nowhere`" in message
    assert ".scala:" not in outcome.log and "'Project" not in outcome.log


REFUSED = {
    "no_column": "select nowhere from {{ ref('orders') }}",
    "of_a_view": (
        "{{ config(materialized='incremental') }} select * from {{ new_rows(ref('paid')) }}"
    ),
    "keyless": "{{ config(materialized='incremental', incremental_strategy='merge') }} select 1",
    "raises": (
        "select {% if execute %}{{ exceptions.raise_compiler_error('not so') }}{% endif %} 1 as id"
    ),
    "null_key": (
        "{{ config(materialized='folded', unique_key='id', fold={'sequence': 'n', 'not_null': "
        "'n'}) }} select 1 as id, cast(null as int) as n"
    ),
}


def test_an_error_names_its_model_and_the_file_whoever_raises_it(project):
    """Spark, a macro that reads, a materialization, the model itself, the adapter."""
    files = {f"models/{name}.sql": sql for name, sql in REFUSED.items()}
    project.write(files)
    outcome = project.run("run", "--select", *REFUSED, expect_ok=False)
    for path in files:
        (project.root / path).unlink()
    assert set(outcome.results) == set(REFUSED), outcome.exception
    for name, result in outcome.results.items():
        assert result.status == "error", name
        assert f"model {name} (models/{name}.sql)" in result.message, result.message
    assert "Traceback" not in outcome.log


def test_a_run_warns_of_days_of_utc_beside_business_days_unless_they_are_meant(
    make_project: Callable[..., DbtProject],
) -> None:
    """The days of the business zone come by `*`."""
    hours = "{{ config(materialized='view') }} select *, hour(t) as h from {{ ref('cut') }}"
    project = make_project(
        {
            "dbt_project.yml": PROJECT,
            "models/cut.sql": "select current_date() as cut_date, current_timestamp() as t",
            "models/models.yml": "models: [{name: cut, columns: [{name: cut_date}]}]",
            "models/hours.sql": hours,
        }
    )
    assert "hours: hour(t) goes by UTC" in project.run("run").log
    meant = hours.replace("'view'", "'view', meta={'utc_times': true}")
    project.write({"models/hours.sql": meant})
    assert "goes by UTC" not in project.run("run").log
    in_macro = (
        "{{ config(materialized='view') }} "
        "select *, t as u, {{ hour_of() }} as h from {{ ref('cut') }}"
    )
    project.write(
        {
            "models/hours.sql": in_macro,
            "macros/hour_of.sql": "{% macro hour_of() %}{{ inner_hour('t') }}{% endmacro %}",
            "macros/inner_hour.sql": (
                "{% macro inner_hour(given) %}hour(t) + hour({{ given }}){% endmacro %}"
            ),
        }
    )
    log = project.run("run").log
    assert "hours: hour(t) in the macro inner_hour goes by UTC" in log


def test_unit_test_states_the_kinds_of_changes_that_a_model_reads(make_project):
    model = """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select id, sign from {{ new_changes(ref('given'), by='id') }} where row_kind <> '-D'
    """
    tests = """
        unit_tests:
          - name: kinds
            model: changes
            given:
              - input: ref('given')
                rows: [{id: 1, row_kind: +I, sign: 1}, {id: 2, row_kind: -D, sign: -1}]
            expect: {rows: [{id: 1, sign: 1}]}
          - name: unknown
            model: changes
            given: [{input: ref('given'), rows: [{id: 1, kind: +I}]}]
            expect: {rows: []}
          - name: in_expected
            model: changes
            given: [{input: ref('given'), rows: [{id: 1, row_kind: +I, sign: 1}]}]
            expect: {rows: [{id: 1, row_kind: +I}]}
    """
    project = make_project(
        {
            "models/given.sql": "{{ config(materialized='table') }} select 1 as id",
            "models/changes.sql": model,
            "models/_tests.yml": tests,
        }
    )
    project.run("run")
    results = project.run("test", expect_ok=False).results
    assert results["kinds"].status == "pass", results["kinds"].message
    for name, column in {"unknown": "kind", "in_expected": "row_kind"}.items():
        assert f"Invalid column name: '{column}' in unit test fixture" in results[name].message
