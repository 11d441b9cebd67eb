{#
    The relation as of the snapshot that this run pinned it to: every model of the run that reads
    it reads the same rows, and this model's commit records the snapshot. A view is read as its own
    SQL over pinned inputs.
#}
{% macro pinned(relation) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(adapter.reading.pinned(model, relation, context)) -%}
{%- endmacro %}
