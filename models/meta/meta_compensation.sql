{%- set tables = [
    ref('dws_trade__user_coupon_1d'),
    ref('dws_trade__user_status_1d'),
] -%}

with

commits as (
    {{ commits_of(tables) }}
),

compensated as (
    select
        commits.table_name,
        commits.summary['asked.request'] as request,
        cast(nullif(asked.day, 'null') as date) as cut_date,
        commits.summary['dbt.run'] as run_id,
        cast(
            coalesce(commits.summary['added-records'], '0') as bigint
        ) as rows_added,
        cast(
            coalesce(commits.summary['deleted-records'], '0') as bigint
        ) as rows_removed,
        commits.snapshot_id,
        commits.committed_at
    from commits
        lateral view
        explode(split(commits.summary['asked.partitions'], ',')) asked as day
    where commits.is_standing
)

select * from compensated
