{#
    Measures of several domains side by side by what they share: one row per group that any of them
    has. A domain that lacks a group is null there; its row isn't lost.

    domains: CTE -> its measures, one row per group in each; keys: columns that they all have. Nulls
    among the keys are a group like any other.
#}
{% macro side_by_side(keys, domains) -%}
    {%- do adapter.declarations.check_arguments(
        'side_by_side', {'keys': keys, 'domains': domains}
    ) -%}
    {%- set measures = domains.values() | sum(start=[]) -%}
    select
        {{ keys | join(',\n        ') }},
        {%- for name in measures %}
        any_value({{ name }}, true) as {{ name }}{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        {%- for cte, own in domains.items() %}
        select
            {{ keys | join(',\n            ') }},
            {%- for name in measures %}
            {{ name if name in own else 'null as ' ~ name }}{{ ',' if not loop.last }}
            {%- endfor %}
        from {{ cte }}
        {%- if not loop.last %}
        union all
        {%- endif %}
        {%- endfor %}
    ) as all_domains
    group by {{ keys | join(', ') }}
{%- endmacro %}
