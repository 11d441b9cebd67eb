{{
    config(
        partition_by=['cut_date', 'grain'],
        sort_by=['dimension_set', 'window_start'],
    )
}}

with

dwd_traffic__page_view as (
    select
        viewed_at,
        visitor_id,
        user_id,
        platform,
        page,
        sign
    from {{ changed_partitions(ref('dwd_traffic__page_view'), by='cut_date') }}
    where reject_reason is null
),

metric as (
    {{ metric_rows(page_views(), from_cte='dwd_traffic__page_view') }}
),

windows as (
    select
        dimension_set,
        grain,
        window_start,
        window_end,
        platform,
        page,
        pv,
        uv,
        uv_sketch,
        user_sketch,
        cut_date
    from metric
)

select * from windows
