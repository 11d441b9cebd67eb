with

page_views as (
    select
        'dwd_traffic__page_view' as table_name,
        event_id as event_key,
        viewed_at as event_time,
        received_at as known_at,
        sign,
        reject_reason
    from {{ ref('dwd_traffic__page_view') }}
    where reject_reason is not null
),

orders as (
    select
        'dwd_trade__order_event' as table_name,
        cast(order_id as string) as event_key,
        create_time as event_time,
        order_event_time as known_at,
        sign,
        reject_reason
    from {{ ref('dwd_trade__order_event') }}
    where reject_reason is not null
),

refused as (
    select * from page_views
    union all
    select * from orders
),

-- a row that came and went is refused no more
rejected as (
    select
        table_name,
        event_key,
        event_time,
        known_at,
        reject_reason,
        sum(sign) as event_count
    from refused
    group by
        table_name,
        event_key,
        event_time,
        known_at,
        reject_reason
    having sum(sign) <> 0
)

select * from rejected
