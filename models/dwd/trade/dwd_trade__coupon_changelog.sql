{{
    config(
        meta={'row_wise': true},
    )
}}

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
        before,
        op_type,
        unique_key,
        cut_date,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number,
        metadata_table,
        metadata_changes,
        metadata_op_type,
        metadata_commit_ts
    from {{ ref('ods_shop__coupon') }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__coupon',
            image_columns=[
                'user_id',
                'coupon_code',
                'amount',
                'state',
                'valid_until',
                'used_order',
                'update_time',
            ],
            change_columns=[
                'unique_key',
                'binlog_file_number',
                'binlog_position',
                'row_number',
                'metadata_table',
                'metadata_changes',
                'metadata_op_type',
                'metadata_commit_ts',
                'event_time',
                'cut_date',
            ],
        )
    }}
)

select * from retracted
