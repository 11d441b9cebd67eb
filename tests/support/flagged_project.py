"""A small project of every materialization over a table src.log, which grows."""

from __future__ import annotations

from typing import Any

from tests.support.dbt_project import DbtProject

PROJECT = """
name: small
version: "1.0"
config-version: 2
profile: binlog_warehouse
on-run-start: "{{ start_run() }}"
on-run-end: "{{ end_run(results) }}"
vars: {step: 1}
"""
FOLD = "fold={'sequence': ['position']}"
FILES = {
    "dbt_project.yml": PROJECT,
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: log}]
    """,
    "models/appended.sql": """
        {{ config(materialized='incremental') }}
        select id, position, day, {{ var('step') }} as step
        from {{ new_rows(source('src', 'log')) }}
    """,
    "models/by_day.sql": """
        {{ config(
            materialized='incremental',
            incremental_strategy='replace_partitions',
            partition_by='day',
        ) }}
        select day, count(*) as row_count
        from {{ changed_partitions(source('src', 'log'), by='day') }}
        group by day
    """,
    "models/latest.sql": f"""
        {{{{ config(materialized='folded', unique_key='id', {FOLD}) }}}}
        select id, position, day from {{{{ new_rows(source('src', 'log')) }}}}
    """,
    "models/copied.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            dbt.set_snapshot_property("copied.until", "9")
            return dbt.new_rows(dbt.source("src", "log"))
    """,
    "models/past_this.sql": """
        {{ config(materialized='incremental') }}
        select id from {{ source('src', 'log') }}
        {% if is_incremental() %}
        where id > (select max(id) from {{ this }})
        {% endif %}
    """,
    "models/whole.sql": """
        {{ config(materialized='table') }}
        select count(*) as row_count from {{ ref('seen') }}
    """,
    "models/seen.sql": "select * from {{ source('src', 'log') }}",
    "snapshots/kept.sql": """
        {% snapshot kept %}
        {{ config(
            unique_key='id', strategy='check', check_cols='all', hard_deletes='invalidate'
        ) }}
        select id, position from {{ source('src', 'log') }}
        {% endsnapshot %}
    """,
    "seeds/codes.csv": "id,name\n1,a\n2,b\n",
}
QUERIES = {
    "appended": "select id from dw.appended order by id",
    "by_day": "select row_count from dw.by_day order by day",
    "latest": "select id from dw.latest order by id",
    "copied": "select id from dw.copied order by id",
    "past_this": "select id from dw.past_this order by id",
    "whole": "select row_count from dw.whole",
    "seen": "select id from dw.seen order by id",
    "kept": "select id from dw.kept where dbt_valid_to is null order by id",
    "codes": "select id from dw.codes order by id",
}


def answers(project: DbtProject) -> dict[str, list[Any]]:
    return {name: project.column(sql) for name, sql in QUERIES.items()}


def holding(*ids: int) -> dict[str, list[Any]]:
    """What all models say of a log of these ids: days of two ids each."""
    per_day = [len(ids[start : start + 2]) for start in range(0, len(ids), 2)]
    listed = list(ids)
    names = ("appended", "latest", "copied", "past_this", "seen", "kept")
    return dict.fromkeys(names, listed) | {
        "by_day": per_day,
        "whole": [len(ids)],
        "codes": [1, 2],
    }


def make_log(project: DbtProject) -> None:
    """Make the table that all models read, empty."""
    project.query("create namespace if not exists src")
    project.query(
        "create table src.log (id bigint, position bigint, day date) using iceberg "
        "partitioned by (day) tblproperties ('write.summary.partition-limit' = '100')"
    )
