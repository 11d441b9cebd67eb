{#
    A level above the days: the days' net changes summed up by month or year.
#}
{% macro roll_up(count, from_cte, of_column, into) -%}
    {%- set period = {'cut_month': 'month', 'cut_year': 'year'}[into] -%}
    {%- set date = 'cast(trunc(' ~ of_column ~ ", '" ~ period ~ "') as date)" -%}
    {{- _net_changes(_checked_count(count), from_cte, date, into, 'rolled') -}}
{%- endmacro %}
