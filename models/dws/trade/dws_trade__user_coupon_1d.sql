{{
    config(
        partition_by='cut_date',
        sort_by=['user_id', 'state'],
    )
}}

with

dwd_trade__coupon_changelog as (
    select
        cut_date,
        user_id,
        state,
        amount,
        sign
    from {{ changed_partitions(ref('dwd_trade__coupon_changelog'), by='cut_date') }}
    where {{ is_of_interest('ods_shop__coupon', count=user_coupon()) }}
),

net_changes as (
    {{ daily_cut(count=user_coupon(), from_cte='dwd_trade__coupon_changelog') }}
)

select * from net_changes
