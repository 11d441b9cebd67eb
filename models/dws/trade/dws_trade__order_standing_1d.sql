{{
    config(
        materialized='view',
    )
}}

with

dws_trade__user_status_1d as (
    select
        cut_date,
        biz_status,
        order_count_change,
        amount_sum_change
    from {{ ref('dws_trade__user_status_1d') }}
),

net_changes as (
    select
        cut_date,
        biz_status,
        sum(order_count_change) as order_count_change,
        sum(amount_sum_change) as amount_sum_change
    from dws_trade__user_status_1d
    group by
        cut_date,
        biz_status
),

statuses as (
    select
        biz_status,
        min(cut_date) as first_date
    from net_changes
    group by biz_status
),

last_days as (
    select max(cut_date) as last_date
    from net_changes
),

-- a day without a change has the standing of the day before
days as (
    select
        statuses.biz_status,
        explode(sequence(statuses.first_date, last_days.last_date)) as cut_date
    from statuses
    cross join last_days
),

standing as (
    select
        days.cut_date,
        days.biz_status,
        sum(coalesce(net_changes.order_count_change, 0)) over (
            partition by days.biz_status
            order by days.cut_date
        ) as order_count,
        sum(coalesce(net_changes.amount_sum_change, 0)) over (
            partition by days.biz_status
            order by days.cut_date
        ) as amount_sum
    from days
    left join net_changes
        on
            days.cut_date = net_changes.cut_date
            and days.biz_status <=> net_changes.biz_status
)

select * from standing
