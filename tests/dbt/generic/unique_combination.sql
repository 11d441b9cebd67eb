{#
    No two rows agree in all of `columns`. Nulls count as equal, as the columns' values do in a
    `group by`: a null user has one row a day like any other. Fails with the repeated values.

    columns: names of columns of the model, at least one.
#}
{% test unique_combination(model, columns) %}
{% set is_repeated = 'count(*) > 1' %}
{{ config(meta={
    'fails_within': columns,
    'fails_having': {'group_by': columns, 'condition': is_repeated},
}) }}

with

repeated as (
    select
        {{ columns | join(',\n        ') }},
        count(*) as row_count
    from {{ model }}
    group by {{ columns | join(', ') }}
    having {{ is_repeated }}
)

select * from repeated

{% endtest %}
