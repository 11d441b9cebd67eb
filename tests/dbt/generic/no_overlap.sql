{#
    Of a zipper: no two versions of a key are valid at one time. Fails with the versions that begin
    before the version before them ends, or at the same time.

    key: names of the columns of the key.
#}
{% test no_overlap(model, key) %}
{{ config(meta={'fails_within': key}) }}

with

followed as (
    {{ followed_versions(model, key) }}
),

overlapping as (
    select
        {{ key | join(',\n        ') }},
        valid_from,
        valid_to,
        next_valid_from
    from followed
    where next_valid_from < valid_to or (next_valid_from is not null and valid_to is null)
)

select * from overlapping

{% endtest %}
