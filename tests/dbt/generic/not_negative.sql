{#
    No value of the column lies below zero; null passes. Fails with those rows.
#}
{% test not_negative(model, column_name) %}
{% set is_negative = column_name ~ ' < 0' %}
{{ config(meta={'fails_within': [], 'fails_where': is_negative}) }}

with

negative as (
    -- all columns: a test of any model can't name the keys that distinguish the rows
    select * from {{ model }}
    where {{ is_negative }}
)

select * from negative

{% endtest %}
