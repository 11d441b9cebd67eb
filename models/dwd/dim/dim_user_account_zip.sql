{{
    config(
        materialized='folded',
        unique_key='user_id',
        zipper={
            'sequence': ['binlog_file_number', 'binlog_position', 'row_number'],
            'time': 'event_time',
            'tracked': ['nick', 'level', 'vip'],
            'row_kind': 'row_kind',
        },
    )
}}

with

ods_shop__user_account as (
    select
        user_id,
        nick,
        level,
        vip,
        balance,
        registered_at,
        updated_at,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ new_rows(ref('ods_shop__user_account')) }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__user_account',
            image_columns=[
                'user_id',
                'nick',
                'level',
                'vip',
                'balance',
                'registered_at',
                'updated_at',
            ],
            change_columns=[
                'event_time',
                'binlog_file_number',
                'binlog_position',
                'row_number',
            ],
            upsert_by=['user_id'],
        )
    }}
),

changes as (
    select
        user_id,
        nick,
        level,
        vip,
        balance,
        registered_at,
        updated_at,
        row_kind,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from retracted
)

select * from changes
