{#
    All rows of those closed periods (`month` or `year`) of the relation that this model has to
    rewrite: a partition of theirs changed since its last commit, or they closed since then. A
    period is closed once the relation has a row of a later period, of a day that isn't ahead of the
    clock in the var business_zone: an event that is dated by a clock that was wrong closes nothing.
    For models of strategy `replace_partitions` that are partitioned by the period's first day.
#}
{% macro closed_periods(relation, by, period, into) -%}
    {%- if not execute or relation.is_cte -%}
        {%- do adapter.default_reads.check_news_of_cte(
            model, relation, 'closed_periods'
        ) if execute -%}
        {%- do return(relation) -%}
    {%- endif -%}
    {%- do return(
        adapter.partitions.closed_periods(
            model,
            relation,
            by,
            period=period,
            into=into,
            incremental=is_incremental(),
            context=context,
            zone=var('business_zone', 'UTC'),
            asked=var('compensate_days', []),
            request=var('compensate_request', ''),
        )
    ) -%}
{%- endmacro %}
