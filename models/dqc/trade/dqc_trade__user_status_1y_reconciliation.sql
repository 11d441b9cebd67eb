{%- set of_level = dict(user_status(), cut_column='cut_year') -%}

with

dws_trade__user_status_1y as (
    select
        cut_year,
        user_id,
        biz_status,
        order_count_change,
        amount_sum_change
    from {{ pinned(ref('dws_trade__user_status_1y')) }}
),

dws_trade__user_status_1m as (
    select
        cut_month,
        user_id,
        biz_status,
        order_count_change,
        amount_sum_change
    from
        {{
            as_read_by(
                ref('dws_trade__user_status_1m'),
                reader=ref('dws_trade__user_status_1y'),
            )
        }}
    where cut_month < {{ closed_before(ref('dws_trade__user_status_1y')) }}
),

summed_up as (
    {{
        roll_up(
            count=user_status(),
            from_cte='dws_trade__user_status_1m',
            of_column='cut_month',
            into='cut_year',
        )
    }}
),

both_answers as (
    {{
        compared(
            count=of_level,
            got='dws_trade__user_status_1y',
            expected='summed_up',
            level='days',
        )
    }}
),

differing as (
    {{ reconciliation(count=of_level, from_cte='both_answers', level='days') }}
)

select * from differing
