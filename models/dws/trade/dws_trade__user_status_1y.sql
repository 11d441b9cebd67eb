{{
    config(
        partition_by='cut_year',
        sort_by=['user_id', 'biz_status'],
    )
}}

with

dws_trade__user_status_1m as (
    select
        cut_month,
        user_id,
        biz_status,
        order_count_change,
        amount_sum_change
    from
        {{
            closed_periods(
                ref('dws_trade__user_status_1m'),
                by='cut_month',
                period='year',
                into='cut_year',
            )
        }}
),

net_changes as (
    {{
        roll_up(
            count=user_status(),
            from_cte='dws_trade__user_status_1m',
            of_column='cut_month',
            into='cut_year',
        )
    }}
)

select * from net_changes
