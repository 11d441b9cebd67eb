with

ods_binlog as (
    select
        batch_id,
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

typed as (
    {% for typed_model in typed_models() -%}
        select
            '{{ typed_model.identifier }}' as refused_by,
            batch_id,
            topic,
            partition_number,
            message_offset,
            reject_reason,
            reject_payload,
            load_id
        from {{ typed_model }}
        where reject_reason is not null
        {% if not loop.last -%}
            union all
        {% endif -%}
    {% endfor %}
),

unreadable as (
    select
        ods_binlog.batch_id,
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
        unreadable.batch_id,
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
            unreadable.batch_id = ods_binlog.batch_id
            and unreadable.topic = ods_binlog.topic
            and unreadable.partition_number = ods_binlog.partition_number
            and unreadable.message_offset = ods_binlog.message_offset
            and unreadable.cut_reason is not null
            and ods_binlog.cut_reason is null
),

unfit as (
    select
        refused_by,
        batch_id,
        topic,
        partition_number,
        message_offset,
        reject_reason,
        reject_payload as raw_text,
        cast(null as binary) as raw_bytes,
        load_id
    from typed
),

refused as (
    select * from still_unreadable
    union all
    select * from unfit
)

select * from refused
