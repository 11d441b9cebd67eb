{# What a retract row adds to the sum of a column. Times its sign it would lose places where the
   column is a wide decimal. #}
{% macro signed(column) -%}
    {%- do return('if(sign > 0, ' ~ column ~ ', -' ~ column ~ ')') -%}
{%- endmacro %}
