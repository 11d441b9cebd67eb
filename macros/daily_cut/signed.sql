{# What a retract row adds to the sum of a column. Times its sign it would lose places where the
   column is a wide decimal. #}
{% macro signed(column) -%}
    {%- do return('if(sign > 0, ' ~ column ~ ', -' ~ column ~ ')') -%}
{%- endmacro %}

{# Error text for the declared type of a sum, else none. #}
{% macro _sum_type_problem(name, measure) -%}
    {%- set type = measure.get('type') -%}
    {%- if type is not string or not type -%}
        {%- do return(
            'measure ' ~ name ~ ' must have a type with all places of ' ~ measure.column
            ~ ', since what has more is rounded, got ' ~ measure
        ) -%}
    {%- endif -%}
    {%- do return(none) -%}
{%- endmacro %}
