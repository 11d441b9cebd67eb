{#
    Condition on database_name, table_name, op, format and topic of a message: an ODS model declares
    this table, in this format and by this topic (meta.source). Rows of full loads may be in another
    format than the log. `false` where no model declares any.
#}
{% macro is_declared_table() -%}
    {%- set conditions = [] -%}
    {%- for source in adapter.declarations.declared_sources(graph) -%}
        {%- set parts = [
            'database_name = ' ~ _sql_text(source.database),
            'table_name = ' ~ _sql_text(source.table),
            "(op = 'snapshot' or format = "
            ~ _sql_text(source.get('format', 'maxwell')) ~ ')',
        ] -%}
        {%- set topics = source.get('topic') or [] -%}
        {%- set likes = [] -%}
        {%- for topic in ([topics] if topics is string else topics) -%}
            {%- do likes.append(_is_like(topic)) -%}
        {%- endfor -%}
        {%- if likes -%}
            {%- do parts.append('(' ~ likes | join(' or ') ~ ')') -%}
        {%- endif -%}
        {%- do conditions.append('(' ~ parts | join(' and ') ~ ')') -%}
    {%- endfor -%}
    {{- conditions | sort | join(' or ') if conditions else 'false' -}}
{%- endmacro %}

{# `topic` fits a shell pattern, as the typed tables read it. #}
{% macro _is_like(pattern) -%}
    {%- if '[' in pattern -%}
        {{- 'topic rlike ' ~ _sql_text(adapter.declarations.topic_regex(pattern)) -}}
    {%- else -%}
        {%- set like = pattern | replace('!', '!!') | replace('%', '!%') -%}
        {%- set like = like | replace('_', '!_') | replace('*', '%') -%}
        {%- set like = like | replace('?', '_') -%}
        {{- 'topic like ' ~ _sql_text(like) ~ " escape '!'" -}}
    {%- endif -%}
{%- endmacro %}
