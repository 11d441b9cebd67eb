{{ config(materialized='folded') }}

with

order_customer as (
    {{
        temporal_join(
            left={
                'relation': ref('dwd_trade__order_price'),
                'key': 'order_id',
                'columns': order_columns() + ['product_id', 'product_name', 'price'],
                'time': 'create_time',
                'index': ref('dwd_trade__order_user_index'),
            },
            right={
                'relation': ref('dim_user_customer_zip'),
                'key': ['user_id', 'valid_from'],
                'columns': {
                    'user_id': 'customer_id',
                    'valid_from': 'customer_valid_from',
                    'customer_kind': 'customer_kind',
                    'is_high_value': 'is_high_value',
                },
            },
            on={'user_id': 'user_id'},
            kind='left',
        )
    }}
)

select * from order_customer
