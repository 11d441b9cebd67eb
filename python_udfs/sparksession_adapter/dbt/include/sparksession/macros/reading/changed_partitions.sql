{#
    All rows of those partitions of the relation that changed since this model's last commit, by
    whatever commit: appended to, rewritten, emptied. For models of strategy `replace_partitions`,
    which write exactly these partitions again. The commits' own summaries list the partitions: no
    data is read to find them. Of several inputs that are read so, by one column, each gives the
    rows of the partitions that changed in any of them; where an input that is read by pinned(..)
    has changed, all rows are given. All reads of the model are noted before, by rendering its SQL
    once more, so it doesn't matter where in it they stand.
#}
{% macro changed_partitions(relation, by) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do adapter.default_reads.check_news_of_cte(
            model, relation, 'changed_partitions'
        ) if execute -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(
        adapter.partitions.changed_partitions(
            model,
            relation,
            by,
            is_incremental(),
            context,
            asked=var('compensate_days', []),
            request=var('compensate_request', ''),
        )
    ) -%}
{%- endmacro %}
