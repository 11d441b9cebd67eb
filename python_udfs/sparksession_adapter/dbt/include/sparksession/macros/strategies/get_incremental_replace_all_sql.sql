{#
    Strategy `replace_all`: what the model gives takes the place of all rows, in one commit. For
    small tables whose new rows follow from the old rows (this) and from what came.
    As in replace_partitions a column that the model has lost is written as null.
#}
{% macro get_incremental_replace_all_sql(arg_dict) %}
    {{- _replace_all_rows(arg_dict) -}}
{% endmacro %}
