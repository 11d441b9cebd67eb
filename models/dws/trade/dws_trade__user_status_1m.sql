{{
    config(
        partition_by='cut_month',
        sort_by=['user_id', 'biz_status'],
    )
}}

with

dws_trade__user_status_1d as (
    select
        cut_date,
        user_id,
        biz_status,
        order_count_change,
        amount_sum_change
    from
        {{
            closed_periods(
                ref('dws_trade__user_status_1d'),
                by='cut_date',
                period='month',
                into='cut_month',
            )
        }}
),

net_changes as (
    {{
        roll_up(
            count=user_status(),
            from_cte='dws_trade__user_status_1d',
            of_column='cut_date',
            into='cut_month',
        )
    }}
)

select * from net_changes
