{#
    Query of one row: whether the log has come as far as the place in the binlog that the source's
    own count is of (is_reached). The topics of the server are those that its declaration names.
#}
{% macro source_is_reached(at_source, from_cte) -%}
    {%- set place = (
        adapter.commits.commit_property(at_source, 'source.last_change')
        if execute else none
    ) -%}
    {%- set likes, resets = [], [] -%}
    {%- for node in (graph.nodes or {}).values() -%}
        {%- if node.alias == at_source.identifier -%}
            {%- set topics = node.config.meta.source_count.topic -%}
            {%- do resets.extend(node.config.meta.source_count.log_resets or []) -%}
            {%- for topic in ([topics] if topics is string else topics) -%}
                {%- do likes.append(_is_like(topic)) -%}
            {%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set file_number, position = (place or '0:0').split(':') -%}
    select
        coalesce(
            max(
                struct(
                    {{ placed_file_number(resets) }} as binlog_file_number,
                    binlog_position
                )
            )
            >= struct(
                cast({{ file_number }} as bigint) as binlog_file_number,
                cast({{ position }} as bigint) as binlog_position
            ),
            false
        ) as is_reached
    from {{ from_cte }}
    where
        binlog_position is not null
        and ({{ likes | join(' or ') or 'true' }})
{%- endmacro %}
