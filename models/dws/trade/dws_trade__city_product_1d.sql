{{
    config(
        partition_by='cut_date',
        sort_by=['start_city_name', 'product_type'],
    )
}}

with

dwd_trade__order_event as (
    select
        cut_date,
        start_city_name,
        product_type,
        amount,
        sign
    from {{ changed_partitions(ref('dwd_trade__order_event'), by='cut_date') }}
    where reject_reason is null
),

net_changes as (
    {{ daily_cut(count=city_product(), from_cte='dwd_trade__order_event') }}
),

-- every change of an order falls on the day that it was placed, so what a day's changes
-- come to is the number of its orders
placed as (
    select
        cut_date,
        start_city_name,
        product_type,
        order_count_change as order_count,
        gmv_change as gmv
    from net_changes
)

select * from placed
