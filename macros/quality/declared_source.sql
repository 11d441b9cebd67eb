{#
    Declaration (meta.source) of an ODS model; empty while there is no graph (parsing).

    model_name: name of its table.
#}
{% macro declared_source(model_name) -%}
    {%- set found = namespace(source={}) -%}
    {%- for node in (graph.nodes or {}).values() if node.resource_type == 'model' -%}
        {%- set source = node.config.get('meta', {}).get('source') -%}
        {%- if node.alias == model_name and source is mapping -%}
            {%- set found.source = source -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(found.source) -%}
{%- endmacro %}
