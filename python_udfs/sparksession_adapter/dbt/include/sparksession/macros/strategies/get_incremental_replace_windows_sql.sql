{#
    Strategy `replace_windows`: what the model gives takes the place of the windows that a window
    macro found touched, in one commit. Iceberg replaces whole files, so the other windows of these
    days are written as they were. A window without rows goes.
    As in replace_partitions a column that the model has lost is written as null.
#}
{% macro get_incremental_replace_windows_sql(arg_dict) %}
    {%- if arg_dict['plan'].news.reads_whole -%}
        {{- get_incremental_replace_all_sql(arg_dict) -}}
    {%- else -%}
        {%- set touched = adapter.windows.touched_windows(arg_dict['plan']) -%}
        {%- set rows -%}
            {{ staged_rows(arg_dict) }}
            union all
            select
                {%- for column in arg_dict['target_columns'] %}
                {{ column.quoted }}{{ ',' if not loop.last }}
                {%- endfor %}
            from (
                select * from {{ arg_dict['target_relation'] }} where {{ touched.predicate }}
            ) as held
            left anti join {{ touched.view }} as touched on {{ touched.same }}
        {%- endset -%}
        insert into {{ arg_dict['target_relation'] }}
        replace where {{ touched.predicate }}
        {{ sorted_by_config(rows) }}
    {%- endif -%}
{% endmacro %}
