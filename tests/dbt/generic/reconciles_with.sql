{#
    For a reconciliation: its two answers differ in no more groups than `threshold`. Fails with the
    groups that differ, by key. Answers that could not be compared yet don't fail.

    after: the model that records the verdict, `ref('meta_quality')`; `dbt build` passes over what
    stands behind a failed test, and the record must not be.
    threshold: number of groups; the var reconciliation_threshold where left out.
#}
{% test reconciles_with(model, after, threshold=none) %}

-- runs after {{ after }}
with

differing as (
    -- all columns: the keys are other keys in each reconciliation
    select * from {{ model }}
    where
        not is_total
        and (
            select total.groups_differing
            from {{ model }} as total
            where total.is_total
        ) > {{ var('reconciliation_threshold') if threshold is none else threshold }}
)

select * from differing

{% endtest %}
