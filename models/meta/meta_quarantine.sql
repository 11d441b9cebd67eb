with

ods_binlog as (
    select
        topic,
        partition_number,
        message_offset,
        reject_reason,
        cut_reason,
        payload,
        payload_bytes,
        load_id
    from {{ ref('ods_binlog') }}
),

ods_shop__order_info as (
    select
        topic,
        partition_number,
        message_offset,
        reject_reason,
        reject_payload,
        load_id
    from {{ ref('ods_shop__order_info') }}
    where reject_reason is not null
),

ods_app__user_profile as (
    select
        topic,
        partition_number,
        message_offset,
        reject_reason,
        reject_payload,
        load_id
    from {{ ref('ods_app__user_profile') }}
    where reject_reason is not null
),

unreadable as (
    select
        ods_binlog.topic,
        ods_binlog.partition_number,
        ods_binlog.message_offset,
        ods_binlog.reject_reason,
        ods_binlog.cut_reason,
        ods_binlog.payload,
        ods_binlog.payload_bytes,
        ods_binlog.load_id
    from ods_binlog
    where ods_binlog.reject_reason is not null
),

-- what was left of a cut file is settled once the whole message has come
still_unreadable as (
    select
        'ods_binlog' as refused_by,
        unreadable.topic,
        unreadable.partition_number,
        unreadable.message_offset,
        unreadable.reject_reason,
        unreadable.payload as raw_text,
        unreadable.payload_bytes as raw_bytes,
        unreadable.load_id
    from unreadable
    left anti join ods_binlog
        on
            unreadable.topic = ods_binlog.topic
            and unreadable.partition_number = ods_binlog.partition_number
            and unreadable.message_offset = ods_binlog.message_offset
            and unreadable.cut_reason is not null
            and ods_binlog.cut_reason is null
),

unfit as (
    select
        'ods_shop__order_info' as refused_by,
        topic,
        partition_number,
        message_offset,
        reject_reason,
        reject_payload as raw_text,
        cast(null as binary) as raw_bytes,
        load_id
    from ods_shop__order_info
    union all
    select
        'ods_app__user_profile' as refused_by,
        topic,
        partition_number,
        message_offset,
        reject_reason,
        reject_payload as raw_text,
        cast(null as binary) as raw_bytes,
        load_id
    from ods_app__user_profile
),

refused as (
    select * from still_unreadable
    union all
    select * from unfit
)

select * from refused
