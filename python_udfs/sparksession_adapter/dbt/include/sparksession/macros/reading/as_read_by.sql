{#
    The relation as another model read it: as of the snapshots of its tables that the newest commit
    of `reader` names. So what that model made can be compared with what it was made from, whatever
    has come in since. Tables that the commit doesn't name are read as of the run's pinned snapshot.
#}
{% macro as_read_by(relation, reader) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(adapter.reading.as_read_by(model, relation, reader, context)) -%}
{%- endmacro %}
