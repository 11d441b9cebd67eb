{{ config(materialized='folded') }}

with

order_detail as (
    {{
        many_to_one_join(
            left={
                'relation': ref('dwd_trade__order_customer'),
                'key': 'order_id',
                'columns': order_columns() + [
                    'product_id',
                    'product_name',
                    'price',
                    'customer_kind',
                    'is_high_value',
                ],
            },
            right={
                'relation': ref('city'),
                'key': 'city_code',
                'columns': {
                    'city_code': 'start_city_code',
                    'country_code': 'start_country_code',
                },
            },
            on={'start_city_name': 'city_name'},
            kind='left',
        )
    }}
)

select * from order_detail
