{{
    config(
        partition_by='cut_date',
        sort_by=['user_id', 'biz_status'],
    )
}}

with

dwd_trade__order_changelog as (
    select
        cut_date,
        user_id,
        biz_status,
        amount,
        sign
    from {{ changed_partitions(ref('dwd_trade__order_changelog'), by='cut_date') }}
    where {{ is_of_interest('ods_shop__order_info', count=user_status()) }}
),

net_changes as (
    {{ daily_cut(count=user_status(), from_cte='dwd_trade__order_changelog') }}
)

select * from net_changes
