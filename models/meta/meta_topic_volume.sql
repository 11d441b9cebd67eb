with

ods_binlog as (
    {{
        messages_once(
            ref('ods_binlog'),
            columns=[
                'batch_id',
                'topic',
                'partition_number',
                'message_offset',
                'event_time',
                'payload',
                'reject_reason',
            ],
        )
    }}
),

volume as (
    select
        batch_id,
        topic,
        partition_number,
        count(*) as message_count,
        count(reject_reason) as refused_count,
        sum(length(payload)) as payload_characters,
        min(message_offset) as first_offset,
        max(message_offset) as last_offset,
        max(message_offset) - min(message_offset) + 1
        - count(distinct message_offset) as missing_count,
        min(event_time) as first_event_time,
        max(event_time) as last_event_time,
        timestampdiff(second, max(event_time), current_timestamp()) as lag_seconds
    from ods_binlog
    group by
        batch_id,
        topic,
        partition_number
)

select * from volume
