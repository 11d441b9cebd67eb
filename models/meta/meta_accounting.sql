with

messages as (
    {{
        messages_once(
            ref('ods_binlog'),
            columns=[
                'batch_id',
                'topic',
                'partition_number',
                'message_offset',
                'op',
                'format',
                'database_name',
                'table_name',
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
        op,
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
        select
            batch_id,
            topic,
            partition_number,
            message_offset,
            metadata_table,
            metadata_op_type,
            binlog_file,
            binlog_position,
            row_number,
            reject_reason
        from {{ typed_model }}
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

changes as (
    select
        metadata_table,
        -- as the log names it: typed tables add the number of the log
        regexp_replace(binlog_file, '@[0-9]+$', '') as binlog_file,
        binlog_position,
        row_number
    from typed
    where
        reject_reason is null
        and metadata_op_type in ('insert', 'update', 'delete')
),

outcomes as (
    select
        ods_binlog.batch_id,
        ods_binlog.topic,
        ods_binlog.partition_number,
        ods_binlog.metadata_table,
        ods_binlog.binlog_file,
        ods_binlog.binlog_position,
        ods_binlog.row_number,
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

-- the change in such a message came in another message too
duplicates as (
    select
        outcomes.batch_id,
        outcomes.topic,
        outcomes.partition_number,
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
        outcomes.partition_number
),

counted as (
    select
        batch_id,
        topic,
        partition_number,
        count(*) as messages_in,
        count_if(outcome = 'applied') as applied,
        count_if(outcome = 'open') as open_count,
        count_if(outcome = 'filtered') as filtered,
        count_if(outcome = 'rejected') as rejected
    from outcomes
    group by
        batch_id,
        topic,
        partition_number
),

accounting as (
    select
        counted.batch_id,
        counted.topic,
        counted.partition_number,
        counted.messages_in,
        counted.applied,
        coalesce(duplicates.duplicate_count, 0) as duplicates,
        counted.filtered,
        counted.rejected,
        counted.open_count
        - coalesce(duplicates.duplicate_count, 0) as unaccounted
    from counted
    left join duplicates
        on
            counted.batch_id = duplicates.batch_id
            and counted.topic = duplicates.topic
            and counted.partition_number = duplicates.partition_number
)

select * from accounting
