{# Columns of an order that its details take from the wide order, in their order. #}
{% macro order_columns() -%}
    {%- do return([
        'order_id',
        'user_id',
        'product_type',
        'plat_name',
        'ref_id',
        'amount',
        'order_status',
        'biz_status',
        'create_time',
        'order_event_time',
        'start_city_name',
        'end_city_name',
    ]) -%}
{%- endmacro %}
