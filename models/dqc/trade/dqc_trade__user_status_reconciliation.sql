with

dws_trade__user_status_td as (
    select
        user_id,
        biz_status,
        order_count,
        amount_sum
    from {{ pinned(ref('dws_trade__user_status_td')) }}
),

dwd_trade__order_latest as (
    select
        user_id,
        biz_status,
        amount
    from
        {{
            as_read_by(
                ref('dwd_trade__order_latest'),
                reader=ref('dws_trade__user_status_1d'),
            )
        }}
),

recounted as (
    {{ count_rows(count=user_status(), from_cte='dwd_trade__order_latest') }}
),

both_answers as (
    {{
        compared(
            count=user_status(),
            got='dws_trade__user_status_td',
            expected='recounted',
        )
    }}
),

differing as (
    {{ reconciliation(count=user_status(), from_cte='both_answers') }}
)

select * from differing
