{#
    First day behind the periods that a level holds (see closed_periods), as SQL: of the commits
    that the model reads of it. Null, which no day lies before, where it holds none. In a unit test
    all periods are closed.
#}
{% macro closed_before(level) -%}
    {%- if level.is_cte -%}
        {%- do return("date '9999-12-31'") -%}
    {%- endif -%}
    {%- set closed = adapter.partitions.closed_before(level) if execute -%}
    {%- do return("date '" ~ closed ~ "'" if closed else 'cast(null as date)') -%}
{%- endmacro %}
