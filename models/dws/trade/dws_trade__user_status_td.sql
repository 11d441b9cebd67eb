{{
    config(
        materialized='view',
    )
}}

with

dws_trade__user_status_1d as (
    select
        user_id,
        biz_status,
        order_count,
        amount_sum
    from {{ ref('dws_trade__user_status_1d') }}
),

totals as (
    select
        user_id,
        biz_status,
        cast(sum(order_count) as bigint) as order_count,
        cast(sum(amount_sum) as decimal(38, 2)) as amount_sum
    from dws_trade__user_status_1d
    group by user_id, biz_status
),

present as (
    select
        user_id,
        biz_status,
        order_count,
        amount_sum
    from totals
    where order_count <> 0
)

select * from present
