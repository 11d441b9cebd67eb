{#
    Strategy `replace_all`: what the model gives takes the place of all rows, in one commit. For
    small tables whose new rows follow from the old ones (this) and from what came.
    As in replace_partitions a column that the model has lost is written as null.
#}
{% macro get_incremental_replace_all_sql(arg_dict) %}
    {%- set staged = (
        arg_dict['dest_columns'] | map(attribute='name') | map('lower') | list
    ) -%}
    insert into {{ arg_dict['target_relation'] }}
    replace where true
    select
        {%- for column in arg_dict['target_columns'] %}
        {{ 'null as ' if column.name | lower not in staged }}{{ column.quoted }}
        {{- ',' if not loop.last }}
        {%- endfor %}
    from {{ arg_dict['temp_relation'] }}
{% endmacro %}
