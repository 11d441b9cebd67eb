{#
    dbt's own `ref`, but what is stored reads the snapshot that the run pinned each table to, as
    pinned(..) does, and its commit records it.
#}
{% macro ref() -%}
    {%- do return(_read_by_default(builtins.ref(*varargs, **kwargs))) -%}
{%- endmacro %}

{% macro _read_by_default(relation) -%}
    {%- if not execute or model is not defined -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(adapter.default_reads.read_by_default(model, relation, context)) -%}
{%- endmacro %}
