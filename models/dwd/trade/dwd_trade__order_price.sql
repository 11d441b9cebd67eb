{{ config(materialized='folded') }}

with

order_price as (
    {{
        temporal_join(
            left={
                'relation': ref('dwd_trade__order_wide'),
                'key': 'order_id',
                'columns': order_columns(),
                'time': 'create_time',
            },
            right={
                'relation': ref('dim_product_price_zip'),
                'key': ['product_id', 'valid_from'],
                'columns': {
                    'product_id': 'product_id',
                    'valid_from': 'price_valid_from',
                    'product_name': 'product_name',
                    'price': 'price',
                },
            },
            on={'ref_id': 'product_id'},
            kind='left',
        )
    }}
)

select * from order_price
