{#
    All rows of those partitions of the relation that changed since this model's last commit, by
    whatever commit: appended to, rewritten, emptied. For models of strategy `replace_partitions`,
    which write exactly these partitions anew. The commits' own summaries list the partitions: no
    data is read to find them.
#}
{% macro changed_partitions(relation, by) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(
        adapter.changed_partitions(
            model,
            relation,
            by,
            is_incremental(),
            context,
            var('compensate_days', []),
            var('compensate_request', ''),
        )
    ) -%}
{%- endmacro %}
