{#
    A count of rows as they are, from scratch: what to_date comes to by another way.
#}
{% macro count_rows(count, from_cte) -%}
    {%- set cut = _checked_count(count) -%}
    select
        {{ cut.dimensions | join(',\n        ') }},
        {%- for name, measure in cut.measures.items() %}
        {% if measure.aggregate == 'count' -%}
            cast(count(*) as bigint)
        {%- elif measure.aggregate == 'sum' -%}
            cast(coalesce(sum({{ measure.column }}), 0) as {{ cut.sums[name].type }})
        {%- elif measure.aggregate == 'count_distinct' -%}
            count(distinct {{ measure.column }})
        {%- else -%}
            {{ measure.aggregate }}({{ measure.column }})
        {%- endif %} as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ from_cte }}
    group by {{ cut.dimensions | join(', ') }}
{%- endmacro %}
