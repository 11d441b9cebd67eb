{{
    config(
        materialized='folded',
        unique_key='user_id',
        zipper={
            'sequence': ['binlog_position', 'row_number'],
            'time': 'event_time',
            'tracked': ['name', 'email', 'status', 'level', 'balance', 'city'],
            'row_kind': 'row_kind',
            'known_columns': 'known_columns',
        },
    )
}}

with

ods_app__user_profile as (
    select
        user_id,
        name,
        email,
        status,
        level,
        balance,
        city,
        created_at,
        updated_at,
        known_columns,
        op_type,
        event_time,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_app__user_profile')) }}
    where reject_reason is null
),

-- a document keeps its _id: no change moves it to another key
changes as (
    select
        user_id,
        name,
        email,
        status,
        level,
        balance,
        city,
        created_at,
        updated_at,
        known_columns,
        case op_type
            when 'insert' then '+I'
            when 'delete' then '-D'
            else '+U'
        end as row_kind,
        event_time,
        binlog_position,
        row_number
    from ods_app__user_profile
)

select * from changes
