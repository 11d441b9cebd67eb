{#
    Of a zipper: each version has a beginning, and an end that lies behind it, or none while it is
    current. Fails with the versions of which that isn't so.
#}
{% test valid_from_before_valid_to(model) %}
{{ config(meta={'fails_within': []}) }}

with

impossible as (
    -- all columns: the keys are other keys in each zipper
    select * from {{ model }}
    where
        valid_from is null
        or valid_to <= valid_from
        or is_current is null
        or is_current <> (valid_to is null)
)

select * from impossible

{% endtest %}
