{{
    config(
        materialized='incremental',
        incremental_strategy='append_new_rows',
        on_schema_change='fail',
        partition_by='cut_date',
    )
}}

{%- set event_columns = [
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
] -%}

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
            columns=event_columns + ['sign'],
        )
    }}
),

order_event as (
    {{
        event_rows(
            from_cte='cleaned',
            columns=event_columns + ['cleaning'],
            time='create_time',
            known_at='order_event_time',
            max_behind_days=var('order_max_behind_days'),
        )
    }}
)

select * from order_event
