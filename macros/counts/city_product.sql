{# Orders by the city that they go from and their product type, and their worth (GMV). #}
{% macro city_product() -%}
    {%- do return({
        'dimensions': ['start_city_name', 'product_type'],
        'measures': {
            'order_count': {'aggregate': 'count'},
            'gmv': {'aggregate': 'sum', 'column': 'amount', 'type': 'decimal(38, 2)'},
        },
    }) -%}
{%- endmacro %}
