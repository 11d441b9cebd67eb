with

checks as (
    {{
        quality_rows(
            check='user_status: totals as the latest rows',
            of=new_rows(ref('dqc_trade__user_status_reconciliation')),
            count=user_status(),
        )
    }}
    union all
    {{
        quality_rows(
            check='user_status: days as the changelog',
            of=new_rows(ref('dqc_trade__user_status_1d_reconciliation')),
            count=user_status(),
            level='days',
        )
    }}
    union all
    {{
        quality_rows(
            check='user_status: months as their days',
            of=new_rows(ref('dqc_trade__user_status_1m_reconciliation')),
            count=user_status(),
            level='days',
        )
    }}
    union all
    {{
        quality_rows(
            check='user_status: years as their months',
            of=new_rows(ref('dqc_trade__user_status_1y_reconciliation')),
            count=user_status(),
            level='days',
        )
    }}
    union all
    {{
        quality_rows(
            check='user_status: totals as the source',
            of=new_rows(ref('dqc_trade__user_status_source_reconciliation')),
            count=user_status(),
        )
    }}
    union all
    {{
        quality_rows(
            check='user_coupon: totals as the latest rows',
            of=new_rows(ref('dqc_trade__user_coupon_reconciliation')),
            count=user_coupon(),
        )
    }}
    union all
    {{
        quality_rows(
            check='user_coupon: days as the changelog',
            of=new_rows(ref('dqc_trade__user_coupon_1d_reconciliation')),
            count=user_coupon(),
            level='days',
        )
    }}
),

judged as (
    select
        check_name,
        '{{ invocation_id }}' as run_id,
        current_timestamp() as checked_at,
        case
            when not is_compared then 'not reached'
            when groups_differing > {{ var('reconciliation_threshold') }} then 'failed'
            else 'passed'
        end as verdict,
        cast({{ var('reconciliation_threshold') }} as bigint) as threshold,
        groups_compared,
        groups_differing,
        count_got,
        count_expected,
        count_difference,
        sum_difference
    from checks
)

select * from judged
