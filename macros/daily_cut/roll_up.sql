{#
    A level above the days: the days' net changes summed up by month or year.
#}
{% macro roll_up(count, from_cte, of_column, into) -%}
    {%- set cut = _checked_count(count) -%}
    {%- set grain = cut.dimensions + cut['values'] -%}
    {%- set period = {'cut_month': 'month', 'cut_year': 'year'}[into] -%}
    select
        {{ into }},
        {%- for column in grain %}
        {{ column }},
        {%- endfor %}
        {%- for name, sum in cut.sums.items() %}
        {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            cast(trunc({{ of_column }}, '{{ period }}') as date) as {{ into }},
            {%- for column in grain %}
            {{ column }},
            {%- endfor %}
            {%- for name, sum in cut.sums.items() %}
            cast(sum({{ name }}) as {{ sum.type }}) as {{ name }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ from_cte }}
        group by trunc({{ of_column }}, '{{ period }}'), {{ grain | join(', ') }}
    ) as net_changes
    where {{ cut.sums | map('string') | join(' <> 0 or ') }} <> 0
{%- endmacro %}
