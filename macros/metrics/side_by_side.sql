{#
    Measures of several domains side by side by what they share: one row per group that any of them
    has. A domain that lacks a group is null there; its row isn't lost.

    domains: CTE -> its measures, one row per group in each; keys: columns that they all have. Nulls
    among the keys are a group like any other. A domain with several rows of a group fails the
    query: which of them would stand there is chance.
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
            {{ loop.index }} as number_of_domain,
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
    having
        {%- for cte in domains %}
        {{ 'and ' if not loop.first -}} if(
            count_if(number_of_domain = {{ loop.index }}) > 1,
            raise_error({{ _several_rows(cte, keys) }}),
            true
        )
        {%- endfor %}
{%- endmacro %}

{# SQL text of the error of a domain with several rows of a group. #}
{% macro _several_rows(cte, keys) -%}
    concat(
        {{ _sql_text(
            'side_by_side: ' ~ cte ~ ' has several rows of one group, and which of them would be '
            ~ 'shown is chance; let it have a row for each ' ~ keys | join(', ') ~ '. The group: '
        ) }},
        {%- for key in keys %}
        coalesce(cast({{ key }} as string), 'null'){{ ", ', '," if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}
