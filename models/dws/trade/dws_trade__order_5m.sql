{{
    config(
        partition_by=['cut_date', 'grain'],
        sort_by=['dimension_set', 'window_start'],
    )
}}

with

dwd_trade__order_event as (
    select
        create_time,
        user_id,
        platform,
        product_type,
        customer_kind,
        amount,
        sign
    from {{ changed_partitions(ref('dwd_trade__order_event'), by='cut_date') }}
    where reject_reason is null
),

metric as (
    {{ metric_rows(placed_orders(), from_cte='dwd_trade__order_event') }}
),

windows as (
    select
        dimension_set,
        grain,
        window_start,
        window_end,
        platform,
        product_type,
        customer_kind,
        order_count,
        gmv,
        buyer_count,
        buyer_sketch,
        cut_date
    from metric
)

select * from windows
