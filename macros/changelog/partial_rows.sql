{#
    The rows of several inputs that each write some columns of one wide row by its key: those of an
    input have null in the columns of the others. A null sequence changes nothing, so no input
    overwrites the columns of another.
#}
{% macro partial_rows(parts) -%}
    {%- set columns = [] -%}
    {%- for names in parts.values() -%}
        {%- for name in names if name not in columns -%}
            {%- do columns.append(name) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for cte, names in parts.items() -%}
        select
            {%- for name in columns %}
            {{ name if name in names else 'null as ' ~ name }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ cte }}
        {% if not loop.last -%}
            union all
        {% endif -%}
    {%- endfor -%}
{%- endmacro %}
