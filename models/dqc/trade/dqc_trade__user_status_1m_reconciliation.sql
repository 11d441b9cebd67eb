{%- set of_level = dict(user_status(), cut_column='cut_month') -%}

with

dws_trade__user_status_1m as (
    select
        cut_month,
        user_id,
        biz_status,
        order_count_change,
        amount_sum_change
    from {{ pinned(ref('dws_trade__user_status_1m')) }}
),

dws_trade__user_status_1d as (
    select
        cut_date,
        user_id,
        biz_status,
        order_count_change,
        amount_sum_change
    from
        {{
            as_read_by(
                ref('dws_trade__user_status_1d'),
                reader=ref('dws_trade__user_status_1m'),
            )
        }}
    where cut_date < {{ closed_before(ref('dws_trade__user_status_1m')) }}
),

summed_up as (
    {{
        roll_up(
            count=user_status(),
            from_cte='dws_trade__user_status_1d',
            of_column='cut_date',
            into='cut_month',
        )
    }}
),

both_answers as (
    {{
        compared(
            count=of_level,
            got='dws_trade__user_status_1m',
            expected='summed_up',
            level='days',
        )
    }}
),

differing as (
    {{ reconciliation(count=of_level, from_cte='both_answers', level='days') }}
)

select * from differing
