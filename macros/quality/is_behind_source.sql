{#
    Condition on binlog_file_number and binlog_position: the change came behind the place in the
    binlog that the source's own count is of.
#}
{% macro is_behind_source(at_source) -%}
    {%- set place = (
        adapter.commits.commit_property(at_source, 'source.position')
        if execute else none
    ) -%}
    {%- if place -%}
        {%- set file_number, position = place.split(':') -%}
        (
            binlog_file_number > {{ file_number }}
            or (
                binlog_file_number = {{ file_number }}
                and binlog_position >= {{ position }}
            )
        )
    {%- else -%}
        false
    {%- endif -%}
{%- endmacro %}
