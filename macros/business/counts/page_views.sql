{# Page views and visitors, by platform and page. #}
{% macro page_views() -%}
    {%- do return({
        'time': 'viewed_at',
        'grains': ['5m', '10m', '1h', '1d'],
        'dimension_sets': {
            'all': [],
            'platform': ['platform'],
            'page': ['page'],
        },
        'measures': {
            'pv': {'aggregate': 'count'},
            'uv': {'aggregate': 'count_distinct', 'column': 'visitor_id'},
            'uv_sketch': {'aggregate': 'hll', 'column': 'visitor_id'},
            'user_sketch': {'aggregate': 'theta', 'column': 'user_id'},
        },
    }) -%}
{%- endmacro %}
