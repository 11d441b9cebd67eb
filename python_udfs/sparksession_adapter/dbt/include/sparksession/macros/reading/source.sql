{# dbt's own `source`, read as ref.sql says. #}
{% macro source() -%}
    {%- do return(_read_by_default(builtins.source(*varargs, **kwargs))) -%}
{%- endmacro %}
