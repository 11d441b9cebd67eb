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

placed as (
    {{ daily_cut(count=city_product(), from_cte='dwd_trade__order_event') }}
)

select * from placed
