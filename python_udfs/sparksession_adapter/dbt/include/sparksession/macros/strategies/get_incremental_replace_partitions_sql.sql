{#
    Strategy `replace_partitions`: what the model gives takes the place of the partitions that it
    read through changed_partitions(..), in one commit. A partition that has no rows left goes.
    `replace where` takes no column list, so a column that the model has lost is written as null.
    A row outside of these partitions fails the run: it would be added to the same partition of
    before. That stands in a column, not in a condition, which Spark might ask of rows that a join
    drops.
#}
{% macro get_incremental_replace_partitions_sql(arg_dict) %}
    {%- set predicate = adapter.partitions.replaced_predicate(arg_dict['plan']) -%}
    {%- set rows = staged_rows(arg_dict) -%}
    {%- if predicate is not none -%}
        {%- set first = arg_dict['target_columns'][0].quoted -%}
        {%- set outside = (
            model.name ~ ' has a row outside of the partitions that it replaces, which would be '
            ~ 'added again in each run: read all that its rows come from through '
            ~ 'changed_partitions(..), and keep the column of the partitions as it is'
        ) -%}
        {%- set rows -%}
            select
                if(
                    {{ predicate }}, {{ first }}, raise_error({{ _sql_text(outside) }})
                ) as {{ first }}
                {%- for column in arg_dict['target_columns'][1:] %},
                {{ column.quoted }}
                {%- endfor %}
            from (
                {{ rows }}
            )
        {%- endset -%}
    {%- endif -%}
    insert into {{ arg_dict['target_relation'] }}
    replace where {{ predicate if predicate is not none else 'true' }}
    {{ sorted_by_config(rows) }}
{% endmacro %}
