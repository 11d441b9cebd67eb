with

ods_shop__user_account as (
    select
        user_id,
        note,
        nick,
        level,
        vip,
        balance,
        big_no,
        score,
        ratio,
        birthday,
        wake_at,
        extra,
        registered_at,
        updated_at,
        flags,
        raw_values,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ ref('ods_shop__user_account') }}
    where reject_reason is null
),

latest as (
    {{
        latest_rows(
            from_cte='ods_shop__user_account',
            key_columns=['user_id'],
            image_columns=[
                'user_id',
                'note',
                'nick',
                'level',
                'vip',
                'balance',
                'big_no',
                'score',
                'ratio',
                'birthday',
                'wake_at',
                'extra',
                'registered_at',
                'updated_at',
                'flags',
                'raw_values',
            ],
            change_columns=[
                'event_time',
                'binlog_file_number',
                'binlog_position',
                'row_number',
            ],
        )
    }}
)

select * from latest
