{#
    What became of each message of touched blocks: SQL text for a `from`, one row a message. A run
    computes the rows once, and those of the log that they are made of.

    Columns: batch_id, topic, partition_number, message_offset, offset_block, event_time,
    metadata_table, binlog_file, binlog_file_number, binlog_position, row_number, reject_reason,
    outcome ('rejected', 'applied', 'filtered', 'open': a change that no typed table has from it).

    log: ods_binlog. typed: the typed models. blocks: what touched_blocks returns.
#}
{% macro message_outcomes(log, typed, blocks) -%}
    {%- set columns = [
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
        'binlog_file_number',
        'binlog_position',
        'row_number',
        'reject_reason',
    ] -%}
    {%- set log_rows = adapter.ranges.computed_once(
        model,
        'log_rows',
        rows_of_blocks([log], columns + ['cut_reason'], blocks),
        blocks.keeps,
    ) -%}
    {%- do return(adapter.ranges.computed_once(
        model, 'outcomes', _outcomes_of(log_rows, columns, typed, blocks), blocks.keeps
    )) -%}
{%- endmacro %}

{% macro _outcomes_of(log_rows, columns, typed, blocks) %}
with

log_rows as (
    select * from {{ log_rows }}
),

messages as (
    {{ messages_once('log_rows', columns) }}
),

ods_binlog as (
    select
        *,
        message_offset div {{ offsets_of_block() }} as offset_block,
        concat_ws('.', database_name, table_name) as metadata_table,
        {{ is_read_batch() }} as is_read,
        {{ is_declared_table() }} as is_declared
    from messages
),

typed as (
    {{
        rows_of_blocks(
            typed,
            columns=[
                'batch_id',
                'topic',
                'partition_number',
                'message_offset',
                'reject_reason',
            ],
            blocks=blocks,
        )
    }}
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
)

select
    ods_binlog.batch_id,
    ods_binlog.topic,
    ods_binlog.partition_number,
    ods_binlog.message_offset,
    ods_binlog.offset_block,
    ods_binlog.event_time,
    ods_binlog.metadata_table,
    ods_binlog.binlog_file,
    ods_binlog.binlog_file_number,
    ods_binlog.binlog_position,
    ods_binlog.row_number,
    ods_binlog.reject_reason,
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
{% endmacro %}
