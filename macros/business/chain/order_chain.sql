{#
    The chain of the orders' images. What ADD COLUMN priority .. DEFAULT and DROP COLUMN channel did
    to the rows that were there, the log doesn't show.
#}
{% macro order_chain() -%}
    {%- do return({
        'key_columns': ['order_id'],
        'image_columns': [
            'order_id',
            'user_id',
            'product_type',
            'plat_name',
            'channel',
            'ref_id',
            'amount',
            'order_status',
            'biz_status',
            'comment',
            'priority',
            'create_time',
            'update_time',
            'dispatch_time',
            'decision_time',
            'finish_time',
        ],
        'altered_columns': ['channel', 'priority'],
        'date_column': 'update_time',
        'key_block': 'floor(order_id / 1000000)',
    }) -%}
{%- endmacro %}
