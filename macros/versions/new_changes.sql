{#
    What changed in the relation between this model's last commit and the run's pinned snapshot, as
    retract rows: its columns, row_kind (+I, -U, +U, -D) and sign. All rows as +I when the model is
    built anew. Each change once, however the relation was written: appended to, merged into,
    overwritten, replaced, compacted; a row that was written again as it was gives none.

    Of a view over a log, or a table that has a row_kind, these are its own new rows. Of a folded
    model the keys of its new runs are compared, of a table that was only appended to the new rows
    are told, of any other the partitions that were touched are compared, by the unique_key of its
    config or by `by`; without a key equal rows are counted.
#}
{% macro new_changes(relation, by=none) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(
        adapter.new_changes(model, relation, by, is_incremental(), context)
    ) -%}
{%- endmacro %}
