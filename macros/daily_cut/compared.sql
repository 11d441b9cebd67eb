{#
    Two answers to one count side by side: per group the value of each. Nulls among the
    dimensions are a group like any other. A group that an answer has twice counts twice, one that
    it lacks is 0.

    level: `totals` or `days`, what the answers are of; or `sums`, totals without the measures that
    don't add up (min, max, count_distinct). Answers of days have net changes, <measure>_change.
#}
{% macro compared(count, got, expected, level='totals') -%}
    {%- set shape = _compared_shape(count, level) -%}
    select
        {{ shape['keys'] | join(',\n        ') }},
        {%- for name, type in shape.types.items() %}
            {%- set is_last = loop.last -%}
            {%- for side, is_side in [('got', 'is_got'), ('expected', 'not is_got')] %}
                {%- set where = 'filter (where ' ~ is_side ~ ')' %}
        {% if type -%}
            cast(coalesce(sum({{ name }}) {{ where }}, 0) as {{ type }})
        {%- else -%}
            max({{ name }}) {{ where }}
        {%- endif %} as {{ name }}_{{ side }}{{ ',' if not (is_last and loop.last) }}
            {%- endfor -%}
        {%- endfor %}
    from (
        {%- for side, is_got in [(got, 'true'), (expected, 'false')] %}
        select
            {{ is_got }} as is_got,
            {{ (shape['keys'] + shape.types | list) | join(',\n            ') }}
        from {{ side }}
        {%- if not loop.last %}
        union all
        {%- endif %}
        {%- endfor %}
    ) as both_answers
    group by {{ shape['keys'] | join(', ') }}
{%- endmacro %}

{# What is compared: {keys, types (column of a measure -> type, none where it doesn't add up)}. #}
{% macro _compared_shape(count, level) -%}
    {%- do adapter.declarations.check_arguments('compared', {'level': level}) -%}
    {%- set cut = _checked_count(count) -%}
    {%- set types = {} -%}
    {%- for name in cut.measures -%}
        {%- set sum = cut.sums.get(name) -%}
        {%- if sum -%}
            {%- do types.update({sum.change if level == 'days' else name: sum.type}) -%}
        {%- elif level == 'totals' -%}
            {%- do types.update({name: none}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set days = [cut.cut_column] + cut.dimensions + cut['values'] -%}
    {%- do return({
        'keys': days if level == 'days' else cut.dimensions,
        'types': types,
    }) -%}
{%- endmacro %}
