with

dws_trade__user_coupon_1d as (
    select
        cut_date,
        user_id,
        state,
        amount,
        coupon_count_change,
        amount_sum_change
    from {{ pinned(ref('dws_trade__user_coupon_1d')) }}
),

dwd_trade__coupon_changelog as (
    select
        cut_date,
        user_id,
        state,
        amount,
        sign
    from
        {{
            as_read_by(
                ref('dwd_trade__coupon_changelog'),
                reader=ref('dws_trade__user_coupon_1d'),
            )
        }}
),

recounted as (
    {{ daily_cut(count=user_coupon(), from_cte='dwd_trade__coupon_changelog') }}
),

both_answers as (
    {{
        compared(
            count=user_coupon(),
            got='dws_trade__user_coupon_1d',
            expected='recounted',
            level='days',
        )
    }}
),

differing as (
    {{ reconciliation(count=user_coupon(), from_cte='both_answers', level='days') }}
)

select * from differing
