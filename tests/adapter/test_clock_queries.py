"""Conditions on new rows that ask the clock: a row is read once, whenever its condition holds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from dbt.adapters.sparksession.reading.clock_queries import BY_CLOCK, problem_of_clock

NEW = "(select * from dw.x with (`start-snapshot-id` = '1', `end-snapshot-id` = '2'))"
# condition of a query over new rows -> whether it asks the clock
CONDITIONS = {
    "at < now()": True,
    "v > 1 and (at >= current_date - interval 30 days)": True,
    "at < date 'today'": True,
    "to_date('yesterday') <= at": True,
    "at < cast('now' as timestamp)": True,
    "at < to_timestamp(unix_timestamp())": True,
    "localtimestamp > at": True,
    "at < date '2026-03-01'": False,
    "status = 'now'": False,
    "at < '{now}'": False,
    "id in (select id from dw.y where until > now())": False,
    "at < (select now())": True,
    "at between (select max(t) from (select current_date - 30 as t)) and date '2026-03-01'": True,
    "at < (select max(until) from dw.y where until > now())": False,
    "at < (select date '2026-03-01')": False,
}
# query over new rows -> whether a condition on them asks the clock
QUERIES = {
    f"select *, now() as taken_at from {NEW}": False,
    f"select n.* from {NEW} as n join dw.y as y on y.id = n.id and y.until > now()": False,
    f"select n.* from {NEW} as n left join dw.y as y on y.id = n.id and n.at > now()": False,
    f"select n.* from {NEW} as n join dw.y as y on y.id = n.id and n.at > now()": True,
    f"with p as (select current_date() as day) select n.* from {NEW} as n, p where n.at < p.day": (
        True
    ),
    "with p as (select current_date() as day), q as (select day - 30 as since from p) "
    f"select * from {NEW} where at >= (select since from q)": True,
    "with q as (select max(until) as since from dw.y where until < now()) "
    f"select * from {NEW} where at >= (select since from q)": False,
    f"select * from (select *, at < now() as is_past from {NEW}) where is_past": True,
    f"with a as (select * from {NEW}), b as (select * from a where at < now()) select * from b": (
        True
    ),
    f"select * from dw.y where id in (select id from {NEW}) and at < now()": True,
    f"select id, max(at) as at from {NEW} group by id having max(at) < now()": True,
    f"select * from {NEW} qualify row_number() over (partition by id order by at) > "
    "day(current_date())": True,
    f"select * from {NEW} union all select * from dw.y where at < now()": False,
}
QUERIES |= {f"select * from {NEW} where {text}": by for text, by in CONDITIONS.items()}


@pytest.mark.parametrize("sql", QUERIES)
def test_a_condition_on_new_rows_that_asks_the_clock_is_found(sql):
    assert problem_of_clock(sql, [NEW], sql) == (BY_CLOCK if QUERIES[sql] else None)


def test_a_condition_on_the_start_of_the_run_is_found():
    sql = f"select * from {NEW} where at < '{datetime.now(UTC):%Y-%m-%d %H:%M}'"
    assert problem_of_clock(sql, [NEW], "at < '{{ run_started_at }}'") == BY_CLOCK
    assert problem_of_clock(sql, [NEW], "at < '{{ var(\"until\") }}'") is None


CONFIGS = {
    "merged": "materialized='incremental', unique_key='id'",
    "added": "materialized='incremental', incremental_strategy='append_new_rows'",
    "latest": "materialized='folded', unique_key='id', fold={'sequence': 'at'}",
}
READ = "select id, at, v from {{{{ new_rows({}) }}}}"
OF_TABLE = READ.format("source('src', 'x')")
BY_TIME = "at <= current_timestamp()"


def test_models_that_leave_out_new_rows_by_the_clock_are_refused(make_project):
    views = {"by_time": BY_TIME, "all_rows": "true"}
    files = {"models/sources.yml": "sources: [{name: src, tables: [{name: x}]}]"} | {
        f"models/{name}.sql": "{{ config(materialized='view', meta={'row_wise': true}) }} "
        f"select * from {{{{ source('src', 'x') }}}} where {condition}"
        for name, condition in views.items()
    }
    refused, taken = [], []
    for kind, config in CONFIGS.items():
        models = {
            f"{kind}_by_time": f"{OF_TABLE} where {BY_TIME}",
            f"{kind}_by_view": READ.format("ref('by_time')"),
            f"{kind}_of_view": READ.format("ref('all_rows')"),
        }
        models[f"{kind}_partial"] = models[f"{kind}_by_time"]
        for name, sql in models.items():
            more = ", partial_runs=true" * name.endswith("_partial")
            files[f"models/{name}.sql"] = f"{{{{ config({config}{more}) }}}} {sql}"
            (refused if "_by_" in name else taken).append(name)
    project = make_project(files)
    project.query("create namespace if not exists src")
    project.query(
        "create table src.x using iceberg as select int(1) as id, int(2) as v, "
        "timestamp'2020-01-01' as at"
    )
    results = project.run("run", expect_ok=False).results
    for name in refused:
        assert BY_CLOCK in results[name].message, results[name].message
    for name in taken:
        assert results[name].status == "success", results[name].message
