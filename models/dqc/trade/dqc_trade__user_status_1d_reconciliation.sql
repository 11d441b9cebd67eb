with

dws_trade__user_status_1d as (
    select
        cut_date,
        user_id,
        biz_status,
        order_count_change,
        amount_sum_change
    from {{ pinned(ref('dws_trade__user_status_1d')) }}
),

dwd_trade__order_changelog as (
    select
        cut_date,
        user_id,
        biz_status,
        amount,
        sign
    from
        {{
            as_read_by(
                ref('dwd_trade__order_changelog'),
                reader=ref('dws_trade__user_status_1d'),
            )
        }}
),

recounted as (
    {{ daily_cut(count=user_status(), from_cte='dwd_trade__order_changelog') }}
),

both_answers as (
    {{
        compared(
            count=user_status(),
            got='dws_trade__user_status_1d',
            expected='recounted',
            level='days',
        )
    }}
),

differing as (
    {{ reconciliation(count=user_status(), from_cte='both_answers', level='days') }}
)

select * from differing
