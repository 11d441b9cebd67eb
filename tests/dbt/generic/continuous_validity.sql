{#
    Of a zipper over rows that are never deleted: each version but the last ends when the next one
    begins. Fails with the versions behind which there is a gap or an overlap.

    key: names of the columns of the key.
#}
{% test continuous_validity(model, key) %}
{{ config(meta={'fails_within': key}) }}

with

followed as (
    {{ followed_versions(model, key) }}
),

broken as (
    select
        {{ key | join(',\n        ') }},
        valid_from,
        valid_to,
        next_valid_from
    from followed
    where next_valid_from is not null and not (valid_to <=> next_valid_from)
)

select * from broken

{% endtest %}
