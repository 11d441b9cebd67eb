{{
    config(
        materialized='incremental',
        incremental_strategy='replace_partitions',
        on_schema_change='fail',
        partition_by='cut_date',
    )
}}

{%- set view_columns = [
    'event_id',
    'viewed_at',
    'visitor_id',
    'user_id',
    'platform',
    'page',
    'product_id',
    'referrer',
    'received_at',
    'topic',
    'partition_number',
    'message_offset',
] -%}

with

ods_traffic__page_view as (
    select
        event_id,
        viewed_at,
        visitor_id,
        user_id,
        platform,
        page,
        product_id,
        referrer,
        event_time as received_at,
        topic,
        partition_number,
        message_offset,
        cut_date
    from {{ changed_partitions(ref('ods_traffic__page_view'), by='cut_date') }}
    where reject_reason is null
),

-- of an event that was sent again the copy that came first
first_copies as (
    select
        *,
        row_number() over (
            partition by cut_date, event_id, viewed_at
            order by
                received_at,
                topic,
                partition_number,
                message_offset
        ) as copy_number
    from ods_traffic__page_view
),

page_views as (
    select
        event_id,
        viewed_at,
        visitor_id,
        user_id,
        platform,
        page,
        product_id,
        referrer,
        received_at,
        topic,
        partition_number,
        message_offset,
        cut_date,
        1 as sign
    from first_copies
    where copy_number = 1
),

cleaned as (
    {{
        cleaned(
            model,
            from_cte='page_views',
            columns=view_columns + ['cut_date', 'sign'],
        )
    }}
),

judged as (
    {{
        event_rows(
            from_cte='cleaned',
            columns=view_columns + ['cleaning'],
            time='viewed_at',
            known_at='received_at',
            day='cut_date',
        )
    }}
),

page_view as (
    select
        event_id,
        viewed_at,
        visitor_id,
        user_id,
        platform,
        page,
        product_id,
        referrer,
        received_at,
        topic,
        partition_number,
        message_offset,
        cleaning,
        sign,
        reject_reason,
        cut_date
    from judged
)

select * from page_view
