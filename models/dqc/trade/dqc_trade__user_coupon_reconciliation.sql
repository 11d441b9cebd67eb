with

dws_trade__user_coupon_td as (
    select
        user_id,
        state,
        coupon_count,
        amount_sum,
        amount_max,
        amount_min
    from {{ pinned(ref('dws_trade__user_coupon_td')) }}
),

dwd_trade__coupon_latest as (
    select
        user_id,
        state,
        amount
    from
        {{
            as_read_by(
                ref('dwd_trade__coupon_latest'),
                reader=ref('dws_trade__user_coupon_1d'),
            )
        }}
),

recounted as (
    {{ count_rows(count=user_coupon(), from_cte='dwd_trade__coupon_latest') }}
),

both_answers as (
    {{
        compared(
            count=user_coupon(),
            got='dws_trade__user_coupon_td',
            expected='recounted',
        )
    }}
),

differing as (
    {{ reconciliation(count=user_coupon(), from_cte='both_answers') }}
)

select * from differing
