{#
    Strategy `replace_partitions`: what the model gives takes the place of the partitions that it
    read through changed_partitions(..), in one commit. A partition that has no rows left goes.
    `replace where` takes no column list, so a column that the model has lost is written as null.
#}
{% macro get_incremental_replace_partitions_sql(arg_dict) %}
    {%- set staged = (
        arg_dict['dest_columns'] | map(attribute='name') | map('lower') | list
    ) -%}
    {%- set predicate = adapter.replaced_predicate(model) -%}
    insert into {{ arg_dict['target_relation'] }}
    replace where {{ predicate if predicate is not none else 'true' }}
    select
        {%- for column in arg_dict['target_columns'] %}
        {{ 'null as ' if column.name | lower not in staged }}{{ column.quoted }}
        {{- ',' if not loop.last }}
        {%- endfor %}
    from ({{ sorted_by_config('select * from ' ~ arg_dict['temp_relation']) }})
{% endmacro %}
