{{
    config(
        materialized='incremental',
        incremental_strategy='replace_windows',
        on_schema_change='fail',
        sort_by=['visitor_id', 'window_start'],
    )
}}

with

page_views as (
    {{
        session(
            rows=ref('dwd_traffic__page_view'),
            time='viewed_at',
            key='visitor_id',
            gap=var('session_gap_minutes') ~ ' minutes',
            where='reject_reason is null',
        )
    }}
),

sessions as (
    select
        visitor_id,
        window_start,
        window_end,
        max_by(
            user_id, if(user_id is null, null, struct(viewed_at, event_id))
        ) as user_id,
        min_by(platform, struct(viewed_at, event_id)) as platform,
        min_by(page, struct(viewed_at, event_id)) as landing_page,
        max_by(page, struct(viewed_at, event_id)) as exit_page,
        min_by(referrer, struct(viewed_at, event_id)) as referrer,
        count(*) as page_view_count,
        unix_millis(max(viewed_at)) - unix_millis(window_start) as duration_ms,
        window_date
    from page_views
    group by
        visitor_id,
        window_start,
        window_end,
        window_date
)

select * from sessions
