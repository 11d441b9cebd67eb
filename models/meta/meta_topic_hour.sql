{{
    config(
        materialized='folded',
        unique_key=['topic', 'event_hour'],
        fold={'aggregates': {'message_count': 'sum'}},
        meta={'utc_times': true},
    )
}}

with

ods_binlog as (
    select
        topic,
        date_trunc('hour', event_time) as event_hour
    from {{ new_rows(ref('ods_binlog')) }}
    where event_time is not null
),

hours as (
    select
        topic,
        event_hour,
        count(*) as message_count
    from ods_binlog
    group by
        topic,
        event_hour
)

select * from hours
