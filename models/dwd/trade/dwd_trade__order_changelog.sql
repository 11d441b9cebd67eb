{{
    config(
        meta={'row_wise': true},
    )
}}

with

ods_shop__order_info as (
    select
        order_id,
        user_id,
        product_type,
        plat_name,
        ref_id,
        amount,
        order_status,
        biz_status,
        create_time,
        update_time,
        dispatch_time,
        decision_time,
        finish_time,
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
    from {{ ref('ods_shop__order_info') }}
    where reject_reason is null
),

retracted as (
    {{
        retract_rows(
            from_cte='ods_shop__order_info',
            image_columns=[
                'order_id',
                'user_id',
                'product_type',
                'plat_name',
                'ref_id',
                'amount',
                'order_status',
                'biz_status',
                'create_time',
                'update_time',
                'dispatch_time',
                'decision_time',
                'finish_time',
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
