{# Orders, and what they are worth (GMV), by their start city and product type. #}
{% macro city_product() -%}
    {%- do return({
        'dimensions': ['start_city_name', 'product_type'],
        'measures': {
            'order_count': {'aggregate': 'count'},
            'gmv': {'aggregate': 'sum', 'column': 'amount', 'type': 'decimal(38, 2)'},
        },
    }) -%}
{%- endmacro %}
