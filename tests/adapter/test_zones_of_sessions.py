"""A time zone that a model's own statements set, beside macros that ask before these run."""

from __future__ import annotations

from functools import partial

import pytest
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt_common.exceptions import DbtRuntimeError

from tests.support.dbt_project import REPO
from tests.support.small_source import project_with_source

MACROS = {
    f"macros/{path.name}": path.read_text(encoding="utf-8")
    for folder in ("windows", "deduplication")
    for path in sorted((REPO / "macros" / folder).glob("*.sql"))
}
ZONE = "set time zone 'Asia/Shanghai'"
WINDOWS = """
    {{{{ config(materialized='incremental', incremental_strategy='replace_windows', {}) }}}}
    select window_start, window_end, count(*) as row_count
    from ({{{{ tumble(rows=source('src', 'x'), time='at', size='1 hour') }}}}) as windowed
    group by window_start, window_end
"""
UNSEEN = """
    {{ config(materialized='incremental', incremental_strategy='append',
        sql_header="set time zone 'Asia/Shanghai';") }}
    {{ unseen_rows(rows=new_rows(ref('days')), key='id', order_by='id') }}
"""


@pytest.fixture
def project(make_project):
    return partial(project_with_source, make_project)


def test_a_zone_beside_macros_that_ask_before_it_is_set_is_refused(project):
    small = project(
        MACROS
        | {
            "models/by_header.sql": WINDOWS.format(f'sql_header="{ZONE};"'),
            "models/by_hook.sql": WINDOWS.format(f'pre_hook="{ZONE}"'),
            "models/same.sql": WINDOWS.format("sql_header=\"set time zone 'UTC';\""),
            "models/days.sql": "{{ config(materialized='view', meta={'row_wise': true}) }}"
            " select id, to_date(at) as day"
            " from {{ source('src', 'x') }}",
            "models/unseen.sql": UNSEEN,
        },
        "alter table src.x add column at timestamp_ntz",
        "insert into src.x values (1, 1, timestamp_ntz '2026-03-01 01:00:00')",
    )
    small.run("run", expect_ok=None)
    small.query("insert into src.x values (2, 1, timestamp_ntz '2026-03-01 01:20:00')")
    results = small.run("run", expect_ok=False).results
    for name in ("by_header", "by_hook", "unseen"):
        message = f"{name}: its sql_header or pre_hook sets the time zone Asia/Shanghai, but"
        assert message in results[name].message, name
    assert small.column("select row_count from dw.same") == [2]


DAYS = "select id, to_date(timestamp_seconds(v)) as day from {{ source('src', 'x') }}"
ZONED = "{{{{ config(materialized='table', {}) }}}} select * from {{{{ ref('{}') }}}} as t"


def test_a_zone_beside_a_view_whose_rows_go_by_it_is_refused(project):
    header = f'sql_header="{ZONE};"'
    small = project(
        {
            "models/days.sql": DAYS,
            "models/over_days.sql": "select day, count(*) as n from {{ ref('days') }} group by day",
            "models/plain.sql": "select id, v + 1 as v, '2026-03-01' as day"
            " from {{ source('src', 'x') }} where v > 0",
            "models/by_header.sql": ZONED.format(header, "over_days"),
            "models/by_hook.sql": ZONED.format(f'pre_hook="{ZONE}"', "days"),
            "models/by_merge.sql": "{{ config(materialized='incremental', unique_key='id', "
            + header
            + ") }} select id, day from {{ ref('days') }}",
            "models/beside.sql": ZONED.format(header, "plain"),
            "models/by_itself.sql": "{{ config(materialized='table', " + header + ") }} " + DAYS,
            "models/same.sql": ZONED.format("sql_header=\"set time zone 'UTC';\"", "days"),
        },
        "insert into src.x values (1, 72000)",
    )
    results = small.run("run", expect_ok=False).results
    for name, view in {"by_header": "over_days", "by_hook": "days", "by_merge": "days"}.items():
        refused = f"{name}: its sql_header or pre_hook sets the time zone Asia/Shanghai, and the "
        assert refused + f"rows of dw.{view}, which it reads" in results[name].message, name
    assert small.column("select v from dw.beside") == [72001]
    assert small.column("select cast(day as string) from dw.by_itself") == ["1970-01-02"]
    assert small.column("select cast(day as string) from dw.same") == ["1970-01-01"]


def test_a_profile_whose_sessions_are_in_another_zone_is_refused():
    def profile(zone: str) -> SparkSessionCredentials:
        settings = {"spark.sql.session.timeZone": zone}
        return SparkSessionCredentials(schema="dw", server_side_parameters=settings)

    for zone in ("UTC", "Etc/UTC", ""):
        assert "Shanghai" not in str(profile(zone).spark_settings())
    with pytest.raises(DbtRuntimeError, match=r"timeZone .* is 'Asia/Shanghai', and must be UTC"):
        profile("Asia/Shanghai")
