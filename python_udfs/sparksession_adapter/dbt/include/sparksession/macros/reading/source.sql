{# dbt's own `source`, read as in ref.sql. #}
{% macro source() -%}
    {%- do return(_read_by_default(builtins.source(*varargs, **kwargs))) -%}
{%- endmacro %}
