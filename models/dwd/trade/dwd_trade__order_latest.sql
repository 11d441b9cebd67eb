with

ods_shop__order_info as (
    select
        order_id,
        user_id,
        product_type,
        plat_name,
        channel,
        ref_id,
        amount,
        order_status,
        biz_status,
        comment,
        priority,
        create_time,
        update_time,
        dispatch_time,
        decision_time,
        finish_time,
        raw_values,
        before,
        op_type,
        event_time,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ ref('ods_shop__order_info') }}
    where reject_reason is null
),

latest as (
    {{
        latest_rows(
            from_cte='ods_shop__order_info',
            key_columns=['order_id'],
            image_columns=[
                'order_id',
                'user_id',
                'product_type',
                'plat_name',
                'channel',
                'ref_id',
                'amount',
                'order_status',
                'biz_status',
                'comment',
                'priority',
                'create_time',
                'update_time',
                'dispatch_time',
                'decision_time',
                'finish_time',
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
