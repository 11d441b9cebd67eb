{#
    The model's sum of `expression` equals the sum of `other_expression` in another relation:
    nothing got lost or was counted twice on the way. An empty relation sums up to 0. Fails with
    one row, the two sums.

    expression: column or SQL expression over the model's columns.
    other: relation to compare with, `ref('..')`.
    other_expression: column or SQL expression over its columns; `expression` where left out.
#}
{% test sums_match(model, expression, other, other_expression=none) %}
{{ config(meta={'sums': [expression, other_expression or expression]}) }}

with

model_sum as (
    select coalesce(sum({{ expression }}), 0) as total
    from {{ model }}
),

other_sum as (
    select coalesce(sum({{ other_expression or expression }}), 0) as total
    from {{ other }}
),

differing as (
    select
        model_sum.total as model_total,
        other_sum.total as other_total
    from model_sum
    cross join other_sum
    where model_sum.total <> other_sum.total
)

select * from differing

{% endtest %}
