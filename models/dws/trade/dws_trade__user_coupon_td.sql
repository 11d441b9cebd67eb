{{
    config(
        materialized='view',
    )
}}

with

totals as (
    select
        user_id,
        state,
        coupon_count,
        amount_sum,
        amount_max,
        amount_min
    from
        (
            {{
                to_date(
                    count=user_coupon(),
                    days=ref('dws_trade__user_coupon_1d'),
                )
            }}
        ) as to_date_totals
)

select * from totals
