{{
    config(
        materialized='incremental',
        incremental_strategy='append_new_rows',
        partition_by='cut_date',
    )
}}

with

order_changes as (
    select
        order_id,
        user_id,
        plat_name as platform,
        product_type,
        start_city_name,
        customer_kind,
        amount,
        create_time,
        order_event_time,
        row_kind,
        sign
    from {{ new_changes(ref('dwd_trade__order_customer')) }}
),

cleaned as (
    {{
        cleaned(
            model,
            from_cte='order_changes',
            columns=[
                'order_id',
                'user_id',
                'platform',
                'product_type',
                'start_city_name',
                'customer_kind',
                'amount',
                'create_time',
                'order_event_time',
                'row_kind',
                'sign',
            ],
        )
    }}
),

order_event as (
    {{
        event_rows(
            from_cte='cleaned',
            columns=[
                'order_id',
                'user_id',
                'platform',
                'product_type',
                'start_city_name',
                'customer_kind',
                'amount',
                'create_time',
                'order_event_time',
                'row_kind',
                'cleaning',
            ],
            time='create_time',
            known_at='order_event_time',
            max_behind_days=var('order_max_behind_days'),
        )
    }}
)

select * from order_event
