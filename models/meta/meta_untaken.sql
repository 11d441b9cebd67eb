with

ods_binlog as (
    select
        database_name,
        table_name,
        op,
        event_time
    from {{ ref('ods_binlog') }}
    where reject_reason is null and op in ('insert', 'update', 'delete', 'snapshot')
),

untaken_changes as (
    select
        database_name,
        table_name,
        op,
        event_time
    from ods_binlog
    where op = 'snapshot' or not ({{ is_taken_table() }})
),

untaken as (
    select
        database_name,
        table_name,
        case
            when op = 'snapshot' then 'rows of a full load are not taken yet'
            else 'no ODS model declares this table'
        end as reason,
        count(*) as message_count,
        min(event_time) as first_event_time,
        max(event_time) as last_event_time
    from untaken_changes
    group by
        database_name,
        table_name,
        case
            when op = 'snapshot' then 'rows of a full load are not taken yet'
            else 'no ODS model declares this table'
        end
)

select * from untaken
