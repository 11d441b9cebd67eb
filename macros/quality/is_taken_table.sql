{#
    Condition on database_name and table_name: an ODS model declares this table (meta.source).
    `false` where no model declares any.
#}
{% macro is_taken_table() -%}
    {%- set conditions = [] -%}
    {#- while parsing there is no graph yet -#}
    {%- for node in (graph.nodes or {}).values() if node.resource_type == 'model' -%}
        {%- set source = node.config.get('meta', {}).get('source') -%}
        {%- if source is mapping -%}
            {%- do conditions.append(
                '(database_name = ' ~ _sql_text(source.database) ~ ' and table_name = '
                ~ _sql_text(source.table) ~ ')'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {{- conditions | sort | join(' or ') if conditions else 'false' -}}
{%- endmacro %}
