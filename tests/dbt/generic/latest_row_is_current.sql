{#
    Of a zipper: the current version of a key is the version that began last. With `deletes` a key
    may have none, when its row is gone; without, each has one. Fails with the keys of which that
    isn't so.

    key: names of the columns of the key.
    deletes: whether rows of the source can be deleted.
#}
{% test latest_row_is_current(model, key, deletes=true) %}
{{ config(meta={'fails_within': key}) }}

with

latest as (
    select
        {{ key | join(',\n        ') }},
        max_by(is_current, valid_from) as latest_is_current,
        count_if(is_current) as current_count
    from {{ model }}
    group by {{ key | join(', ') }}
),

wrong as (
    select
        {{ key | join(',\n        ') }},
        latest_is_current,
        current_count
    from latest
    where not latest_is_current {{ 'and current_count > 0' if deletes }}
)

select * from wrong

{% endtest %}
