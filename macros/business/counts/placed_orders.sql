{#
    Orders by the time that they were placed at, and what they are worth (GMV), by platform, product
    type and what the user was as a customer then.
#}
{% macro placed_orders() -%}
    {%- do return({
        'time': 'create_time',
        'grains': ['5m', '10m', '1h', '1d'],
        'dimension_sets': {
            'all': [],
            'platform': ['platform'],
            'product_type': ['product_type'],
            'customer_kind': ['customer_kind'],
            'platform_customer_kind': ['platform', 'customer_kind'],
        },
        'measures': {
            'order_count': {'aggregate': 'count'},
            'gmv': {'aggregate': 'sum', 'column': 'amount', 'type': 'decimal(38, 2)'},
            'buyer_count': {'aggregate': 'count_distinct', 'column': 'user_id'},
            'buyer_sketch': {'aggregate': 'theta', 'column': 'user_id'},
        },
    }) -%}
{%- endmacro %}
