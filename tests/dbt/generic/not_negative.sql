{#
    No value of the column lies below zero; null passes. Fails with those rows.
#}
{% test not_negative(model, column_name) %}
{{ config(meta={'fails_within': [], 'fails_where': column_name ~ ' < 0'}) }}

with

negative as (
    -- all columns: a test of any model can't name the keys that distinguish the rows
    select * from {{ model }}
    where {{ column_name }} < 0
)

select * from negative

{% endtest %}
