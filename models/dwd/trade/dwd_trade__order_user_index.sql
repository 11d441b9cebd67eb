{{ config(materialized='folded') }}

with

order_user_index as (
    {{
        join_index(
            relation=ref('dwd_trade__order_price'),
            key='order_id',
            by=['user_id', 'create_time'],
        )
    }}
)

select * from order_user_index
