{# Coupons of each user in each state: number, worth, the dearest and the cheapest. #}
{% macro user_coupon() -%}
    {%- do return({
        'dimensions': ['user_id', 'state'],
        'measures': {
            'coupon_count': {'aggregate': 'count'},
            'amount_sum': {
                'aggregate': 'sum', 'column': 'amount', 'type': 'decimal(38, 4)',
            },
            'amount_max': {'aggregate': 'max', 'column': 'amount'},
            'amount_min': {'aggregate': 'min', 'column': 'amount'},
        },
    }) -%}
{%- endmacro %}
