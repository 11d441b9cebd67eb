with

volume as (
    select
        batch_id,
        topic,
        partition_number,
        sum(messages_in) as message_count,
        sum(unreadable) as refused_count,
        min(first_offset) as first_offset,
        max(last_offset) as last_offset,
        max(last_offset) - min(first_offset) + 1
        - sum(offset_count) as missing_count,
        min(first_event_time) as first_event_time,
        max(last_event_time) as last_event_time,
        timestampdiff(second, max(last_event_time), current_timestamp())
            as lag_seconds
    from {{ ref('meta_message_block') }}
    group by
        batch_id,
        topic,
        partition_number
)

select * from volume
