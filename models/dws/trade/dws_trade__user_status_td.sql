{{
    config(
        materialized='view',
    )
}}

with

totals as (
    select
        user_id,
        biz_status,
        order_count,
        amount_sum
    from
        (
            {{
                to_date(
                    count=user_status(),
                    days=ref('dws_trade__user_status_1d'),
                    months=ref('dws_trade__user_status_1m'),
                    years=ref('dws_trade__user_status_1y'),
                )
            }}
        ) as to_date_totals
)

select * from totals
