{#
    Strategy `replace_partitions`: what the model gives takes the place of the partitions that it
    read through changed_partitions(..), in one commit. A partition that has no rows left goes.
#}
{% macro get_incremental_replace_partitions_sql(arg_dict) %}
    {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
    {%- set predicate = adapter.replaced_predicate(model) -%}
    insert into {{ arg_dict['target_relation'] }}
    replace where {{ predicate if predicate is not none else 'true' }}
    select {{ columns }} from {{ arg_dict['temp_relation'] }}
{% endmacro %}
