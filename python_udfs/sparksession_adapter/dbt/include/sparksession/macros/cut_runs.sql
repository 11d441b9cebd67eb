{# What materializations do in a run with --empty, see flags.py of the adapter. #}

{#
    Whether the run leaves the node as it is: with --empty all that is there stays, and dbt's line
    names it. dbt makes no batches for a microbatch model whose table it finds: it isn't made empty.
#}
{% macro _is_left_as_it_is(existing_relation) %}
    {%- set is_microbatch = config.get('incremental_strategy') == 'microbatch' -%}
    {%- set is_made = existing_relation is none and not is_microbatch -%}
    {%- if is_made or not adapter.cut_runs.is_empty_run() -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do store_raw_result(
        'main',
        message='left as it is (--empty)' if existing_relation is not none else 'not made
        (--empty)', code='',
        rows_affected=0,
    ) -%}
    {%- do return(true) -%}
{% endmacro %}

{#
    The query of a table that is rebuilt; with --empty it gives no rows, and the commit names no
    input, so that the next run is the table's first.
#}
{% macro _first_rows(select_sql) %}
    {%- if not adapter.cut_runs.is_empty_run() -%}
        {%- do return(select_sql) -%}
    {%- endif -%}
    {%- do adapter.cut_runs.read_nothing(model) -%}
    {%- do return('select * from (\n' ~ select_sql ~ '\n) where false') -%}
{% endmacro %}
