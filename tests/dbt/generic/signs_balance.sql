{#
    For a changelog of retract rows: every change is either one +I of sign 1, one -D of sign -1,
    or a pair of one -U of sign -1 and one +U of sign 1. Fails with the changes that are anything
    else: half an update, a change expanded twice, a wrong sign.

    change_key: column that distinguishes one change from every other.
#}
{% test signs_balance(model, change_key='unique_key') %}
{# concat_ws: a null kind or sign must spoil the text, not leave the row out #}
{% set kinds_and_signs = (
    "array_join(array_sort(collect_list("
    ~ "concat_ws(' ', row_kind, cast(sign as string)))), ', ')"
) %}
{% set is_unbalanced = kinds_and_signs ~ " not in ('+I 1', '-D -1', '+U 1, -U -1')" %}
{{ config(meta={
    'fails_within': [change_key],
    'fails_having': {'group_by': [change_key], 'condition': is_unbalanced},
}) }}

with

unbalanced as (
    select
        {{ change_key }},
        {{ kinds_and_signs }} as kinds_and_signs
    from {{ model }}
    group by {{ change_key }}
    having {{ is_unbalanced }}
)

select * from unbalanced

{% endtest %}
