{#
    The versions of a zipper, each with the beginning of the one behind it. For a CTE.

    key: names of the columns of the key.
#}
{% macro followed_versions(model, key) -%}
    select
        {{ key | join(',\n        ') }},
        valid_from,
        valid_to,
        lead(valid_from) over (
            partition by {{ key | join(', ') }}
            order by valid_from, valid_to nulls last
        ) as next_valid_from
    from {{ model }}
{%- endmacro %}
