{{
    config(
        materialized='incremental',
        incremental_strategy='merge',
        unique_key=[
            'batch_id',
            'topic',
            'partition_number',
            'offset_block'
        ],
    )
}}

{%- set blocks = touched_blocks(ref('ods_binlog'), typed_models()) %}

with

log_rows as (
    {{
        rows_of_blocks(
            ref('ods_binlog'),
            columns=[
                'held.batch_id',
                'held.topic',
                'held.partition_number',
                'held.message_offset',
                'held.op',
                'held.format',
                'held.database_name',
                'held.table_name',
                'held.event_time',
                'held.binlog_file',
                'held.binlog_position',
                'held.row_number',
                'held.cut_reason',
                'held.reject_reason',
            ],
            blocks=blocks,
        )
    }}
),

messages as (
    {{
        messages_once(
            'log_rows',
            columns=[
                'batch_id',
                'topic',
                'partition_number',
                'message_offset',
                'op',
                'format',
                'database_name',
                'table_name',
                'event_time',
                'binlog_file',
                'binlog_position',
                'row_number',
                'reject_reason',
            ],
        )
    }}
),

ods_binlog as (
    select
        batch_id,
        topic,
        partition_number,
        message_offset,
        message_offset div {{ offsets_of_block() }} as offset_block,
        op,
        event_time,
        concat_ws('.', database_name, table_name) as metadata_table,
        binlog_file,
        binlog_position,
        row_number,
        reject_reason,
        {{ is_read_batch() }} as is_read,
        {{ is_declared_table() }} as is_declared
    from messages
),

typed as (
    {% for typed_model in typed_models() -%}
        {{
            rows_of_blocks(
                typed_model,
                columns=[
                    'held.batch_id',
                    'held.topic',
                    'held.partition_number',
                    'held.message_offset',
                    'held.reject_reason',
                ],
                blocks=blocks,
            )
        }}
        {% if not loop.last -%}
            union all
        {% endif -%}
    {% endfor %}
),

-- a message of several rows is refused when one of them is
taken as (
    select
        batch_id,
        topic,
        partition_number,
        message_offset,
        count(reject_reason) > 0 as is_refused
    from typed
    group by
        batch_id,
        topic,
        partition_number,
        message_offset
),

outcomes as (
    select
        ods_binlog.*,
        case
            when ods_binlog.reject_reason is not null or taken.is_refused
                then 'rejected'
            when taken.is_refused is not null then 'applied'
            when not ods_binlog.is_read or not ods_binlog.is_declared
                then 'filtered'
            when ods_binlog.op in ('insert', 'update', 'delete')
                then 'open'
            when ods_binlog.op in ('snapshot', 'truncate', 'drop', 'rename')
                then 'applied'
            else 'filtered'
        end as outcome
    from ods_binlog
    left join taken
        on
            ods_binlog.batch_id = taken.batch_id
            and ods_binlog.topic = taken.topic
            and ods_binlog.partition_number = taken.partition_number
            and ods_binlog.message_offset = taken.message_offset
),

changes as (
    {% for typed_model in typed_models() -%}
        select
            metadata_table,
            -- as the log names it: typed tables add the number of the log
            regexp_replace(binlog_file, '@[0-9]+$', '') as binlog_file,
            binlog_position,
            row_number
        from {{ pinned(typed_model) }}
        where
            reject_reason is null
            and metadata_op_type in ('insert', 'update', 'delete')
            and {{ blocks.near_changes }}
        {% if not loop.last -%}
            union all
        {% endif -%}
    {% endfor %}
),

-- the change in such a message came in another message too
duplicates as (
    select
        outcomes.batch_id,
        outcomes.topic,
        outcomes.partition_number,
        outcomes.offset_block,
        count(*) as duplicate_count
    from outcomes
    left semi join changes
        on
            outcomes.metadata_table = changes.metadata_table
            and outcomes.binlog_file = changes.binlog_file
            and outcomes.binlog_position = changes.binlog_position
            and outcomes.row_number = changes.row_number
    where outcomes.outcome = 'open'
    group by
        outcomes.batch_id,
        outcomes.topic,
        outcomes.partition_number,
        outcomes.offset_block
),

counted as (
    select
        batch_id,
        topic,
        partition_number,
        offset_block,
        count(*) as messages_in,
        count_if(outcome = 'applied') as applied,
        count_if(outcome = 'open') as open_count,
        count_if(outcome = 'filtered') as filtered,
        count_if(outcome = 'rejected') as rejected,
        count(reject_reason) as unreadable,
        count(distinct message_offset) as offset_count,
        min(message_offset) as first_offset,
        max(message_offset) as last_offset,
        min(event_time) as first_event_time,
        max(event_time) as last_event_time
    from outcomes
    group by
        batch_id,
        topic,
        partition_number,
        offset_block
),

accounting as (
    select
        counted.batch_id,
        counted.topic,
        counted.partition_number,
        counted.offset_block,
        counted.messages_in,
        counted.applied,
        coalesce(duplicates.duplicate_count, 0) as duplicates,
        counted.filtered,
        counted.rejected,
        counted.open_count
        - coalesce(duplicates.duplicate_count, 0) as unaccounted,
        counted.unreadable,
        counted.offset_count,
        counted.first_offset,
        counted.last_offset,
        counted.first_event_time,
        counted.last_event_time
    from counted
    left join duplicates
        on
            counted.batch_id = duplicates.batch_id
            and counted.topic = duplicates.topic
            and counted.partition_number = duplicates.partition_number
            and counted.offset_block = duplicates.offset_block
)

select * from accounting
