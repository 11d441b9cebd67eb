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
{%- set outcomes = message_outcomes(ref('ods_binlog'), typed_models(), blocks) %}

with

outcomes as (
    select * from {{ outcomes }}
),

changes as (
    {%- set near = near_open_changes(outcomes, blocks) %}
    {% for typed_model in typed_models() -%}
        select
            batch_id,
            metadata_table,
            -- as the log names it: typed tables add the number of the log
            regexp_replace(binlog_file, '@[0-9]+$', '') as binlog_file,
            binlog_position,
            row_number
        from {{ pinned(typed_model) }}
        where
            reject_reason is null
            and metadata_op_type in ('insert', 'update', 'delete')
            and {{ near }}
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
            and (
                outcomes.row_number = changes.row_number
                -- what a batch has corrected: its number is a hash of its images
                or (
                    outcomes.binlog_file = 'postgres'
                    and outcomes.batch_id <> changes.batch_id
                )
            )
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
