{#
    What changed in the relation between this model's last commit and the run's pinned snapshot, as
    retract rows: its columns, row_kind (+I, -U, +U, -D) and sign. All rows as +I when the model is
    rebuilt. Each change once, however the relation was written: appended to, merged into,
    overwritten, replaced, compacted; a row that was written again as it was gives none.

    Of a view over a log, or a table that has a row_kind, these are its own new rows; where it has
    of none what it is, each is a +I. Of a folded model the keys of its new runs are compared, of a
    table that was only appended to the new rows are given, of any other the partitions that were
    touched are compared, by the unique_key of its config (of a snapshot its versions, by
    dbt_scd_id) or by `by`; without a key equal rows are counted.

    Where the changes are unknown, since the snapshot that was read last has expired or a
    log was rewritten, all rows are given as +I. An incremental model then replaces its rows by what
    it makes of all inputs, in one commit, whatever its strategy.
#}
{% macro new_changes(relation, by=none) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do adapter.default_reads.check_news_of_cte(
            model, relation, 'new_changes'
        ) if execute -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(
        adapter.changes.new_changes(model, relation, by, is_incremental(), context)
    ) -%}
{%- endmacro %}
