"""Pinned inputs: what a commit records, and what the next run reads because of it."""

from __future__ import annotations

from datetime import date

import pytest

pytestmark = pytest.mark.in_turn

SOURCES = """
    sources:
      - name: src
        tables: [{name: log}, {name: regions}, {name: rates}]
"""
INCREMENTAL = "{{ config(materialized='incremental') }}\n"
FRAGILE = INCREMENTAL.replace("') }}", "', on_definition_change='accept') }}") + (
    "select id, cast(v as int) as v from {{ new_rows(source('src', 'log')) }}\n"
)
DAILY = """
    {{ config(
        materialized='incremental', incremental_strategy='replace_partitions',
        partition_by='day', on_schema_change='append_new_columns', on_definition_change='accept',
    ) }}
    select day, count(*) as n, sum(id) as ids
    from {{ changed_partitions(source('src', 'log'), by='day') }} group by day
"""
FILES = {
    "models/sources.yml": SOURCES,
    "models/appender.sql": INCREMENTAL + "select * from {{ new_rows(source('src', 'log')) }}",
    "models/latest.sql": """
        {{ config(
            materialized='incremental', incremental_strategy='merge', unique_key='id'
        ) }}
        select * from {{ new_rows(source('src', 'log')) }}
    """,
    "models/daily.sql": DAILY,
    "models/by_region.sql": """
        {{ config(
            materialized='incremental', incremental_strategy='replace_partitions',
            partition_by='region',
        ) }}
        select region, sum(n) as n
        from {{ changed_partitions(source('src', 'regions'), by='region') }} group by region
    """,
    "models/row_view.sql": """
        {{ config(materialized='view', meta={'row_wise': true, 'times': 10}) }}
        select id, id * {{ (config.get('meta') or {}).get('times') }} as tenfold
        from {{ source('src', 'log') }} where id > 0
    """,
    "models/row_view_of_view.sql": """
        {{ config(materialized='view', meta={'row_wise': true}) }}
        select tenfold + 1 as n from {{ ref('row_view') }}
    """,
    "models/over_view.sql": INCREMENTAL + "select * from {{ new_rows(ref('row_view_of_view')) }}",
    "models/folded_view.sql": "select count(*) as n from {{ source('src', 'log') }}",
    "models/over_folded_view.sql": INCREMENTAL
    + ("select * from {{ new_rows(ref('folded_view')) }}"),
    "models/fragile.sql": FRAGILE,
    "models/wrong_partition.sql": """
        {{ config(
            materialized='incremental', incremental_strategy='replace_partitions',
            partition_by='day',
        ) }}
        select day, id, month(day) as month
        from {{ changed_partitions(source('src', 'log'), by='month') }}
    """,
    "models/mixed.sql": """
        {{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}
        select 1 as k, count(*) as n, (select max(rate) from {{ source('src', 'rates') }}) as rate
        from {{ pinned(source('src', 'log')) }}
    """,
    "models/victim.sql": INCREMENTAL + "select * from {{ new_rows(source('src', 'log')) }}",
    "models/meddler.sql": """
        {{ config(
            materialized='table',
            pre_hook="insert into dw.victim values (-1, date '2026-03-01', 'by hand')",
        ) }}
        select count(*) as n from {{ pinned(source('src', 'log')) }}
    """,
    "models/first_reader.sql": """
        {{ config(
            materialized='table',
            post_hook="insert into src.log values (0, date '2026-03-01', '0')",
        ) }}
        select count(*) as n from {{ pinned(source('src', 'log')) }}
    """,
    "models/second_reader.sql": """
        {{ config(materialized='table') }}
        -- depends_on: {{ ref('first_reader') }}
        select count(*) as n from {{ pinned(source('src', 'log')) }}
    """,
    "models/py_reader.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            dbt.ref("second_reader")
            rows = dbt.source("src", "log").count()
            session.sql("insert into src.log values (0, date '2026-03-01', '0')")
            counts = [(rows, dbt.source("src", "log").count())]
            return session.createDataFrame(counts, "n int, m int")
    """,
}
EVERYDAY = ("appender", "latest", "daily", "by_region", "over_view", "fragile")


@pytest.fixture(scope="module")
def project(make_project):
    """The project after its first build; each test goes on from the test before it."""
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    properties = "tblproperties ('write.summary.partition-limit' = '100')"
    project.query(
        "create table src.log (id int, day date, v string) using iceberg "
        f"partitioned by (day) {properties}"
    )
    project.query(
        "insert into src.log values (1, date '2026-03-01', '1'), (2, date '2026-03-01', '2'), "
        "(3, date '2026-03-02', '3'), (4, date '2026-03-03', '4')"
    )
    project.query(
        "create table src.regions (region string, n int) using iceberg "
        f"partitioned by (region) {properties}"
    )
    project.query(
        "insert into src.regions values ('plain', 1), ('a b', 1), ('7', 1), ('2026-03-01', 1), "
        "('é/=%+', 1), ('O\\'Brien', 1), (null, 1), ('still', 1)"
    )
    project.run("run", "--select", *EVERYDAY, "row_view", "row_view_of_view")
    return project


def run(project, *models: str, **options):
    return project.run("run", "--select", *(models or EVERYDAY), **options)


def head(project, table: str) -> int:
    return project.column(f"select snapshot_id from {table}.refs where name = 'main'")[0]


def full(project, table: str) -> list[dict]:
    """What a full refresh of a model gives."""
    queries = {
        "daily": "select day, count(*) as n, sum(id) as ids from src.log group by day order by day",
        "latest": "select * from src.log order by id",
        "by_region": "select region, sum(n) as n from src.regions group by region order by region",
    }
    return project.query(queries[table])


def stored(project, table: str) -> list[dict]:
    return project.query(f"select * from dw.{table} order by 1")


def test_a_commit_records_run_model_code_and_inputs(project):
    properties = project.summary("dw.appender")
    assert len(properties["dbt.run"]) == 36
    assert properties["dbt.model"] == "model.small.appender"
    assert properties["dbt.code"].startswith("1.0+") and len(properties["dbt.code"]) == 16
    assert properties["dbt.input.src.log"] == str(head(project, "src.log"))


def test_view_between_is_recorded_as_the_table_below_it(project):
    properties = project.summary("dw.over_view")
    inputs = {key for key in properties if key.startswith("dbt.input.")}
    assert inputs == {"dbt.input.src.log"}


def test_run_without_new_input_makes_no_commit(project):
    heads = {model: head(project, f"dw.{model}") for model in EVERYDAY}
    outcome = run(project)
    assert {result.message for result in outcome.results.values()} == {"nothing new"}
    assert {model: head(project, f"dw.{model}") for model in EVERYDAY} == heads


def test_new_rows_are_exactly_those_appended(project):
    project.query("insert into src.log values (5, date '2026-03-02', '5')")
    project.query("insert into src.log values (6, date '2026-03-04', 'six')")
    project.query(
        "insert into src.regions values ('a b', 1), ('7', 1), ('2026-03-01', 1), ('é/=%+', 1), "
        "('O\\'Brien', 1), (null, 1)"
    )
    before = head(project, "dw.appender")
    outcome = run(project, expect_ok=False)

    added = project.column(
        f"select id from dw.appender with (`start-snapshot-id` = '{before}', "
        f"`end-snapshot-id` = '{head(project, 'dw.appender')}') order by id"
    )
    assert added == [5, 6]
    assert outcome.results["appender"].message == "+2 rows"
    assert outcome.results["appender"].adapter_response["code"] == "2"  # rows read
    assert project.column("select n from dw.over_view order by n") == [11, 21, 31, 41, 51, 61]
    assert stored(project, "latest") == full(project, "latest")


def test_only_changed_partitions_are_written(project):
    assert stored(project, "daily") == full(project, "daily")
    assert project.written_partitions("dw.daily") == {"day=2026-03-02", "day=2026-03-04"}


def test_partitions_of_any_text_are_found(project):
    assert stored(project, "by_region") == full(project, "by_region")
    assert {row["region"]: row["n"] for row in stored(project, "by_region")}["a b"] == 2
    written = project.written_partitions("dw.by_region")
    assert len(written) == 6 and not written & {"region=plain", "region=still"}


def test_failed_model_catches_up(project):
    recorded = project.summary("dw.fragile")["dbt.input.src.log"]
    assert recorded != str(head(project, "src.log"))
    assert project.column("select id from dw.fragile order by id") == [1, 2, 3, 4]

    project.write({"models/fragile.sql": FRAGILE.replace("cast(", "try_cast(")})
    project.query("insert into src.log values (7, date '2026-03-04', '7')")
    run(project, "fragile", "appender", "daily")

    assert project.column("select id from dw.fragile order by id") == [1, 2, 3, 4, 5, 6, 7]
    assert project.summary("dw.fragile")["dbt.input.src.log"] == str(head(project, "src.log"))


def test_compaction_brings_no_rows_again(project):
    project.query(
        "call lake.system.rewrite_data_files(table => 'src.log', "
        "options => map('rewrite-all', 'true'))"
    )
    rows = project.column("select count(*) from dw.appender")
    outcome = run(project, "appender", "daily")
    assert {result.message for result in outcome.results.values()} == {"nothing new"}
    assert project.column("select count(*) from dw.appender") == rows
    assert stored(project, "daily") == full(project, "daily")
    project.query("insert into src.log values (8, date '2026-03-04', '8')")
    assert run(project, "appender").results["appender"].message == "+1 rows"


def test_reader_equals_a_full_refresh_after_an_update(project):
    project.query("update src.log set v = 'changed', id = 30 where id = 3")
    project.query(
        "merge into src.log t using (select 1 as id) s on t.id = s.id "
        "when matched then update set v = 'merged'"
    )
    run(project, "latest", "daily")
    assert stored(project, "daily") == full(project, "daily")
    assert project.written_partitions("dw.daily") >= {"day=2026-03-01", "day=2026-03-02"}
    assert "day=2026-03-03" not in project.written_partitions("dw.daily")
    current = {row["id"]: row for row in stored(project, "latest")}
    assert [current[row["id"]] for row in full(project, "latest")] == full(project, "latest")


def test_emptied_partition_goes(project):
    project.query("delete from src.log where day = date '2026-03-03'")
    run(project, "daily")
    assert stored(project, "daily") == full(project, "daily")
    assert date(2026, 3, 3) not in [row["day"] for row in stored(project, "daily")]
    assert project.written_partitions("dw.daily") == {"day=2026-03-03"}
    assert run(project, "daily").results["daily"].message == "nothing new"


def test_model_may_lose_and_gain_a_column(project):
    project.query("insert into src.log values (9, date '2026-03-05', '9')")
    project.write({"models/daily.sql": DAILY.replace("sum(id) as ids", "max(v) as top")})
    run(project, "daily")
    newest = project.query("select * from dw.daily where day = date '2026-03-05'")
    assert newest == [{"day": date(2026, 3, 5), "n": 1, "ids": None, "top": "9"}]
    project.write({"models/daily.sql": DAILY})


def test_reader_equals_a_full_refresh_after_the_input_was_replaced(project):
    project.query(
        "create or replace table src.log using iceberg partitioned by (day) "
        "tblproperties ('write.summary.partition-limit' = '100') "
        "as select 1 as id, date '2026-03-09' as day, 'again' as v"
    )
    run(project, "daily")
    rows = project.query("select day, n, ids from dw.daily order by day")
    assert rows == full(project, "daily")
    assert rows == [{"day": date(2026, 3, 9), "n": 1, "ids": 1}]


def test_input_that_is_emptied_empties_its_reader(project):
    project.query("delete from src.log")
    run(project, "daily")
    assert stored(project, "daily") == []


def test_all_models_of_a_run_read_the_same_rows(project):
    project.query("insert into src.log values (1, date '2026-03-01', '1')")
    run(project, "first_reader", "second_reader", "py_reader")
    assert project.column("select n from dw.first_reader") == [1]
    assert project.column("select n from dw.second_reader") == [1]
    assert project.query("select * from dw.py_reader") == [{"n": 1, "m": 1}]
    assert project.column("select count(*) from src.log") == [3]
    inputs = {
        project.summary(f"dw.{model}")["dbt.input.src.log"]
        for model in ("first_reader", "second_reader", "py_reader")
    }
    assert len(inputs) == 1


def test_model_that_also_reads_without_a_pin_always_runs(project):
    project.query("create table src.rates (rate int) using iceberg")
    project.query("insert into src.rates values (1)")
    run(project, "mixed")
    project.query("insert into src.rates values (2)")
    run(project, "mixed")
    assert project.column("select rate from dw.mixed") == [2]


def test_commit_of_another_models_hook_does_not_count_as_read(project):
    run(project, "victim")
    rows = project.column("select count(*) from dw.victim")[0]
    project.query("insert into src.log values (77, date '2026-03-01', '77')")
    run(project, "meddler")
    run(project, "victim")
    assert project.column("select count(*) from dw.victim where id = 77") == [1]
    assert project.column("select count(*) from dw.victim") == [rows + 2]


def test_new_rows_of_a_view_that_is_not_row_wise_are_refused(project):
    project.run("run", "--select", "folded_view")
    message = run(project, "over_folded_view", expect_ok=False).results["over_folded_view"].message
    assert "new_rows: dw.folded_view is a view" in message
    assert "meta: {row_wise: true}" in message


def test_changed_partitions_by_an_unknown_column_is_refused(project):
    run(project, "wrong_partition")
    project.query("insert into src.log values (1, date '2026-03-01', '1')")
    message = run(project, "wrong_partition", expect_ok=False).results["wrong_partition"].message
    assert "`by` must be a partition column of src.log" in message


def test_a_commit_of_a_models_own_hook_does_not_say_that_its_inputs_were_read(make_project):
    kept = """
        {{ config(
            materialized='incremental',
            on_definition_change='accept',
            partial_runs=true,
            pre_hook="{% if is_incremental() %} delete from {{ this }} where id = 1 {% endif %}",
        ) }}
        select id, if(id = {{ var('fails_at', 0) }}, raise_error('stopped'), id) as v
        from {{ new_rows(source('src', 'log')) }}
    """
    small = make_project(
        {
            "models/sources.yml": "sources: [{name: src, tables: [{name: log}]}]",
            "models/kept.sql": kept,
        }
    )
    small.query("create namespace if not exists src")
    small.query("create table src.log (id int) using iceberg")
    small.query("insert into src.log values (1), (2)")
    small.run("run")
    small.query("insert into src.log values (3)")
    small.run("run", vars={"fails_at": 3}, expect_ok=False)
    assert sorted(small.column("select id from dw.kept")) == [2]  # the hook's commit stands
    small.run("run")
    assert sorted(small.column("select id from dw.kept")) == [2, 3]
