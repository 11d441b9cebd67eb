with

ods_shop__coupon as (
    select
        user_id,
        coupon_code,
        amount,
        state,
        valid_until,
        used_order,
        update_time,
        raw_values,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ ref('ods_shop__coupon') }}
    where reject_reason is null
),

latest as (
    {{
        latest_rows(
            from_cte='ods_shop__coupon',
            key_columns=['user_id', 'coupon_code'],
            image_columns=[
                'user_id',
                'coupon_code',
                'amount',
                'state',
                'valid_until',
                'used_order',
                'update_time',
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
