{#
    The table that holds the runs of a folded model, whose commits are the model's. Its rows are
    state, not the model's rows: read those from the model itself.
#}
{% macro runs_of(relation) -%}
    {%- if relation.is_cte -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(_runs_relation(relation)) -%}
{%- endmacro %}
