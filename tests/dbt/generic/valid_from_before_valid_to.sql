{#
    Of a zipper: each version has a beginning, and an end that lies behind it, or none while it is
    current. Fails with the versions of which that isn't so.
#}
{% test valid_from_before_valid_to(model) %}
{% set is_impossible = (
    'valid_from is null or valid_to <= valid_from'
    ~ ' or is_current is null or is_current <> (valid_to is null)'
) %}
{{ config(meta={'fails_within': [], 'fails_where': is_impossible}) }}

with

impossible as (
    -- all columns: the keys are other keys in each zipper
    select * from {{ model }}
    where {{ is_impossible }}
)

select * from impossible

{% endtest %}
