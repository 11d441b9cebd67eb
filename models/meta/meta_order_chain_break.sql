{{
    config(
        materialized='incremental',
        incremental_strategy='replace_all',
    )
}}

with

changed_links as (
    select
        order_id,
        image_digest,
        altered_values,
        is_left,
        sign,
        binlog_file_number,
        binlog_position,
        row_number
    from {{ changed_partitions(ref('meta_order_chain_link'), by='part') }}
),

new_links as (
    select
        order_id,
        image_digest
    from {{ new_rows(ref('meta_order_chain_link')) }}
),

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
    from {{ pinned(ref('ods_shop__order_info')) }}
    where reject_reason is null
),

suspects as (
    {{
        chain_suspects(
            chain=order_chain(),
            changed_links='changed_links',
            new_links='new_links',
        )
    }}
),

breaks as (
    {{
        chain_breaks(
            chain=order_chain(),
            from_cte='ods_shop__order_info',
            suspects='suspects',
        )
    }}
)

select * from breaks
