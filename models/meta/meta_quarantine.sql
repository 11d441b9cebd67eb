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
        {%- set declared = declared_source(typed_model.identifier) %}
        select
            '{{ typed_model.identifier }}' as refused_by,
            '{{ declared.database }}' as database_name,
            '{{ declared.table }}' as table_name,
            event_time,
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

-- what was left of a cut file is settled once the whole message has come, another
-- message once it was read again and taken
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
            and ods_binlog.cut_reason is null
            and (
                unreadable.cut_reason is not null
                or ods_binlog.reject_reason is null
            )
),

loads as (
    select
        database_name,
        table_name,
        max(event_time) as loaded_until
    from {{ ref('ods_binlog') }}
    where reject_reason is null and op = 'snapshot' and {{ is_read_batch() }}
    group by
        database_name,
        table_name
),

-- a RENAME whose rows weren't all known is settled by a full load that was read well
-- behind it (LOAD_MARGIN of python_udfs/ingestion/whole_table)
unfit as (
    select
        typed.refused_by,
        typed.batch_id,
        typed.topic,
        typed.partition_number,
        typed.message_offset,
        typed.reject_reason,
        typed.reject_payload as raw_text,
        cast(null as binary) as raw_bytes,
        typed.load_id
    from typed
    left anti join loads
        on
            typed.database_name = loads.database_name
            and typed.table_name = loads.table_name
            and typed.reject_reason like '%come with a full load of%'
            and typed.event_time + interval 1 hour < loads.loaded_until
),

refused as (
    select * from still_unreadable
    union all
    select * from unfit
)

select * from refused
