with

ods_binlog as (
    select
        batch_id,
        topic,
        partition_number,
        message_offset,
        op,
        reject_reason,
        {{ is_read_batch() }} as is_read,
        {{ is_taken_table() }} as is_declared
    from {{ ref('ods_binlog') }}
),

typed as (
    {% for typed_model in typed_models() -%}
        select
            batch_id,
            topic,
            partition_number,
            message_offset,
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

outcomes as (
    select
        ods_binlog.batch_id,
        ods_binlog.topic,
        ods_binlog.partition_number,
        case
            when ods_binlog.reject_reason is not null or taken.is_refused
                then 'rejected'
            when taken.is_refused is not null then 'applied'
            when not ods_binlog.is_read or not ods_binlog.is_declared
                then 'filtered'
            when ods_binlog.op in ('insert', 'update', 'delete')
                then 'duplicate'
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

accounting as (
    select
        batch_id,
        topic,
        partition_number,
        count(*) as messages_in,
        count_if(outcome = 'applied') as applied,
        count_if(outcome = 'duplicate') as duplicates,
        count_if(outcome = 'filtered') as filtered,
        count_if(outcome = 'rejected') as rejected
    from outcomes
    group by
        batch_id,
        topic,
        partition_number
)

select * from accounting
