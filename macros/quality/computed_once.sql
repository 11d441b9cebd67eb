{#
    SQL text, for a `from`, of a query's rows: a run that reads touched blocks alone computes them
    once, however often its SQL names them; else the query itself.

    name: of the rows, one of its own in the model. query: SQL text.
    blocks: what touched_blocks returns.
#}
{% macro computed_once(name, query, blocks) -%}
    {%- if not blocks.keeps -%}
        {%- do return('(' ~ query ~ ')') -%}
    {%- endif -%}
    {%- do return(adapter.ranges.materialize_once(model, name, query)) -%}
{%- endmacro %}
