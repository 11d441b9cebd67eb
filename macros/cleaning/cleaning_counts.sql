{#
    What the rules of cleaned models did: one row per model, column and rule, with the rows that it
    changed and those whose value it refused. A rule that did nothing has no row.

    from_ctes: each with the column `cleaning` of cleaned(..), named as its model.
#}
{% macro cleaning_counts(from_ctes) -%}
    select
        model_name,
        done.column_name,
        done.rule,
        count_if(done.outcome = 'changed') as changed_count,
        count_if(done.outcome = 'refused') as refused_count
    from (
        {%- for from_cte in from_ctes %}
        select
            '{{ from_cte }}' as model_name,
            explode({{ from_cte }}.cleaning) as done
        from {{ from_cte }}
        {{- '\n        union all' if not loop.last }}
        {%- endfor %}
    ) as told
    group by
        model_name,
        done.column_name,
        done.rule
{%- endmacro %}
