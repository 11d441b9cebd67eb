{{
    config(
        materialized='view',
    )
}}

with

dwd_traffic__visitor_session as (
    select
        window_date as cut_date,
        platform,
        visitor_id,
        page_view_count,
        duration_ms
    from {{ ref('dwd_traffic__visitor_session') }}
),

session_days as (
    select
        cut_date,
        if(grouping(platform) = 1, 'all', 'platform') as dimension_set,
        platform,
        count(*) as session_count,
        count(distinct visitor_id) as visitor_count,
        count_if(page_view_count = 1) as bounce_count,
        sum(page_view_count) as page_view_count,
        sum(duration_ms) as duration_ms
    from dwd_traffic__visitor_session
    group by grouping sets ((cut_date), (cut_date, platform))
)

select * from session_days
