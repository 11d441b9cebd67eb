{#
    Of a snapshot: its current versions are the rows that it is taken of. Fails with the rows that
    only one side has: by strategy timestamp a row that was changed without a later time. Of
    beliefs: what is believed now is what their zipper holds.

    relation: what the snapshot is taken of.
    columns: names of the columns that are compared.
    current_when: SQL condition of a current version.
#}
{% test current_versions_equal(
    model, relation, columns, current_when='dbt_valid_to is null'
) %}

with

current_versions as (
    select {{ columns | join(', ') }}
    from {{ model }}
    where {{ current_when }}
),

wanted_rows as (
    select {{ columns | join(', ') }}
    from {{ relation }}
),

missing_rows as (
    select {{ columns | join(', ') }} from wanted_rows
    except all
    select {{ columns | join(', ') }} from current_versions
),

extra_rows as (
    select {{ columns | join(', ') }} from current_versions
    except all
    select {{ columns | join(', ') }} from wanted_rows
),

differing_rows as (
    select
        {{ columns | join(',\n        ') }},
        'missing' as difference
    from missing_rows
    union all
    select
        {{ columns | join(',\n        ') }},
        'extra' as difference
    from extra_rows
)

select * from differing_rows

{% endtest %}
