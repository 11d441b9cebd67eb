{#
    Of a zipper: the current version of a key is the version that began last. With `deletes` a key
    may have none, when its row is gone; without, each has one. Fails with the keys of which that
    isn't so.

    key: names of the columns of the key.
    deletes: whether rows of the source can be deleted.
#}
{% test latest_row_is_current(model, key, deletes=true) %}
{% set is_wrong = (
    'not max_by(is_current, struct(valid_from, not is_current))'
    ~ (' and count_if(is_current) > 0' if deletes else '')
) %}
{{ config(meta={
    'fails_within': key,
    'fails_having': {'group_by': key, 'condition': is_wrong},
}) }}

with

wrong as (
    select
        {{ key | join(',\n        ') }},
        max_by(is_current, struct(valid_from, not is_current)) as latest_is_current,
        count_if(is_current) as current_count
    from {{ model }}
    group by {{ key | join(', ') }}
    having {{ is_wrong }}
)

select * from wrong

{% endtest %}
