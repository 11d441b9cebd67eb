{#
    Strategy `append_new_rows`: adds what the model made of the rows that it read through
    new_rows(..). Where those are all rows of an input, because that was rewritten, what the model
    made of the old rows goes, in the same commit; of several inputs all are read again for it. That
    is seen to before the rows are staged, by the materialization.
#}
{% macro get_incremental_append_new_rows_sql(arg_dict) %}
    {{- _insert_new_rows(arg_dict) -}}
{% endmacro %}
