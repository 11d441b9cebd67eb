{#
    Of a zipper: a key has at most one current version. Fails with the keys that have more.

    key: names of the columns of the key.
#}
{% test one_current_per_key(model, key) %}
{% set is_ambiguous = 'count_if(is_current) > 1' %}
{{ config(meta={
    'fails_within': key,
    'fails_having': {'group_by': key, 'condition': is_ambiguous},
}) }}

with

ambiguous as (
    select
        {{ key | join(',\n        ') }},
        count_if(is_current) as version_count
    from {{ model }}
    group by {{ key | join(', ') }}
    having {{ is_ambiguous }}
)

select * from ambiguous

{% endtest %}
