{{
    config(
        partition_by='cut_date',
    )
}}

with

dwd_trade__order_changelog as (
    select
        cut_date,
        user_id,
        biz_status,
        amount,
        sign
    from {{ changed_partitions(ref('dwd_trade__order_changelog'), by='cut_date') }}
),

daily_changes as (
    select
        cut_date,
        user_id,
        biz_status,
        cast(sum(sign) as bigint) as order_count,
        cast(coalesce(sum(sign * amount), 0) as decimal(38, 2)) as amount_sum
    from dwd_trade__order_changelog
    group by cut_date, user_id, biz_status
),

real_changes as (
    select
        cut_date,
        user_id,
        biz_status,
        order_count,
        amount_sum
    from daily_changes
    -- a day may leave the count as it was and still move the amount
    where order_count <> 0 or amount_sum <> 0
)

select * from real_changes
