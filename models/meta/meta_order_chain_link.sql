{{
    config(
        materialized='incremental',
        incremental_strategy='append_new_rows',
        partition_by='part',
    )
}}

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
        binlog_file_number,
        binlog_position,
        row_number,
        cut_date
    from {{ new_rows(ref('ods_shop__order_info')) }}
    where reject_reason is null
),

links as (
    {{ chain_links(chain=order_chain(), from_cte='ods_shop__order_info') }}
)

select * from links
