with

ods_binlog as (
    select
        topic,
        format,
        database_name,
        table_name,
        op,
        event_time
    from {{ ref('ods_binlog') }}
    where reject_reason is null and op in ('insert', 'update', 'delete', 'snapshot')
),

undeclared as (
    select
        topic,
        format,
        database_name,
        table_name,
        count(*) as message_count,
        min(event_time) as first_event_time,
        max(event_time) as last_event_time
    from ods_binlog
    where not ({{ is_declared_table() }})
    group by
        topic,
        format,
        database_name,
        table_name
)

select * from undeclared
