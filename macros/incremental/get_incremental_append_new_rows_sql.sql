{#
    Strategy `append_new_rows`: adds what the model made of the rows that it read through
    new_rows(..). Where those are all rows of an input, because that was rewritten, what the model
    made of the old ones goes, in the same commit; of several inputs all are read anew for it.
#}
{% macro get_incremental_append_new_rows_sql(arg_dict) %}
    {%- if adapter.reads_whole(model) -%}
        {{- get_incremental_replace_all_sql(arg_dict) -}}
    {%- else -%}
        {%- set columns = (
            arg_dict['dest_columns'] | map(attribute='quoted') | join(', ')
        ) -%}
        insert into {{ arg_dict['target_relation'] }} ({{ columns }})
        select {{ columns }} from {{ arg_dict['temp_relation'] }}
    {%- endif -%}
{% endmacro %}
