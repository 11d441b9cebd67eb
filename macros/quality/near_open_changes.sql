{#
    Condition on a typed table's rows, by which Iceberg leaves files out: changes of the binlog
    files that open messages are of; none where no message is open.

    outcomes: what message_outcomes returns. blocks: what touched_blocks returns.
#}
{% macro near_open_changes(outcomes, blocks) -%}
    {%- if not blocks.keeps -%}
        {%- do return('true') -%}
    {%- endif -%}
    {%- set files = adapter.ranges.materialize_once(
        model, 'open_binlog_files', _binlog_files_of_open(outcomes)
    ) -%}
    {%- do return(_in_binlog_files(files, 'binlog_file_number')) -%}
{%- endmacro %}

{# Numbers that the binlog files of the open messages may have in typed tables. #}
{% macro _binlog_files_of_open(outcomes) -%}
    {%- set logs = [] -%}
    {%- for source in adapter.declarations.declared_sources(graph) -%}
        {%- do logs.append((source.log_resets or []) | length) -%}
    {%- endfor -%}
    select of_log.binlog_file_number + 10000000000 * logs.log_number as binlog_file_number
    from (
        select distinct binlog_file_number
        from {{ outcomes }}
        where outcome = 'open' and binlog_file_number is not null
    ) as of_log
        lateral view explode(sequence(0, {{ logs | max }})) logs as log_number
{%- endmacro %}
