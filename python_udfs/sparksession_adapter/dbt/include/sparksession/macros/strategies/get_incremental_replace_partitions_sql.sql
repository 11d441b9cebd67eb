{#
    Strategy `replace_partitions`: what the model gives takes the place of the partitions that it
    read through changed_partitions(..), in one commit. A partition that has no rows left goes.
    `replace where` takes no column list, so a column that the model has lost is written as null.
#}
{% macro get_incremental_replace_partitions_sql(arg_dict) %}
    {%- set predicate = adapter.replaced_predicate(model) -%}
    insert into {{ arg_dict['target_relation'] }}
    replace where {{ predicate if predicate is not none else 'true' }}
    {{ sorted_by_config(staged_rows(arg_dict)) }}
{% endmacro %}
