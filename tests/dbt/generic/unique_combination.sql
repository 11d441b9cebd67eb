{#
    No two rows agree in all of `columns`. Nulls count as equal, as the columns' values do in a
    `group by`: a null user has one row a day like any other. Fails with the repeated values.

    columns: names of columns of the model, at least one.
#}
{% test unique_combination(model, columns) %}
{{ config(meta={
    'fails_within': columns,
    'fails_having': {'group_by': columns, 'condition': 'count(*) > 1'},
}) }}

with

combinations as (
    select
        {{ columns | join(',\n        ') }},
        count(*) as row_count
    from {{ model }}
    group by {{ columns | join(', ') }}
),

repeated as (
    select
        {{ columns | join(',\n        ') }},
        row_count
    from combinations
    where row_count > 1
)

select * from repeated

{% endtest %}
