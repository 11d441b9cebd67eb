{#
    Of a zipper: a key has at most one current version. Fails with the keys that have more.

    key: names of the columns of the key.
#}
{% test one_current_per_key(model, key) %}
{{ config(meta={'fails_within': key}) }}

with

current_versions as (
    select
        {{ key | join(',\n        ') }},
        count(*) as version_count
    from {{ model }}
    where is_current
    group by {{ key | join(', ') }}
),

ambiguous as (
    select
        {{ key | join(',\n        ') }},
        version_count
    from current_versions
    where version_count > 1
)

select * from ambiguous

{% endtest %}
