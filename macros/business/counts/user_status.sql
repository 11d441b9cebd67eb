{# Orders of each user in each business status, and their amount. #}
{% macro user_status() -%}
    {%- do return({
        'dimensions': ['user_id', 'biz_status'],
        'measures': {
            'order_count': {'aggregate': 'count'},
            'amount_sum': {
                'aggregate': 'sum', 'column': 'amount', 'type': 'decimal(38, 2)',
            },
        },
    }) -%}
{%- endmacro %}
