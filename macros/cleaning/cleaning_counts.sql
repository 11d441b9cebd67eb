{#
    What the rules of cleaned models did: one row per model, column and rule, with the rows that it
    changed and those whose value it refused. A rule that did nothing has no row.

    from_ctes: each with the column `cleaning` of cleaned(..), named as its model, and `sign`: of
    retract rows a row that left takes back what was counted of it.
#}
{% macro cleaning_counts(from_ctes) -%}
    select
        model_name,
        done.column_name,
        done.rule,
        sum(if(done.outcome = 'changed', sign, 0)) as changed_count,
        sum(if(done.outcome = 'refused', sign, 0)) as refused_count
    from (
        {%- for from_cte in from_ctes %}
        select
            '{{ from_cte }}' as model_name,
            {{ from_cte }}.sign,
            explode({{ from_cte }}.cleaning) as done
        from {{ from_cte }}
        {{- '\n        union all' if not loop.last }}
        {%- endfor %}
    ) as applied
    group by
        model_name,
        done.column_name,
        done.rule
    having changed_count <> 0 or refused_count <> 0
{%- endmacro %}
